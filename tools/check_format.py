#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Compares the code with .clang-format; `--fix` formats it (./dev fmt).

Versions of clang-format differ in details. The version of Debian 12 decides.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import source_tree

MAJOR = 14


def clang_format() -> str:
    """The command of the version that counts."""
    seen = []
    for command in (f"clang-format-{MAJOR}", "clang-format"):
        if shutil.which(command) is None:
            continue
        done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
        version = re.search(r"version (\d+)", done.stdout)
        if version and int(version[1]) == MAJOR:
            return command
        seen.append(done.stdout.strip())
    found = ", ".join(seen) or "none"
    raise source_tree.CannotRun(f"clang-format {MAJOR} is needed; found: {found}")


def check(root: Path, findings: source_tree.Findings, fix: bool = False) -> None:
    source_tree.require(root, ".clang-format")
    paths = source_tree.files(root, source_tree.CODE_FOLDERS, source_tree.CXX_SUFFIXES)
    if not paths:
        raise source_tree.CannotRun("no code found")
    mode = ["-i"] if fix else ["--dry-run", "-Werror", "--ferror-limit=1"]
    command = [clang_format(), "--style=file", *mode, *map(str, paths)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    for path, line in re.findall(r"^(\S+?):(\d+):\d+: error: .*-Wclang-format", done.stderr, re.M):
        findings.add(path, int(line), "is not as clang-format writes it; ./dev fmt does it")
    if done.returncode != 0 and not findings.lines:
        raise source_tree.CannotRun(f"clang-format failed: {done.stderr.strip()[:400]}")


def fix(root: Path, findings: source_tree.Findings) -> None:
    check(root, findings, fix=True)


if __name__ == "__main__":
    asked_to_fix = "--fix" in sys.argv
    if asked_to_fix:
        sys.argv.remove("--fix")
    sys.exit(source_tree.main_of(fix if asked_to_fix else check, __doc__))
