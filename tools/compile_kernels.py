#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Compiles the CUDA kernels to PTX with NVRTC (kernel_sources.py). Needs no GPU and no CUDA toolkit.

With --check, compares the result with the existing PTX and writes nothing. With --nvcc, also compiles the sources with an
nvcc of any version: the PTX must have the same kernels, and must assemble. Only NVRTC of the one version makes the PTX,
because that of a newer compiler needs a newer driver.
"""

import argparse
import ctypes
import pathlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import kernel_sources

# NVRTC has no standard headers. These are what the sources need of them.
STANDARD_HEADERS = {
    "stddef.h": "",
    "stdint.h": """
typedef signed int int32_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef unsigned long uintptr_t;
""",
}


class Nvrtc:
    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def _call(self, name: str, *arguments: object) -> None:
        result = getattr(self._library, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: {self._library.nvrtcGetErrorString(result).decode()}")

    def _text(self, program: ctypes.c_void_p, name: str) -> str:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{name}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{name}", program, text)
        return text.value.decode()

    def compile(self, source: str, name: str, headers: dict[str, str], options: tuple[str, ...]) -> str:
        """The PTX. RuntimeError with the compiler's messages if there is none."""
        program = ctypes.c_void_p()
        texts = (ctypes.c_char_p * len(headers))(*(text.encode() for text in headers.values()))
        names = (ctypes.c_char_p * len(headers))(*(name.encode() for name in headers))
        arguments = (source.encode(), name.encode(), len(headers), texts, names)
        self._call("nvrtcCreateProgram", ctypes.byref(program), *arguments)
        flags = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        try:
            self._call("nvrtcCompileProgram", program, len(options), flags)
        except RuntimeError as error:
            raise RuntimeError(f"{error}\n{self._text(program, 'ProgramLog')}") from None
        return self._text(program, "PTX")


class Nvcc:
    def __init__(self, program: str) -> None:
        self._program = program

    def _run(self, *arguments: object) -> None:
        done = subprocess.run([self._program, *map(str, arguments)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{self._program}: {done.stderr.strip()}")

    def compile(self, root: Path, source: Path) -> str:
        with tempfile.TemporaryDirectory() as folder:
            result = pathlib.Path(folder, "kernels.ptx")
            includes = (f"-I{root / folder}" for folder in ("symmetric/include", "."))
            self._run("--ptx", *kernel_sources.options_of(source), *includes, "-o", result, root / source)
            return result.read_text()

    def assemble(self, ptx: Path, architecture: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            result = pathlib.Path(folder, "kernels.cubin")
            self._run("--cubin", f"--gpu-architecture={architecture.replace('compute', 'sm')}", "-o", result, ptx)


_KERNEL = re.compile(r"\.visible \.entry (\w+)\((.*?)\)(.*?)\{", re.DOTALL)


def kernels_in(ptx: str) -> dict[str, str]:
    """What the host relies on: the parameters and the limit of threads of each kernel."""
    return {name: " ".join(f"({parameters}) {limits}".split()) for name, parameters, limits in _KERNEL.findall(ptx)}


def check_with_nvcc(root: Path, nvcc: Nvcc, source: Path) -> None:
    """RuntimeError if the existing PTX does not have the kernels of its sources, or is no valid PTX."""
    ptx = kernel_sources.ptx_of(source)
    shipped, wanted = kernels_in((root / ptx).read_text()), kernels_in(nvcc.compile(root, source))
    if not wanted:
        raise RuntimeError(f"nvcc finds no kernels in {source}")
    for name in sorted(shipped.keys() | wanted.keys()):
        if shipped.get(name) != wanted.get(name):
            raise RuntimeError(f"{ptx}: {name} is {shipped.get(name)}, by nvcc {wanted.get(name)}: run ./dev kernels")
    nvcc.assemble(root / ptx, kernel_sources.SOURCES[source])


def compiled(root: Path, nvrtc: Nvrtc, source: Path) -> str:
    headers = dict(STANDARD_HEADERS)
    for name, path in kernel_sources.HEADERS.items():
        headers[name] = (root / path).read_text()
    ptx = nvrtc.compile((root / source).read_text(), source.name, headers, kernel_sources.options_of(source))
    return f"{kernel_sources.first_line(root, source)}\n{ptx.strip()}\n"


def compile_with_nvrtc(root: Path, nvrtc: Nvrtc, source: Path, checks: bool) -> None:
    ptx, path = compiled(root, nvrtc, source), root / kernel_sources.ptx_of(source)
    if not checks:
        path.write_text(ptx)
    elif path.read_text() != ptx:
        raise RuntimeError(f"{path.relative_to(root)} is not what NVRTC makes of its sources: run ./dev kernels")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[1])
    parser.add_argument("--nvrtc", help="libnvrtc.so.12")
    parser.add_argument("--nvcc", help="checks the PTX with this program too")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if not arguments.nvrtc and not (arguments.nvcc and arguments.check):
        parser.error("the PTX is made with --nvrtc; --check needs --nvrtc or --nvcc")
    nvrtc = Nvrtc(arguments.nvrtc) if arguments.nvrtc else None
    try:
        for source in kernel_sources.SOURCES:
            if nvrtc:
                compile_with_nvrtc(arguments.root, nvrtc, source, arguments.check)
            if arguments.nvcc:
                check_with_nvcc(arguments.root, Nvcc(arguments.nvcc), source)
    except RuntimeError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
