# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""check_kernels.py on PTX of other sources and on a kernel with a stack."""

import tempfile
from pathlib import Path

import kernel_sources
from sample_tree import CheckCase, write_tree

SOURCES = {str(path): "int a;\n" for path in (kernel_sources.SOURCE, *kernel_sources.HEADERS.values())}
HEADER = str(kernel_sources.HEADERS["clients/symmetric/kernels.h"])
PTX = str(kernel_sources.PTX)


def first_line():
    with tempfile.TemporaryDirectory() as folder:
        write_tree(folder, SOURCES)
        return kernel_sources.first_line(Path(folder))


class Kernels(CheckCase):
    check = "check_kernels.py"
    clean = {**SOURCES, PTX: first_line() + "\n.version 8.1\n"}
    violations = {
        "a changed header": ({HEADER: "int b;\n"}, "kernels.ptx:1: is not made from these sources"),
        "a kernel with a stack": (
            {PTX: first_line() + "\n.version 8.1\n\t.local .align 4 .b8 depot[16];\n"},
            "kernels.ptx:3: a kernel uses local memory",
        ),
    }
    needed = (PTX,)
