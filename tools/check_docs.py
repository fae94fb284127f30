#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Checks that what the documents name exists.

Environment: the table under README's heading "Environment..." lists each variable of
environment.def exactly once, with the same default. In README, ARCHITECTURE, CONTRIBUTING and
docs/: every path in a `code span`, every `./dev` command, every AMEM_ name and every relative link
exists. A path of another project has the name of the project (NCCL, PyTorch, Linux) before its span
or an @version after it.
"""

import re
import sys
from pathlib import Path
from typing import Optional

import markdown_text
import source_tree

DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
TOP_FOLDERS = source_tree.ALL_FOLDERS + (".github",)
_ROW = re.compile(r'^AMEM_VARIABLE\(\w+, (\w+), "([^"]*)"', re.MULTILINE)
_ELSEWHERE = re.compile(r"\b(?:NCCL|PyTorch|Linux)(?:'s)?\s*\W?$")
_PATH = re.compile(r"[\w.\-*/{},]+")


def read_variables(text: str) -> dict[str, Optional[str]]:
    """{name: default, or None for none} of environment.def."""
    variables = {name: None if default == "none" else default for name, default in _ROW.findall(text)}
    if not variables:
        raise source_tree.CannotRun("src/base/environment.def has no rows")
    return variables


def check_environment(root: Path, findings: source_tree.Findings) -> None:
    variables = read_variables(source_tree.require(root, "src/base/environment.def"))
    rows = markdown_text.table_under(source_tree.require(root, "README.md"), r"^environment")
    if rows is None:
        findings.add("README.md", 0, "has no table under a heading 'Environment'")
        return
    seen = set()
    for line, row in rows:
        names = re.findall(r"\b(?:AMEM|GMM)_[A-Z_]+\b", next(iter(row.values())))
        if not names:
            findings.add("README.md", line, "this row of the environment table names no variable")
        for name in names:
            if name not in variables:
                findings.add("README.md", line, f"{name} is no row of src/base/environment.def")
            elif name in seen:
                findings.add("README.md", line, f"{name} stands twice")
            default = row.get("default", "").strip("` ")
            expected = variables.get(name)
            if default and expected is not None and default.split()[0].strip("`,;") != expected:
                findings.add("README.md", line, f"the default of {name} is {expected}")
            seen.add(name)
    for name in sorted(set(variables) - seen):
        findings.add("README.md", 0, f"the environment table lacks {name}")


def expand_braces(text: str) -> list[str]:
    """`a/b.{h,cc}` as its two paths."""
    match = re.search(r"\{([^{}]*)\}", text)
    if match is None:
        return [text]
    before, after = text[: match.start()], text[match.end() :]
    return [p for part in match[1].split(",") for p in expand_braces(before + part + after)]


def named_paths(span: str, root: Path) -> list[str]:
    """The paths that a code span names, as globs relative to the root or to src/; or nothing."""
    span = re.sub(r":\d+(?:-\d+)?$", "", span.strip()).removeprefix("./")
    if not _PATH.fullmatch(span) or span.startswith("/") or "//" in span or ".." in span:
        return []
    first, slash, _ = span.partition("/")
    in_src = (root / "src" / first).is_dir()
    if slash and (first in TOP_FOLDERS or in_src):
        return expand_braces(span)
    root_file = re.fullmatch(r"[A-Z]\w+\.(?:md|txt|json)|\.clang-\w+|CMakeLists\.txt", span)
    return [span] if root_file else []


def exists(root: Path, path: str) -> bool:
    """True for a file, a folder, a glob with matches, or `engine/session` for session.h and .cc."""
    path = path.rstrip("/")
    for base in (root, root / "src"):
        if (base / path).exists() or any(base.glob(path)):
            return True
        if "." not in path.rsplit("/", 1)[-1] and any(base.glob(path + ".*")):
            return True
    return False


def check_paths(root: Path, path: Path, text: str, findings: source_tree.Findings) -> None:
    for line, span, before, after in markdown_text.code_spans(text):
        if after.startswith("@") or "@" in span or _ELSEWHERE.search(before):
            continue
        for named in named_paths(span, root):
            if not exists(root, named):
                findings.add(path, line, f"{named} does not exist")


def check_verbs(path: Path, text: str, verbs: set[str], findings: source_tree.Findings) -> None:
    """Fenced blocks included: they hold the commands that people copy."""
    for match in re.finditer(r"(?<![\w/])\./dev[ \t]+([a-z]\w*)", text):
        if match[1] not in verbs:
            line = source_tree.line_of(text, match.start())
            findings.add(path, line, f"./dev has no verb '{match[1]}'")


def names_in_code(root: Path) -> set[str]:
    """Every AMEM_ name that occurs outside the documents."""
    names = set()
    for path in source_tree.all_files(root):
        if path.suffix in (".md", "") and path.name != "dev":
            continue
        if str(path).startswith("tools/selftest/"):
            continue
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        names |= set(re.findall(r"\bAMEM_[A-Z0-9_]*[A-Z0-9]\b", text))
    return names


def check_names(path: Path, text: str, known: set[str], findings: source_tree.Findings) -> None:
    for match in re.finditer(r"\bAMEM_[A-Z0-9_]*[A-Z0-9]\b(?!_?\*)", text):
        if match[0] not in known:
            line = source_tree.line_of(text, match.start())
            findings.add(path, line, f"{match[0]} occurs nowhere in the code")


def check_links(root: Path, path: Path, text: str, findings: source_tree.Findings) -> None:
    for line, target in markdown_text.links(text):
        if re.match(r"[a-z][a-z0-9+.\-]*:", target):
            continue
        name, _, anchor = target.partition("#")
        aimed = (root / path.parent / name) if name else (root / path)
        if not aimed.exists():
            findings.add(path, line, f"link to {target}: {name} does not exist")
        elif anchor and aimed.suffix == ".md" and anchor not in markdown_text.anchors(aimed.read_text(encoding="utf-8")):
            findings.add(path, line, f"link to {target}: no such heading")


def check(root: Path, findings: source_tree.Findings) -> None:
    verbs = set(re.findall(r"^verb_(\w+)\(\)", source_tree.require(root, "dev"), re.MULTILINE))
    for name in DOCUMENTS:
        if not (root / name).is_file():
            findings.add(name, 0, "does not exist")
    if (root / "README.md").is_file():
        check_environment(root, findings)
    known = names_in_code(root)
    for path in source_tree.all_files(root):
        if path.suffix != ".md" or not (str(path) in DOCUMENTS or path.parts[0] == "docs"):
            continue
        text = (root / path).read_text(encoding="utf-8")
        check_paths(root, path, text, findings)
        check_verbs(path, text, verbs, findings)
        check_names(path, text, known, findings)
        check_links(root, path, text, findings)


if __name__ == "__main__":
    sys.exit(source_tree.main_of(check, __doc__))
