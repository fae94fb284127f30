#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Finds patterns that this repository does not allow, and says what to write instead.

A comment `allow: REASON` on the line, or alone on the line above, permits one. An allow comment
without a reason, or on a line that needs none, is a finding too.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import check_guards
import check_layers
import source_tree

SEEDED = "tools/selftest/"  # the violations that show each check failing
BAD_WORDS = {"util", "utils", "helper", "helpers", "manager", "managers", "common", "impl", "v2"}


def is_cxx(path: Path) -> bool:
    return path.name.endswith(source_tree.CXX_SUFFIXES)


def in_library(path: Path) -> bool:
    """Code that runs inside other people's processes."""
    own = path.parts[0] in ("src", "symmetric") and path.parts[1] != "cli"
    return own and is_cxx(path) and not source_tree.is_test(path)


def in_cxx(path: Path) -> bool:
    return is_cxx(path)


def in_tests(path: Path) -> bool:
    python_test = path.suffix == ".py" and ("tests" in path.parts or path.name.startswith("test_"))
    return (is_cxx(path) and source_tree.is_test(path)) or python_test


def anywhere(path: Path) -> bool:
    return True


@dataclass(frozen=True)
class Rule:
    """`pattern` is searched in code without comments and literals, or in the raw text."""

    pattern: re.Pattern[str]
    where: Callable[[Path], bool]
    reason: str
    instead: str
    raw: bool = False
    homes: tuple[str, ...] = ()


_CALL = r"(?<![\w.>])(?<!\w::)(?:std::)?"
RULES = (
    Rule(
        re.compile(_CALL + r"(?:exit|_exit|_Exit|quick_exit|abort|terminate)\s*\("),
        in_library,
        "ends the process of somebody else",
        "return an Error",
    ),
    Rule(
        re.compile(r"\bthrow\b|\bcatch\s*\("),
        in_library,
        "the libraries are built without exceptions",
        "return a Result",
    ),
    Rule(
        re.compile(
            r"\bstd::c(?:out|err|log)\b|\b(?:printf|vprintf|puts|putchar|perror)\s*\("
            r"|\bv?fprintf\s*\(\s*(?:stdout|stderr)\b|\bdprintf\s*\(\s*[12]\b"
            r"|(?<![\w.>])write\s*\(\s*(?:1|2|STDOUT_FILENO|STDERR_FILENO)\b"
        ),
        in_library,
        "the output of the process is not ours",
        "log_line() of base/log.h",
        homes=("src/base/log.cc",),
    ),
    Rule(
        # Placement new owns nothing; new (std::nothrow) does.
        re.compile(
            r"(?<!operator )\bnew\s+(?:\(\s*std::nothrow|(?=[A-Za-z_:]))"
            r"|(?<!operator )(?<!= )\bdelete\b"
        ),
        in_cxx,
        "nobody owns it when the next line returns",
        "std::make_unique, or a static that is leaked on purpose",
    ),
    Rule(
        re.compile(r"(?<![\w])(?:usleep|nanosleep|sleep|sleep_for|sleep_until)\s*\("),
        in_tests,
        "a test that sleeps is slow and still fails now and then",
        "wait for the condition, with a deadline",
    ),
    Rule(
        re.compile(r"\busing\s+namespace\s+std\s*;"),
        in_cxx,
        "hides where a name comes from",
        "write std::",
    ),
    Rule(
        # In the body: up to the next line that is not indented.
        re.compile(
            r'^(?:AMEM_API|extern "[^"]*" \[\[gnu::visibility\(.*?\)\]\]) [^;{]*\{'
            r"(?!(?:(?!\n\S).)*?\b(?:NoCancellation|result_of|with_process|read_into|enqueue|run\("
            r"|amemGetTag\w+|amem::(?:pause|resume|mem_stats|[sg]et_group_id)\(|amem::last_error_text|AMEM_VERSION))",
            re.MULTILINE | re.DOTALL,
        ),
        in_library,
        "a thread that is cancelled in it would leave locks and tags behind",
        "const NoCancellation, or a template of api/calls.h or symmetric/calls.cc",
    ),
    Rule(
        re.compile(r"\b(?:TODO|FIXME)\b(?!\(#\d+\))"),  # allow: the pattern itself
        anywhere,
        "nobody finds it again",
        "do it, or write the issue: TODO(#12)",
        raw=True,
    ),
)


def _statement_owns(code: str, match: re.Match[str]) -> bool:
    """True when the statement around a `new` is a leaked static or gives it to a unique_ptr."""
    start = max(code.rfind(mark, 0, match.start()) for mark in ";{}") + 1
    statement = code[start : match.start()]
    return re.search(r"\bstatic\b|\bunique_ptr\b|\.reset\s*\(\s*$", statement) is not None


def check_text(path: Path, text: str, findings: source_tree.Findings) -> None:
    """Every rule on one file."""
    # Documents only speak of allow-comments.
    allowed = {} if path.suffix == ".md" else source_tree.allowances(text)
    code = source_tree.code_only(text) if is_cxx(path) else text
    used = {line for line, _ in check_layers.away_from_home(path, code)}
    if check_guards.concerns(path):
        used |= {line for line, _ in check_guards.unguarded(code)}
    for rule in RULES:
        if not rule.where(path) or str(path) in rule.homes:
            continue
        searched = text if rule.raw else code
        for match in rule.pattern.finditer(searched):
            if match[0].startswith("new") and _statement_owns(code, match):
                continue
            line = source_tree.line_of(searched, match.start())
            if line in allowed:
                used.add(line)
            else:
                what = " ".join(match[0].split()).rstrip(" (")
                findings.add(path, line, f"{what}: {rule.reason}; instead: {rule.instead}")
    for line, reason in allowed.items():
        if not reason:
            findings.add(path, line, "an allow-comment gives its reason")
        elif line not in used:
            findings.add(path, line, "nothing here needs the allow-comment: remove it")


def check(root: Path, findings: source_tree.Findings) -> None:
    paths = [p for p in source_tree.all_files(root) if not str(p).startswith(SEEDED)]
    if not any(map(is_cxx, paths)):
        raise source_tree.CannotRun("no code found")
    for path in paths:
        words = {word for part in path.parts for word in re.split(r"[_.\-]", part.lower())}
        for word in sorted(words & BAD_WORDS):
            findings.add(path, 0, f"'{word}' says nothing about what the file is: name the idea")
        suffixes = source_tree.CXX_SUFFIXES + (".S", ".def", ".py", ".sh", ".md", ".cmake")
        if path.name.endswith(suffixes) or path.name in ("CMakeLists.txt", "dev"):
            check_text(path, (root / path).read_text(encoding="utf-8"), findings)


if __name__ == "__main__":
    sys.exit(source_tree.main_of(check, __doc__))
