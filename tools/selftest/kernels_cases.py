# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""check_kernels.py on PTX of other sources and on a kernel with a stack; compile_kernels.py with an nvcc."""

import tempfile
import unittest
from pathlib import Path

import compile_kernels
import kernel_sources
from sample_tree import CheckCase, write_tree

KERNELS, MULTIMEM = kernel_sources.SOURCES
SOURCES = {str(path): "int a;\n" for path in (KERNELS, MULTIMEM, *kernel_sources.HEADERS.values())}
HEADER = str(kernel_sources.HEADERS["symmetric/kernels.h"])


def ptx(source: Path, code: str = "") -> dict[str, str]:
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


def kernel(name: str, parameter_bytes: int, threads: int = 32) -> str:
    parameter = f".param .align 8 .b8 {name}_param_0[{parameter_bytes}]"
    return f".visible .entry {name}(\n\t{parameter}\n)\n.maxntid {threads}, 1, 1\n{{\n\tret;\n}}\n"


class WithNvcc(unittest.TestCase):
    """The PTX has the kernels that an nvcc finds in the sources."""

    def check(self, shipped: str, found: str) -> None:
        class Nvcc(compile_kernels.Nvcc):
            def compile(self, root: Path, source: Path) -> str:
                return found

            def assemble(self, ptx: Path, architecture: str) -> None:
                assembled.append((ptx.name, architecture))

        self.assembled = assembled = list[tuple[str, str]]()
        with tempfile.TemporaryDirectory() as folder:
            write_tree(folder, ptx(KERNELS, shipped))
            compile_kernels.check_with_nvcc(Path(folder), Nvcc(""), KERNELS)

    def test_the_same_kernels_are_assembled(self) -> None:
        self.check(kernel("a", 8) + kernel("b", 16), kernel("b", 16) + kernel("a", 8))
        self.assertEqual(self.assembled, [("kernels.ptx", "compute_80")])

    def test_other_kernels_are_named(self) -> None:
        others = {"another parameter": kernel("a", 16), "more threads": kernel("a", 8, 64), "another name": kernel("b", 8)}
        for what, found in others.items():
            with self.subTest(what), self.assertRaisesRegex(RuntimeError, "kernels.ptx: a is .* run ./dev kernels"):
                self.check(kernel("a", 8), found)

    def test_no_kernels_are_an_error(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "no kernels in"):
            self.check("", "")
