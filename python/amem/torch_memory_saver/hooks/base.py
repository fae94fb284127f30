# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""torch_memory_saver.hooks.base, implemented by amem."""

from typing import Any, Literal, Tuple, get_args

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
        raise NotImplementedError

    def get_allocator(self) -> Any:
        return None
