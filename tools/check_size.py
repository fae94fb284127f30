#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Checks that files have at most 500 lines and Python functions at most 60.

clang-tidy checks C++ functions (.clang-tidy).
"""

import ast
import sys
from pathlib import Path

import source_tree

FILE_LIMIT = 500
FUNCTION_LIMIT = 60


def check(root: Path, findings: source_tree.Findings) -> None:
    folders = source_tree.CODE_FOLDERS + ("python", "tools", "cmake")
    suffixes = source_tree.CXX_SUFFIXES + (".S", ".py", ".sh", ".cmake", "CMakeLists.txt")
    paths = source_tree.files(root, folders, suffixes)
    if not paths:
        raise source_tree.CannotRun("no code found")
    for path in paths:
        text = (root / path).read_text(encoding="utf-8")
        lines = len(text.splitlines())
        if lines > FILE_LIMIT:
            findings.add(path, 0, f"the file has {lines} lines; the limit is {FILE_LIMIT}: split it")
        for node in ast.walk(ast.parse(text if path.suffix == ".py" else "")):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LIMIT:
                    say = f"function {node.name} has {lines} lines; the limit is {FUNCTION_LIMIT}: split it"
                    findings.add(path, node.lineno, say)


if __name__ == "__main__":
    sys.exit(source_tree.main_of(check, __doc__))
