#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Checks that every class of src/ and symmetric/ with a Mutex declares what the mutex guards.

Each data member of such a class is AMEM_GUARDED_BY a mutex, is a Mutex, a Condition or atomic, or
cannot change (const, a reference). A Mutex that guards no member, and a member that is not guarded
for another reason, has an allow comment (check_banned.py). Clang's analysis then verifies that the
mutex is held (clang-tidy with -Wthread-safety).
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import source_tree

_CLASS = re.compile(r"\b(?:class|struct)\s+(?:AMEM_\w+\([^{;]*\)\s*)?([\w:]+)[^;{}()=]*\{")
_MUTEX = re.compile(r"^(?:mutable\s+)?Mutex\s+(\w+)$")
_NO_MEMBER = re.compile(r"^(?:using|typedef|friend|static|class|struct|enum|union|template)\b|^$")
_SAFE = re.compile(r"^(?:mutable\s+)?(?:Mutex|Condition|std::atomic\b.*|const\b(?!.*\*).*)\s+\w+$")
_GUARD = re.compile(r"AMEM_GUARDED_BY\(\s*([^()]*?)\s*\)")
_LABELS = re.compile(r"^(?:\s*(?:public|private|protected)\s*:(?!:))*\s*")


def closing(code: str, opening: int) -> int:
    """The position of the brace that closes the one at `opening`, or the end of the text."""
    depth = 0
    for at in range(opening, len(code)):
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        if depth == 0:
            return at
    return len(code) - 1


def statements(code: str, opening: int) -> Iterator[tuple[int, str]]:
    """(start, text) of what a class body declares, without the bodies of functions and types."""
    at, end = opening + 1, closing(code, opening)
    start, text = at, ""
    while at < end:
        if code[at] == "{":
            at = closing(code, at)
            if re.match(r"\s*[;,]", code[at + 1 :]) is None:
                start, text = at + 1, ""
        elif code[at] == ";":
            yield start, text
            start, text = at + 1, ""
        else:
            text += code[at]
        at += 1


def without_templates(text: str) -> str:
    while (shorter := re.sub(r"<[^<>]*>", "", text)) != text:
        text = shorter
    return text


def members(code: str, opening: int) -> Iterator[tuple[int, str, str | None]]:
    """(start, declaration without initializer, what guards it or None) of each data member."""
    for start, text in statements(code, opening):
        # No brace comes before the first word, so that the text is the code up to there.
        bare = _LABELS.sub("", text, count=1)
        start, text = start + len(text) - len(bare), bare
        guard = _GUARD.search(text)
        bare = without_templates(_GUARD.sub("", text)).split("=")[0]
        bare = " ".join(bare.split())
        if "(" not in bare and "operator" not in bare and not _NO_MEMBER.match(bare):
            yield start, bare, guard[1] if guard else None


def unguarded(code: str) -> Iterator[tuple[int, str]]:
    """(line, what is missing) of each member that needs a guard or an allow-comment."""
    for match in _CLASS.finditer(code):
        found = list(members(code, match.end() - 1))
        mutexes = {m[1] for _, bare, _ in found if (m := _MUTEX.match(bare))}
        guards = {guard for _, _, guard in found if guard}
        for start, bare, guard in found if mutexes else ():
            line = source_tree.line_of(code, start)
            name = bare.split()[-1]
            if name in mutexes - guards:
                yield line, f"{name} guards no member of its class; say what it is for"
            elif not guard and "&" not in bare and not _SAFE.match(bare):
                yield line, f"'{bare}' stands beside a Mutex without AMEM_GUARDED_BY"


def concerns(path: Path) -> bool:
    return path.parts[0] in ("src", "symmetric") and path.suffix in (".h", ".cc") and not source_tree.is_test(path)


def check(root: Path, findings: source_tree.Findings) -> None:
    paths = [path for path in source_tree.all_files(root) if concerns(path)]
    if not paths:
        raise source_tree.CannotRun("no sources found")
    for path in paths:
        text = (root / path).read_text(encoding="utf-8")
        allowed = source_tree.allowances(text)
        for line, sentence in unguarded(source_tree.code_only(text)):
            if line not in allowed:
                findings.add(path, line, sentence)


if __name__ == "__main__":
    sys.exit(source_tree.main_of(check, __doc__))
