#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Compares the tables of functions with the documents and the tests.

NCCL: each row AMEM_NCCL_FUNCTION(name, ...) of nccl_functions.def is a name that amem's libnccl.so.2 exports
(nccl.symbols), and appears in a test or in a program of the tests (jobs/).

The driver: each row AMEM_DRIVER_FUNCTION(name, symbol, since, handling, ...) of src/driver/functions.def appears, under
one of its names, in the first column of a table of docs/interception.md, with the same handling in the column `handling`
if the table has one, and in a contract or hook test. Each driver function in the first column of a table of the document
has a row. The check compares names only: a comment in a test is sufficient.
"""

import re
import sys
from pathlib import Path

import markdown_text
import source_tree

TABLE = "src/driver/functions.def"
DOCUMENT = "docs/interception.md"
_ROW = re.compile(r"^AMEM_DRIVER_FUNCTION\((\w+), (\w+), (\d+), (\w+)", re.MULTILINE)
NCCL_TABLE = "src/clients/nccl/doors/nccl_functions.def"
NCCL_EXPORTS = "src/clients/nccl/forwarder/exports/nccl.symbols"
_NCCL_ROW = re.compile(r"^AMEM_NCCL_FUNCTION\((\w+)", re.MULTILINE)
_NCCL_NAME = re.compile(r"\bnccl[A-Z]\w*\b")
_DRIVER_NAME = re.compile(r"\bcu[A-Z][a-z]\w*\b")  # not cuBLAS


def read_rows(text: str) -> list[tuple[int, str, str, str]]:
    """(line, name, symbol, handling) of each row."""
    return [(source_tree.line_of(text, m.start()), m[1], m[2], m[4]) for m in _ROW.finditer(text)]


def documented(text: str) -> dict[str, tuple[int, str | None]]:
    """{driver function: (line, handling or None)} of the first columns of every table."""
    found = {}
    for _, rows in markdown_text.tables(text):
        for line, row in rows:
            for name in _DRIVER_NAME.findall(next(iter(row.values()), "")):
                found[name] = (line, row.get("handling"))
    return found


def is_contract_or_hook_test(path: Path) -> bool:
    if path.name.endswith((".cc", ".h", ".c", ".py")) and path.parts[0] == "tests":
        return any("contract" in part or "hook" in part for part in path.parts)
    return path.parts[:2] in (("src", "clients"), ("src", "driver")) and path.name.endswith("_test.cc")


def tested(root: Path) -> set[str]:
    """Every driver function that a contract or hook test names."""
    names = set()
    for path in source_tree.all_files(root):
        if is_contract_or_hook_test(path):
            names |= set(_DRIVER_NAME.findall((root / path).read_text(encoding="utf-8")))
    return names


def check_nccl(root: Path, findings: source_tree.Findings) -> None:
    text = source_tree.require(root, NCCL_TABLE)
    exported = set(_NCCL_NAME.findall(source_tree.require(root, NCCL_EXPORTS)))
    tested: set[str] = set()
    for path in source_tree.all_files(root):
        if path.parts[0] in ("tests", "jobs") or path.name.endswith("_test.cc"):
            tested |= set(_NCCL_NAME.findall((root / path).read_text(encoding="utf-8", errors="replace")))
    for match in _NCCL_ROW.finditer(text):
        if match[1] not in exported:
            findings.add(NCCL_TABLE, source_tree.line_of(text, match.start()), f"{match[1]} is not in {NCCL_EXPORTS}")
        if match[1] not in tested:
            findings.add(NCCL_TABLE, source_tree.line_of(text, match.start()), f"{match[1]} is named in no test")


def check(root: Path, findings: source_tree.Findings) -> None:
    check_nccl(root, findings)
    rows = read_rows(source_tree.require(root, TABLE))
    if not rows:
        raise source_tree.CannotRun(f"{TABLE} has no rows")
    in_document = documented(source_tree.require(root, DOCUMENT))
    in_tests = tested(root)
    for line, name, symbol, handling in rows:
        named = [n for n in (symbol, name) if n in in_document]
        if not named:
            findings.add(TABLE, line, f"{name} stands in no table of {DOCUMENT}")
        else:
            there, says = in_document[named[0]]
            if says is not None and says.strip("` ").split(" ")[0] != handling:
                findings.add(DOCUMENT, there, f"{named[0]} is '{handling}' in {TABLE}")
        if not {name, symbol} & in_tests:
            findings.add(TABLE, line, f"{name} is named in no contract or hook test")
    known = {row[1] for row in rows} | {row[2] for row in rows}
    for name in sorted(set(in_document) - known):
        findings.add(DOCUMENT, in_document[name][0], f"{name} is no row of {TABLE}")


if __name__ == "__main__":
    sys.exit(source_tree.main_of(check, __doc__))
