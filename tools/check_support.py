#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Compares docs/support.toml and docs/troubleshooting.md with the tests and the messages of the library.

docs/support.toml (tools/support_page.py has its format): every cell is a list of claims. By its `kind`, a claim

  works       names tests;
  stays       quotes the reason that a source in src gives, and names tests;
  refused     quotes a message of src, and names tests;
  seen        links the document with date and machine;
  not tested  needs nothing.

A test is `Suite.Test` or `Instantiation/Suite.Test/Parameter` of GoogleTest, `file.py::test` of pytest, or a name of
add_test(). Every test of the files below is named. What only runs on GPUs or with a stock NCCL shows nothing about the
simulated GPU: no tested claim names it. docs/support.md is what tools/support_page.py writes, without a line of more than
200 characters. docs/troubleshooting.md: the text in the column `message` is in src. The check compares names only: a reviewer
must verify that a test shows what its claim says.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import check_failures
import markdown_text
import source_tree
import support_page

TROUBLES = "docs/troubleshooting.md"
MAX_LINE = 200
_ABOUT_SUPPORT = re.compile(r"tests/process/(transports|containers|net_plugin|descriptors|several_devices)_test\.cc")
_SPAN = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"[\w./-]+\.md(?:#[\w-]+)?")
_KINDS = ("works", "stays", "refused", "seen", "not tested")
_QUOTING = ("stays", "refused")
_TESTED = ("works", *_QUOTING)
_KEYS = {"kind", "text", "tests", "quote", "seen"}
_PYTHON_TEST = re.compile(r"^[ ]*def (test_\w+)\(", re.MULTILINE)
_ADDED_TEST = re.compile(r"\badd_test\(NAME ([\w.]+)(?=[\s)])")


class Tests:
    """Every test of the sources, by the names that a claim may have."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.gtests = check_failures.tests_of(root)
        self.others: set[str] = set()
        for path in source_tree.all_files(root):
            if path.suffix == ".py":
                text = (root / path).read_text(encoding="utf-8")
                self.others |= {f"{path.name}::{name}" for name in _PYTHON_TEST.findall(text)}
            elif path.name == "CMakeLists.txt" or path.suffix == ".cmake":
                self.others |= set(_ADDED_TEST.findall((root / path).read_text(encoding="utf-8")))

    def plain(self, name: str) -> str:
        """`Suite.Test` of a name with an instantiation and a parameter."""
        return name.split("/")[1] if name.count("/") == 2 else name

    def exists(self, name: str) -> bool:
        plain = self.plain(name)
        if plain == name:
            return name in self.gtests or name in self.others
        if plain not in self.gtests:
            return False
        instantiation, _, parameter = name.split("/")
        text = (self.root / self.gtests[plain][0]).read_text(encoding="utf-8")
        suite = plain.split(".")[0]
        made = re.search(rf"INSTANTIATE_TEST_SUITE_P\(\s*{instantiation},\s*{suite}\b", text)
        return made is not None and f'"{parameter}"' in text


def fault_of(claim: dict[str, Any], tests: Tests, sentences: str) -> str | None:
    """What is wrong with a claim, or None."""
    kind = claim.get("kind")
    if kind not in _KINDS:
        return f"the kind '{kind}' is none of: {', '.join(_KINDS)}"
    unknown = sorted(set(claim) - _KEYS)
    if unknown:
        return f"a claim has no '{unknown[0]}'"
    for name in claim.get("tests", []):
        if not tests.exists(name):
            return f"there is no test {name}"
    for sentence in support_page.quotes_of(claim):
        part = check_failures.missing_part(sentence, sentences)
        if part is not None:
            return f"nothing in src says '{part}'"
    if kind in _TESTED and not claim.get("tests"):
        return f"'{kind}' names no test"
    if kind in _QUOTING and not any(map(check_failures.is_sentence, support_page.quotes_of(claim))):
        return f"'{kind}' does not quote what amem says"
    if kind == "seen" and not ("text" in claim and _LINK.fullmatch(claim.get("seen", ""))):
        return "'seen' does not say or does not link where it was seen"
    return None


def claims_of(data: dict[str, Any], findings: source_tree.Findings) -> list[tuple[str, dict[str, Any]]]:
    """(table and row, claim) of each claim."""
    claims = []
    for table in data.get("tables", []):
        for row in table.get("rows", []):
            place = f"{table['columns'][0]}, {row['name'].strip()}"
            if len(row["cells"]) != len(table["columns"]) - 1:
                findings.add(support_page.DATA, 0, f"{place}: {len(row['cells'])} cells for the columns {table['columns'][1:]}")
            claims += [(place, claim) for cell in row["cells"] for claim in cell]
    if not claims:
        raise source_tree.CannotRun(f"{support_page.DATA} has no claims")
    return claims


def check_support(root: Path, tests: Tests, sentences: str, findings: source_tree.Findings) -> None:
    data = support_page.read_data(root)
    named = set()
    faults = len(findings.lines)
    for place, claim in claims_of(data, findings):
        named |= {tests.plain(name) for name in claim.get("tests", [])}
        fault = fault_of(claim, tests, sentences)
        if fault is not None:
            findings.add(support_page.DATA, 0, f"{place}: {fault}")
    for name, (path, line) in sorted(tests.gtests.items()):
        if _ABOUT_SUPPORT.fullmatch(path) and name not in named:
            findings.add(path, line, f"{name} stands in no row of {support_page.DATA}")
    if len(findings.lines) == faults:
        check_page(root, data, findings)


def check_page(root: Path, data: dict[str, Any], findings: source_tree.Findings) -> None:
    page = source_tree.require(root, support_page.PAGE)
    if page != support_page.page_of(data):
        findings.add(support_page.PAGE, 0, f"differs from {support_page.DATA}: run `python3 tools/support_page.py`")
    for number, line in enumerate(page.splitlines(), 1):
        if len(line) > MAX_LINE:
            findings.add(support_page.PAGE, number, f"has {len(line)} characters, at most {MAX_LINE} are allowed")


def check_troubles(root: Path, sentences: str, findings: source_tree.Findings) -> None:
    rows = [row for _, table in markdown_text.tables(source_tree.require(root, TROUBLES)) for row in table]
    for line, row in rows:
        for quoted in filter(check_failures.is_sentence, _SPAN.findall(row.get("message", ""))):
            part = check_failures.missing_part(quoted, sentences)
            if part is not None:
                findings.add(TROUBLES, line, f"nothing in src says '{part}'")


def check(root: Path, findings: source_tree.Findings) -> None:
    sentences = check_failures.sentences_of(root)
    check_support(root, Tests(root), sentences, findings)
    check_troubles(root, sentences, findings)


if __name__ == "__main__":
    sys.exit(source_tree.main_of(check, __doc__))
