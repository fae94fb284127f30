#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Compares src/driver/functions.def with docs/interception.md and the tests.

Each row AMEM_DRIVER_FUNCTION(name, symbol, since, handling, ...) appears, under one of its names, in
the first column of a table of docs/interception.md, with the same handling in the column `handling`
if the table has one, and in a contract or hook test. Each driver function in the first column of a
table of the document has a row. The check compares names only: a comment in a test is sufficient.
"""

import re
import sys
from pathlib import Path

import markdown_text
import source_tree

TABLE = "src/driver/functions.def"
DOCUMENT = "docs/interception.md"
_ROW = re.compile(r"^AMEM_DRIVER_FUNCTION\((\w+), (\w+), (\d+), (\w+)", re.MULTILINE)
_DRIVER_NAME = re.compile(r"\bcu[A-Z]\w*\b")


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


def check(root: Path, findings: source_tree.Findings) -> None:
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
