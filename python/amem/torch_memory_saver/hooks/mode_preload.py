# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""torch_memory_saver.hooks.mode_preload, implemented by amem."""

import contextlib
import os
from typing import Iterator

from amem_flags import torch_memory_saver

from ... import launch
from ..preload import change_env
from .base import HookUtilBase


class HookUtilModePreload(HookUtilBase):
    """No allocator."""


@contextlib.contextmanager
def configure_subprocess() -> Iterator[None]:
    """Processes that are started in the block have amem, as torch_memory_saver."""
    library, before = HookUtilModePreload().get_path_binary(), os.environ.get("LD_PRELOAD")
    preload = f"{library}:{before}" if before else library
    variables = {**launch.env(), "AMEM_TMS": torch_memory_saver()[1] or "1", "LD_PRELOAD": preload}
    with contextlib.ExitStack() as changed:
        for name, value in variables.items():
            changed.enter_context(change_env(name, value))
        yield
