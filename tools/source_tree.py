# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The files of the repository, and C++ text without comments or literals, for the checks.

A check is a program: `check_x.py [--root DIR]` prints one `path:line: message` for each finding and
exits with 0 (no findings), 1 (findings) or 2 (could not run: a failure, not a skip).
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath

CODE_FOLDERS = ("src", "sim", "jobs", "tests", "bench", "demo", "include", "examples", "cycles", "symmetric")
ALL_FOLDERS = CODE_FOLDERS + ("python", "tools", "cmake", "docs", ".ci")
CXX_SUFFIXES = (".h", ".cc", ".c")

_NOT_OURS = {".git", ".cache", "__pycache__", "build"}

_TOKEN = re.compile(
    r"(?P<number>(?<!\w)\d(?:'?[\w.])*)"
    r"|(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)"
    r'|(?P<raw>R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)")'
    r"|(?P<string>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')",
    re.DOTALL,
)


class CannotRun(Exception):
    """The check lacks something it needs; main_of() turns this into exit code 2."""


class Findings:
    """The sentences that a check has to say."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, path: object, line: int, sentence: str) -> None:
        """`line` counts from 1; 0 means the file as a whole."""
        place = f"{path}:{line}" if line else f"{path}"
        self.lines.append(f"{place}: {sentence}")


def main_of(check: Callable[[Path, Findings], None], description: str | None) -> int:
    """Runs check(root, findings) as a program; returns its exit code."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root.resolve()
    findings = Findings()
    try:
        check(root, findings)
    except CannotRun as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    for line in findings.lines:
        print(line)
    return 1 if findings.lines else 0


def _names_from_git(root: Path) -> list[str] | None:
    """Tracked files and untracked ones that git does not ignore; None where git cannot tell."""
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "ls-files", "-z", "-c", "-o", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.split("\0") if done.returncode == 0 else None


def _names_from_walk(root: Path) -> Iterator[str]:
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if name not in _NOT_OURS]
        for name in names:
            yield str(Path(folder, name).relative_to(root))


def all_files(root: Path) -> list[Path]:
    """Every file of the working tree but ignored ones, as sorted paths relative to `root`."""
    names = _names_from_git(root)
    every = _names_from_walk(root) if names is None else names
    return sorted({Path(name) for name in every if name and (root / name).is_file()})


def files(root: Path, folders: Iterable[str], suffixes: Iterable[str]) -> list[Path]:
    """The files below `folders` whose names end in one of `suffixes`."""
    ends = tuple(suffixes)
    return [p for p in all_files(root) if p.parts[0] in folders and p.name.endswith(ends)]


def require(root: Path, name: str) -> str:
    """The text of a file that a check cannot do without."""
    path = root / name
    if not path.is_file():
        raise CannotRun(f"{name} does not exist")
    return path.read_text(encoding="utf-8")


def is_test(path: PurePath) -> bool:
    """True for the code of tests, which some rules leave free and others bind more tightly."""
    if {"tests", "testdata", "corpus"} & set(path.parts):
        return True
    return path.name.endswith(("_test.cc", "_fixture.h", "_samples.h", "_fuzzer.cc"))


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def without_comments(text: str) -> str:
    """C++ text with comments turned into blanks; lines and columns stay where they were."""
    return _TOKEN.sub(lambda m: _blank(m[0]) if m["comment"] else m[0], text)


def code_only(text: str) -> str:
    """C++ text with comments and the insides of literals turned into blanks."""

    def replace(match: re.Match[str]) -> str:
        if match["comment"]:
            return _blank(match[0])
        if match["raw"] or match["string"]:
            return match[0][0] + _blank(match[0][1:-1]) + match[0][-1]
        return match[0]

    return _TOKEN.sub(replace, text)


def line_of(text: str, position: int) -> int:
    """The number, from 1, of the line that holds text[position]."""
    return text.count("\n", 0, position) + 1


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include(?:_next)?[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


def includes(text: str) -> list[tuple[int, str, str]]:
    """(line, bracket, name) of each #include; bracket is '<' or '"'."""
    bare = without_comments(text)
    return [(line_of(bare, m.start(1)), m[1], m[2]) for m in _INCLUDE.finditer(bare)]


_ALLOW = re.compile(r"(?://|#)\s*allow:[ \t]*(.*)")


def allowances(text: str) -> dict[int, str]:
    """{line: reason} of the comments of `allow:` and a reason; the line is the one let off.

    A comment on a line of its own lets off the line below.
    """
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _ALLOW.search(line)
        if match:
            alone = not line[: match.start()].strip()
            found[number + 1 if alone else number] = match[1].removesuffix("*/").strip()
    return found
