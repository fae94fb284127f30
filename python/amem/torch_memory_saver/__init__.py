# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The interface of torch_memory_saver 0.0.10, implemented by amem.

After `import amem.torch_memory_saver`, or in a process that was started with AMEM_TMS=1 and has the wheel,
`import torch_memory_saver` imports this module, and so do its submodules. Both hook modes mean the same, and nothing has to be
preloaded. In the wheel, torch_memory_saver_hook_mode_preload.abi3.so lies where launchers look for it, beside the folder of this
module. It loads amem's library and exports the functions tms_*, which the process has from this import on.

AMEM_TMS=TAG: pause(TAG) and resume(TAG), and those without a tag in a process that has memory with TAG, also
concern the memory of NCCL and symmetric memory; resume() without a tag always does. If they cannot be paused, they stay
on the GPU, with a warning. A program with symmetric memory needs a barrier of its ranks before the pause and after the resume.
TMS_INIT_ENABLE=1 and TMS_INIT_ENABLE_CPU_BACKUP=1 or TMS_INIT_ENABLE_DISK_BACKUP=1: all memory that the process
allocates has the tag "default". TMS_DISK_BACKUP_DIR: the directory for backups on disk, as AMEM_BACKUP_DIR.
"""

import contextlib
import ctypes
import importlib
import sys

from .. import regions
from ..calls import Int, call, encoded
from ..errors import AmemError
from ..session import enabled
from . import memory_in_use as testing_utils
from . import preload as utils
from .config import DEFAULT_TAG, backup_of, is_on
from .entrypoint import TorchMemorySaver
from .hooks.mode_preload import configure_subprocess

__all__ = ["TorchMemorySaver", "configure_subprocess", "testing_utils", "torch_memory_saver", "utils"]

_SUBMODULES = ("binary_wrapper", "entrypoint", "hooks", "hooks.base", "hooks.mode_preload", "hooks.mode_torch")

torch_memory_saver = TorchMemorySaver()
if is_on("TMS_INIT_ENABLE") and enabled():  # launchers without a GPU import this too
    _backup = backup_of(is_on("TMS_INIT_ENABLE_CPU_BACKUP"), is_on("TMS_INIT_ENABLE_DISK_BACKUP"))
    call("amemSetProcessRegion", ctypes.c_char_p(encoded(DEFAULT_TAG)), Int(regions.kind_of(_backup)))
if enabled():
    with contextlib.suppress(AmemError):  # the first call says why
        torch_memory_saver._ensure_initialized()
sys.modules["torch_memory_saver"] = sys.modules[__name__]
sys.modules["torch_memory_saver.utils"] = utils
sys.modules["torch_memory_saver.testing_utils"] = testing_utils
for _name in _SUBMODULES:
    sys.modules[f"torch_memory_saver.{_name}"] = importlib.import_module(f".{_name}", __name__)
