# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""torch_memory_saver.utils, implemented by amem: what launchers of jobs call."""

import contextlib
import os
from pathlib import Path
from typing import Iterator

from ..launch import preload_path


def get_binary_path_from_package(stem: str) -> Path:
    """amem's library, for the LD_PRELOAD of a process that imports torch_memory_saver. amem has one library for both hook
    modes. Raises AmemError when amem is not installed."""
    if not stem.startswith("torch_memory_saver_hook_mode_"):
        raise ValueError(f"there is no library {stem!r}, only torch_memory_saver_hook_mode_preload and _torch")
    return Path(preload_path())


@contextlib.contextmanager
def change_env(key: str, value: str) -> Iterator[None]:
    """The variable has this value in the block."""
    before = os.environ.get(key)
    os.environ[key] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = before
