#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Holds files to 400 lines and functions to 60, C++ and Python alike.

C++ functions are found by matching braces; what that does not see stands in cxx_functions.py.
tools/size_ratchet.txt lists what was allowed to be larger, as `path lines` or `path:function
lines`. It may only shrink: an entry must be exactly as large as the thing is, and neither a new
entry nor a larger number than in the last two commits passes (in a checkout without these commits,
and without git, that last part is not seen).
"""

import ast
import re
import subprocess
import sys

import cxx_functions
import source_tree

FILE_LIMIT = 400
FUNCTION_LIMIT = 60
RATCHET = "tools/size_ratchet.txt"


def python_functions(text):
    """(name, first line, last line) of each function, methods included."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    return [(node.name, node.lineno, node.end_lineno) for node in found]


def parse_ratchet(text):
    """{`path` or `path:function`: lines} of a ratchet file."""
    entries = {}
    for line in text.splitlines():
        line = line.split("#")[0].strip()
        if not line:
            continue
        match = re.fullmatch(r"(\S.*\S)\s+(\d+)", line)
        if match is None:
            raise source_tree.CannotRun(f"{RATCHET}: '{line}' is not `path lines`")
        entries[match[1]] = int(match[2])
    return entries


def earlier_ratchet(root, revision):
    """The ratchet of a commit, or None where there is none to see."""
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "show", f"{revision}:{RATCHET}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return parse_ratchet(done.stdout) if done.returncode == 0 else None


def measure(root):
    """Yields (name for the ratchet, path, line, what, size, limit) of everything with a size."""
    folders = source_tree.CODE_FOLDERS + ("python", "tools", "cmake")
    suffixes = source_tree.CXX_SUFFIXES + (".S", ".py", ".sh", ".cmake", "CMakeLists.txt")
    for path in source_tree.files(root, folders, suffixes):
        text = (root / path).read_text(encoding="utf-8")
        yield str(path), path, 0, "the file", len(text.splitlines()), FILE_LIMIT
        if path.name.endswith(source_tree.CXX_SUFFIXES):
            found = cxx_functions.functions(text)
        elif path.suffix == ".py":
            found = python_functions(text)
        else:
            continue
        for name, first, last in found:
            size = last - first + 1
            yield f"{path}:{name}", path, first, f"function {name}", size, FUNCTION_LIMIT


def check_ratchet(root, entries, findings):
    """No entry is new or larger than it was."""
    for revision in ("HEAD", "HEAD~1"):
        before = earlier_ratchet(root, revision)
        if before is None:
            continue
        for name, lines in entries.items():
            if lines > before.get(name, 0):
                had = f"{before[name]} lines" if name in before else "no such entry"
                findings.add(RATCHET, 0, f"may only shrink: {name} {lines}, {revision} had {had}")


def check(root, findings):
    entries = parse_ratchet(source_tree.require(root, RATCHET))
    check_ratchet(root, entries, findings)
    unused, measured = dict(entries), 0
    for name, path, line, what, size, limit in measure(root):
        measured += 1
        if size <= limit:
            continue
        allowed = entries.get(name)
        unused.pop(name, None)
        if allowed is None:
            findings.add(path, line, f"{what} has {size} lines; the limit is {limit}: split it")
        elif size > allowed:
            findings.add(path, line, f"{what} grew from {allowed} to {size} lines; limit {limit}")
        elif size < allowed:
            findings.add(RATCHET, 0, f"{name} has shrunk: write {size} in place of {allowed}")
    if measured == 0:
        raise source_tree.CannotRun("no code found")
    for name in unused:
        findings.add(RATCHET, 0, f"{name} is within the limit or gone: remove the entry")


if __name__ == "__main__":
    sys.exit(source_tree.main_of(check, __doc__))
