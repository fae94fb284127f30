# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""check_kernels.py on PTX of other sources and on a kernel with a stack."""

import tempfile
from pathlib import Path

import kernel_sources
from sample_tree import CheckCase, write_tree

KERNELS, MULTIMEM = kernel_sources.SOURCES
SOURCES = {str(path): "int a;\n" for path in (KERNELS, MULTIMEM, *kernel_sources.HEADERS.values())}
HEADER = str(kernel_sources.HEADERS["clients/symmetric/kernels.h"])


def ptx(source, code=""):
    with tempfile.TemporaryDirectory() as folder:
        write_tree(folder, SOURCES)
        first_line = kernel_sources.first_line(Path(folder), source)
    return {str(kernel_sources.ptx_of(source)): f"{first_line}\n.version 8.1\n{code}"}


class Kernels(CheckCase):
    check = "check_kernels.py"
    clean = {**SOURCES, **ptx(KERNELS), **ptx(MULTIMEM)}
    violations = {
        "a changed header": ({HEADER: "int b;\n"}, "kernels.ptx:1: is not made from these sources"),
        "a changed source": ({str(MULTIMEM): "int b;\n"}, "multimem.ptx:1: is not made from these sources"),
        "a kernel with a stack": (
            ptx(MULTIMEM, "\t.local .align 4 .b8 depot[16];\n"),
            "multimem.ptx:3: a kernel uses local memory",
        ),
    }
    needed = tuple(str(kernel_sources.ptx_of(source)) for source in kernel_sources.SOURCES)
