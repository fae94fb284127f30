#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Compares docs/support.md and docs/troubleshooting.md with the tests and the messages of the library.

docs/support.md: every cell except the first of a row is `–` or a list of claims, separated by `; `. Each claim begins with

  works           and names tests;
  stays resident  and quotes the reason that a source in src gives, and names tests;
  refused         and quotes a message of src, and names tests;
  seen            and links the document with date and machine;
  not tested.

In cells, a code span with a space is a quotation. Any other code span is the name of a test: `Suite.Test` or
`Instantiation/Suite.Test/Parameter` of GoogleTest, `file.py::test` of pytest, or a name of add_test(). Every test of
the files below is named. What only runs on GPUs or with a stock NCCL shows nothing about the simulated GPU: no tested claim
names it. docs/troubleshooting.md: the text in the column `message` is in src. The check compares names
only: a reviewer must verify that a test shows what its cell claims.
"""

import re
import sys

import check_failures
import markdown_text
import source_tree

SUPPORT = "docs/support.md"
TROUBLES = "docs/troubleshooting.md"
_ABOUT_SUPPORT = re.compile(r"tests/process/(transports|containers|net_plugin|descriptors|several_devices)_test\.cc")
_SPAN = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\]\([^)]*\.md(?:#[^)]*)?\)")
_KINDS = ("works", "stays resident", "refused", "seen", "not tested")
_QUOTING = ("stays resident", "refused")
_TESTED = ("works", *_QUOTING)
_PYTHON_TEST = re.compile(r"^[ ]*def (test_\w+)\(", re.MULTILINE)
_ADDED_TEST = re.compile(r"\badd_test\(NAME ([\w.]+)(?=[\s)])")


class Tests:
    """Every test of the sources, by the names that a cell may have."""

    def __init__(self, root):
        self.root = root
        self.gtests = check_failures.tests_of(root)
        self.others = set()
        for path in source_tree.all_files(root):
            if path.suffix == ".py":
                text = (root / path).read_text(encoding="utf-8")
                self.others |= {f"{path.name}::{name}" for name in _PYTHON_TEST.findall(text)}
            elif path.name == "CMakeLists.txt" or path.suffix == ".cmake":
                self.others |= set(_ADDED_TEST.findall((root / path).read_text(encoding="utf-8")))

    def plain(self, name):
        """`Suite.Test` of a name with an instantiation and a parameter."""
        return name.split("/")[1] if name.count("/") == 2 else name

    def exists(self, name):
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


def claims_of(cell):
    """The claims of a cell; a `; ` in a code span does not separate two."""
    spans = []

    def take(match):
        spans.append(match[0])
        return f"\0{len(spans) - 1}\0"

    claims = _SPAN.sub(take, cell).split("; ")
    return [re.sub("\0(\\d+)\0", lambda match: spans[int(match[1])], claim).strip() for claim in claims]


def fault_of(claim, tests, sentences):
    """What is wrong with a claim, or None."""
    kind = next((each for each in _KINDS if re.match(rf"{each}\b", claim)), None)
    if kind is None:
        return f"'{claim}' begins with none of: {', '.join(_KINDS)}"
    spans = _SPAN.findall(claim)
    quoted = [span for span in spans if check_failures.is_sentence(span)]
    names = [span for span in spans if not check_failures.is_sentence(span)]
    for name in names:
        if not tests.exists(name):
            return f"there is no test {name}"
    for sentence in quoted:
        part = check_failures.missing_part(sentence, sentences)
        if part is not None:
            return f"nothing in src says '{part}'"
    if kind in _TESTED and not names:
        return f"'{claim}' names no test"
    if kind in _QUOTING and not quoted:
        return f"'{claim}' does not quote what amem says"
    if kind == "seen" and not _LINK.search(claim):
        return f"'{claim}' does not link where it was seen"
    return None


def check_support(root, tests, sentences, findings):
    text = source_tree.require(root, SUPPORT)
    rows = [row for _, table in markdown_text.tables(text) for row in table]
    if not rows:
        raise source_tree.CannotRun(f"{SUPPORT} has no tables")
    for line, row in rows:
        for cell in list(row.values())[1:]:
            for claim in [] if cell == "–" else claims_of(cell):
                fault = fault_of(claim, tests, sentences)
                if fault is not None:
                    findings.add(SUPPORT, line, fault)
    named = {tests.plain(span) for span in _SPAN.findall(text)}
    for name, (path, line) in sorted(tests.gtests.items()):
        if _ABOUT_SUPPORT.fullmatch(path) and name not in named:
            findings.add(path, line, f"{name} stands in no row of {SUPPORT}")


def check_troubles(root, sentences, findings):
    rows = [row for _, table in markdown_text.tables(source_tree.require(root, TROUBLES)) for row in table]
    for line, row in rows:
        for quoted in filter(check_failures.is_sentence, _SPAN.findall(row.get("message", ""))):
            part = check_failures.missing_part(quoted, sentences)
            if part is not None:
                findings.add(TROUBLES, line, f"nothing in src says '{part}'")


def check(root, findings):
    sentences = check_failures.sentences_of(root)
    check_support(root, Tests(root), sentences, findings)
    check_troubles(root, sentences, findings)


if __name__ == "__main__":
    sys.exit(source_tree.main_of(check, __doc__))
