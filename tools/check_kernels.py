#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Checks that the PTX files were compiled from the current sources of the kernels (./dev kernels).

The PTX must not use local memory: the stack of a kernel becomes local memory of each context, on
all multiprocessors.
"""

import sys
from pathlib import Path

import kernel_sources
import source_tree


def check(root: Path, findings: source_tree.Findings) -> None:
    for source in kernel_sources.SOURCES:
        ptx = kernel_sources.ptx_of(source)
        source_tree.require(root, str(ptx))
        lines = (root / ptx).read_text().split("\n")
        if lines[0] != kernel_sources.first_line(root, source):
            findings.add(ptx, 1, "is not made from these sources: run ./dev kernels")
        for number, line in enumerate(lines, start=1):
            if line.lstrip().startswith(".local"):
                findings.add(ptx, number, "a kernel uses local memory")


if __name__ == "__main__":
    sys.exit(source_tree.main_of(check, __doc__))
