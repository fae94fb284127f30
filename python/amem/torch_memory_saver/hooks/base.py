# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""torch_memory_saver.hooks.base, implemented by amem."""

from typing import Any, Literal, Tuple, get_args

from ..preload import get_binary_path_from_package

HookMode = Literal["preload", "torch"]
HOOK_MODES: Tuple[HookMode, ...] = get_args(HookMode)


class HookUtilBase:
    """Where a hook mode has its library, and the allocator of its pools."""

    @staticmethod
    def create(hook_mode: HookMode) -> "HookUtilBase":
        from .mode_preload import HookUtilModePreload
        from .mode_torch import HookUtilModeTorch

        return {"preload": HookUtilModePreload, "torch": HookUtilModeTorch}[hook_mode]()

    def get_path_binary(self) -> str:
        return str(get_binary_path_from_package("torch_memory_saver_hook_mode_preload"))

    def get_allocator(self) -> Any:
        return None
