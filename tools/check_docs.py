#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Checks that what the documents name exists.

Environment: the tables of docs/settings.md and docs/expert_settings.md list each variable of environment.def exactly
once, under the heading of its audience, with the same default and values; at most 14 are for every job. In README,
ARCHITECTURE, CONTRIBUTING and docs/: every path in a `code span`, every `./dev` command, every name such as AMEM_LOG or
amemPause and every relative link exists. A path of another project has the name of the project (NCCL, PyTorch, Linux)
before its span or an @version after it. README, ARCHITECTURE and CHANGELOG stay as short as MAX_LINES says.
"""

import re
import sys
from pathlib import Path

import markdown_text
import source_tree

DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
MAX_LINES = {"README.md": 130, "ARCHITECTURE.md": 250, "CHANGELOG.md": 80}
TOP_FOLDERS = source_tree.ALL_FOLDERS + (".github",)
SETTINGS = ("docs/settings.md", "docs/expert_settings.md")
MAX_FOR_EVERY_JOB = 14
AUDIENCES = {"every_job": "For every job", "experts": "For experts", "other_name": "Other names"}
_ROW = re.compile(r'^AMEM_VARIABLE\((\w+), [\w.]+, (\w+), "([^"]*)", "([^"]*)"', re.MULTILINE)
_ELSEWHERE = re.compile(r"\b(?:NCCL|PyTorch|Linux)(?:'s)?\s*\W?$")
_NAME = re.compile(r"\b(?:AMEM_[A-Z0-9_]*[A-Z0-9]|amem[A-Z]\w*)\b(?!_?\*)")
_PATH = re.compile(r"[\w.\-*/{},]+")


def check_settings(root: Path, findings: source_tree.Findings) -> None:
    rows = _ROW.findall(source_tree.require(root, "src/base/environment.def"))
    if not rows:
        raise source_tree.CannotRun("src/base/environment.def has no rows")
    variables = {name: (AUDIENCES.get(audience), default, values) for audience, name, default, values in rows}
    seen = set()
    tables = [(page, *table) for page in SETTINGS for table in markdown_text.tables(source_tree.require(root, page))]
    for page, titles, table in tables:
        for line, row in table:
            name, default, values = (row.get(column, "").strip("` ") for column in ("variable", "default", "values"))
            if name not in variables:
                findings.add(page, line, f"{name or 'this row'} is no row of src/base/environment.def")
            elif name in seen:
                findings.add(page, line, f"{name} stands twice")
            elif (titles[-1], default, values) != variables[name]:
                findings.add(page, line, f"{name} is, in environment.def: {', '.join(map(str, variables[name]))}")
            seen.add(name)
    for name in sorted(set(variables) - seen):
        findings.add(SETTINGS[0], 0, f"{name} is missing")
    if sum(audience == "every_job" for audience, *_ in rows) > MAX_FOR_EVERY_JOB:
        findings.add("src/base/environment.def", 0, f"more than {MAX_FOR_EVERY_JOB} variables are for every job")


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


def check_lengths(root: Path, findings: source_tree.Findings) -> None:
    for name, most in MAX_LINES.items():
        lines = (root / name).read_text(encoding="utf-8").count("\n") if (root / name).is_file() else 0
        if lines > most:
            findings.add(name, lines, f"{lines} lines, at most {most}")


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
    """Every name of amem that occurs outside the documents."""
    names = set()
    for path in source_tree.all_files(root):
        if path.suffix in (".md", "") and path.name != "dev":
            continue
        if str(path).startswith("tools/selftest/"):
            continue
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        names |= set(_NAME.findall(text))
    return names


def check_names(path: Path, text: str, known: set[str], findings: source_tree.Findings) -> None:
    for match in _NAME.finditer(text):
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
    check_lengths(root, findings)
    check_settings(root, findings)
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
