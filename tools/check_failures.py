#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Compares docs/failure_modes.md with the fault tests and with the messages of the library.

Every row of its tables names existing tests (`Suite.Test`) in the column `tests`. Every test of
tests/faults, of tests/process about misuse, death, exit, children, bystanders or strangers, and of
src/transport about hostile peers, is named there. What the column `caller sees` quotes, except the
names of results, is part of a string in src or symmetric; … stands for any text. The check compares names only:
a reviewer must verify that a test shows what its row says.
"""

import re
import sys
from pathlib import Path

import markdown_text
import source_tree

DOCUMENT = "docs/failure_modes.md"
_ABOUT_FAULTS = re.compile(
    r"tests/faults/\w+_test\.cc|tests/process/(misuse|death|exit|children|bystander|stranger)\w*_test\.cc|"
    r"src/transport/hostile\w*_test\.cc"
)
_TEST = re.compile(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", re.MULTILINE)
_LITERALS = re.compile(r'"((?:[^"\\\n]|\\.)*)"(?:\s*"((?:[^"\\\n]|\\.)*)")*')
_PIECE = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_SPAN = re.compile(r"`([^`]+)`")
_SAYS = re.compile(r"(src|symmetric)/.*\.(cc|h)|python/amem/.*\.py")
_FORMAT = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z|j)?[a-zA-Z]")


def tests_of(root: Path) -> dict[str, tuple[str, int]]:
    """{"Suite.Test": (path, line)} of every GoogleTest of the project."""
    found = {}
    for path in source_tree.all_files(root):
        if not path.name.endswith("_test.cc"):
            continue
        text = (root / path).read_text(encoding="utf-8")
        for match in _TEST.finditer(text):
            found[f"{match[1]}.{match[2]}"] = (str(path), source_tree.line_of(text, match.start()))
    return found


def sentences_of(root: Path) -> str:
    """All strings of src, of symmetric and of the Python package, adjacent literals joined, what a format fills in as …."""
    parts = []
    for path in source_tree.all_files(root):
        if not _SAYS.fullmatch(str(path)) or path.name.endswith("_test.cc"):
            continue
        text = (root / path).read_text(encoding="utf-8")
        for match in _LITERALS.finditer(text):
            parts.append("".join(piece[1] for piece in _PIECE.finditer(match[0])))
    return _FORMAT.sub("…", "\n".join(parts)).replace('\\"', '"')


def is_sentence(quoted: str) -> bool:
    """Names of results and calls are no sentences of ours."""
    return " " in quoted


def missing_part(quoted: str, sentences: str) -> str | None:
    """The first part between … that src does not say, or None."""
    for part in quoted.split("…"):
        part = part.strip(" ;:,")
        if len(part) >= 3 and part not in sentences:
            return part
    return None


def check(root: Path, findings: source_tree.Findings) -> None:
    tables = markdown_text.tables(source_tree.require(root, DOCUMENT))
    tests, sentences, named = tests_of(root), sentences_of(root), set()
    rows = [row for _, table in tables for row in table]
    if not rows:
        raise source_tree.CannotRun(f"{DOCUMENT} has no tables")
    for line, row in rows:
        if "tests" not in row:
            continue
        names = _SPAN.findall(row["tests"])
        if not names:
            findings.add(DOCUMENT, line, "this row names no test")
        for name in names:
            named.add(name)
            if name not in tests:
                findings.add(DOCUMENT, line, f"there is no test {name}")
        for quoted in filter(is_sentence, _SPAN.findall(row.get("caller sees", ""))):
            part = missing_part(quoted, sentences)
            if part is not None:
                findings.add(DOCUMENT, line, f"nothing in src says '{part}'")
    for name, (path, line) in sorted(tests.items()):
        if _ABOUT_FAULTS.fullmatch(path) and name not in named:
            findings.add(path, line, f"{name} stands in no row of {DOCUMENT}")


if __name__ == "__main__":
    sys.exit(source_tree.main_of(check, __doc__))
