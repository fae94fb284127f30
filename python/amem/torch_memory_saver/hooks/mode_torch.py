# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""torch_memory_saver.hooks.mode_torch, implemented by amem."""

from typing import Any

from .base import HookUtilBase


class HookUtilModeTorch(HookUtilBase):
    """An allocator for pools of the program's own: memory has the tag of the thread's region."""

    def __init__(self) -> None:
        from torch.cuda.memory import CUDAPluggableAllocator

        self.allocator = CUDAPluggableAllocator(self.get_path_binary(), "tms_torch_malloc", "tms_torch_free")

    def get_allocator(self) -> Any:
        return self.allocator.allocator()
