#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Compiles the CUDA kernels to PTX with NVRTC (kernel_sources.py). Needs no GPU and no CUDA toolkit.

With --check, compares the result with the existing PTX and writes nothing.
"""

import argparse
import ctypes
import pathlib
import sys

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
    def __init__(self, library):
        self._library = ctypes.CDLL(str(library))
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def _call(self, name, *arguments):
        result = getattr(self._library, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: {self._library.nvrtcGetErrorString(result).decode()}")

    def _text(self, program, name):
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{name}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{name}", program, text)
        return text.value.decode()

    def compile(self, source, name, headers, options):
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


def compiled(root, nvrtc, source):
    headers = dict(STANDARD_HEADERS)
    for name, path in kernel_sources.HEADERS.items():
        headers[name] = (root / path).read_text()
    ptx = nvrtc.compile((root / source).read_text(), source.name, headers, kernel_sources.options_of(source))
    return f"{kernel_sources.first_line(root, source)}\n{ptx.strip()}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[1])
    parser.add_argument("--nvrtc", required=True, help="libnvrtc.so.12")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    nvrtc = Nvrtc(arguments.nvrtc)
    for source in kernel_sources.SOURCES:
        try:
            ptx = compiled(arguments.root, nvrtc, source)
        except RuntimeError as error:
            sys.exit(str(error))
        path = arguments.root / kernel_sources.ptx_of(source)
        if not arguments.check:
            path.write_text(ptx)
        elif path.read_text() != ptx:
            sys.exit(f"{kernel_sources.ptx_of(source)} is not what NVRTC makes of its sources: run ./dev kernels")


if __name__ == "__main__":
    main()
