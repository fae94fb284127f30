# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The sources of the CUDA kernels, their PTX, and the line of the PTX that names the sources."""

import hashlib
import pathlib

SOURCE = pathlib.Path("src/clients/symmetric/kernels.cu")
HEADERS = {
    name: path / name
    for path, name in (
        (pathlib.Path("include"), "amem/symmetric_view.h"),
        (pathlib.Path("include"), "amem/symmetric.cuh"),
        (pathlib.Path("src"), "clients/symmetric/kernels.h"),
    )
}
PTX = SOURCE.with_suffix(".ptx")

# The version of NVRTC decides the version of the PTX, and with it the oldest driver: 12.1.
NVRTC_PACKAGE = "nvidia-cuda-nvrtc-cu12==12.1.105"
OPTIONS = ("--gpu-architecture=compute_80", "--std=c++17", "--fmad=true")


def first_line(root):
    """What the PTX of these sources starts with."""
    total = hashlib.sha256(" ".join((NVRTC_PACKAGE, *OPTIONS)).encode())
    for path in (SOURCE, *HEADERS.values()):
        total.update((root / path).read_bytes())
    return f"// Made by ./dev kernels from {SOURCE} and its headers: sha256 {total.hexdigest()}"
