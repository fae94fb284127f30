# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""torch_memory_saver.utils, implemented by amem: what launchers of jobs call."""

import contextlib
import os
import sys
from pathlib import Path
from typing import Iterator

from ..errors import AmemError, AmemValueError
from ..installation import loaded_library
from ..launch import preload_path

_LIBRARY = "torch_memory_saver_hook_mode_preload.abi3.so"


def get_binary_path_from_package(stem: str) -> Path:
    """The library for the LD_PRELOAD of a process that imports torch_memory_saver. It loads amem's, and is the same for both
    hook modes. Raises AmemError when amem is not installed."""
    if not stem.startswith("torch_memory_saver_hook_mode_"):
        raise AmemValueError(f"there is no library {stem!r}, only torch_memory_saver_hook_mode_preload and _torch")
    in_wheel, loaded = Path(__file__).resolve().parents[1] / _LIBRARY, loaded_library()
    if in_wheel.exists():
        return in_wheel
    path = Path(loaded or preload_path()).parent / _LIBRARY
    if not path.exists():
        raise AmemError(f"{path} does not exist: install the package and the library of the same version")
    return path


@contextlib.contextmanager
def change_env(key: str, value: str) -> Iterator[None]:
    """The variable has this value in the block."""
    before = os.environ.get(key)
    os.environ[key] = value
    try:
        yield
    finally:
        os.environ.pop(key, None)
        if before is not None:
            os.environ[key] = before


def is_xpu() -> bool:
    """Whether PyTorch runs on a GPU of Intel, which amem does not support."""
    xpu = getattr(sys.modules.get("torch"), "xpu", None)
    return xpu is not None and xpu.is_available()
