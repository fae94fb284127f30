# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The sources of the CUDA kernels, their PTX, and the line of the PTX that names the sources."""

import hashlib
import pathlib
from pathlib import Path

_FOLDER = pathlib.Path("symmetric")
# The architecture that each source is compiled for.
SOURCES = {_FOLDER / "kernels.cu": "compute_80", _FOLDER / "multimem.cu": "compute_90"}
HEADERS = {
    name: path / name
    for path, name in (
        (_FOLDER / "include", "amem/symmetric_view.h"),
        (_FOLDER / "include", "amem/symmetric.cuh"),
        (pathlib.Path(), "symmetric/kernels.h"),
        (pathlib.Path(), "symmetric/multimem.h"),
    )
}

# The version of NVRTC decides the version of the PTX, and with it the oldest driver: 12.2, as for all
# of amem. multimem.ld_reduce with sums in float32 needs it (PTX ISA 8.2).
NVRTC_PACKAGE = "nvidia-cuda-nvrtc-cu12==12.2.140"


def ptx_of(source: Path) -> Path:
    return source.with_suffix(".ptx")


def options_of(source: Path) -> tuple[str, ...]:
    return (f"--gpu-architecture={SOURCES[source]}", "--std=c++17", "--fmad=true")


def first_line(root: Path, source: Path) -> str:
    """What the PTX of this source starts with."""
    total = hashlib.sha256(" ".join((NVRTC_PACKAGE, *options_of(source))).encode())
    for path in (source, *HEADERS.values()):
        total.update((root / path).read_bytes())
    return f"// Made by ./dev kernels from {source} and its headers: sha256 {total.hexdigest()}"
