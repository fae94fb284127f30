# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""torch_memory_saver.entrypoint, implemented by amem."""

import contextlib
import ctypes
import functools
import logging
import os
import sys
from typing import Any, ContextManager, Dict, Iterable, Iterator, List, Optional, Tuple

import amem_flags

from .. import regions
from ..calls import Int, call, encoded
from ..errors import AmemError
from ..library import require_library, why_off
from ..session import pause as _pause
from ..session import resume as _resume
from ..session import resume_on_call, state, trim_host_memory
from ..statistics import status
from .binary_wrapper import BinaryWrapper
from .config import DEFAULT_TAG, Settings, backup_of, is_on, set_backup_directory
from .hooks.base import HOOK_MODES
from .preload import is_xpu

_LOG = logging.getLogger("amem.torch_memory_saver")
_WITH_NCCL = ("nccl", "symmetric")  # what AMEM_TMS=TAG pauses too


def _tags(tag: Optional[str], known: Iterable[str]) -> List[str]:
    """The tags of amem for a tag of torch_memory_saver; None or "" is all of its tags."""
    return [tag] if tag else [name for name in known if name not in amem_flags.RESERVED_TAGS]


def _check_backend(cpu: bool, backend: Optional[str]) -> None:
    if backend is not None and not cpu:
        raise ValueError("cpu_backup_backend requires enable_cpu_backup=True")
    version = getattr(sys.modules.get("torch"), "version", None)
    if backend is not None and (is_xpu() or getattr(version, "hip", None)):
        raise ValueError("cpu_backup_backend is not supported on XPU and ROCm: amem needs a GPU of NVIDIA")
    if backend not in (None, "pinned", "mmap"):
        raise ValueError(f"cpu_backup_backend is {backend!r}, not 'pinned' or 'mmap'")


@functools.lru_cache(maxsize=None)
def _warn(reason: str) -> None:
    """Once for each reason."""
    _LOG.warning("Regions have no effect, and pause() and resume() raise AmemError: %s", reason)


class _Pools(Dict[Tuple[Any, ...], Any]):
    """Programs take the original's pools out of it to end them. amem's end with their memory."""

    def pop(self, key: Tuple[Any, ...], default: Any = None) -> Any:
        return default


class _TorchMemorySaverImpl:
    """What programs use of the original's class of this name."""

    def __init__(self, saver: "TorchMemorySaver") -> None:
        require_library()
        self._mem_pools = _Pools()
        self._saver = saver
        try:
            self._binary_wrapper = BinaryWrapper(saver)
        except AmemError as error:  # of a call that the program has not made
            reason = str(error).partition(" failed: ")[2]
            if not reason:
                raise
            raise AmemError(f"torch_memory_saver cannot pause or resume in this process: {reason}", error.code) from None

    @contextlib.contextmanager
    def _with_region_config(
        self,
        tag: str,
        enable_cpu_backup: bool,
        cpu_backup_backend: Optional[str] = None,
        enable_disk_backup: bool = False,
    ) -> Iterator[None]:
        """cudaMalloc() of the block has the tag, but PyTorch allocates from no other pool."""
        backup, backups = backup_of(enable_cpu_backup, enable_disk_backup), (enable_cpu_backup, enable_disk_backup)
        call("amemBeginRegion", ctypes.c_char_p(encoded(tag)), Int(regions.kind_of(backup)))
        try:
            with self._saver._configured(tag, *backups, cpu_backup_backend):
                yield
        finally:
            call("amemEndRegion")
            self._saver._return_host_memory()


class TorchMemorySaver:
    """See torch_memory_saver. Errors are AmemError; nothing ends the process."""

    def __init__(self) -> None:
        self._impl: Optional[_TorchMemorySaverImpl] = None
        self._returns_host_memory = False

    def _ensure_initialized(self) -> _TorchMemorySaverImpl:
        if self._impl is None:
            self._impl = _TorchMemorySaverImpl(self)
            os.register_at_fork(after_in_child=lambda: setattr(self, "_impl", None))  # amem is inactive there
        return self._impl

    def _functions(self) -> BinaryWrapper:
        return self._ensure_initialized()._binary_wrapper

    def _configured(
        self, tag: Optional[str], cpu: bool = False, disk: bool = False, backend: Optional[str] = None
    ) -> ContextManager[None]:
        """The settings of the thread in a region; without a tag, memory is not paused."""
        reason = why_off()
        if reason:
            _warn(reason)
            return contextlib.nullcontext()
        config = self._functions().config
        settings = config.settings._replace(interesting_region=False)
        if tag is not None:
            settings = Settings(tag, True, cpu, disk, backend or config.settings.cpu_backup_backend)
            # Host memory of "mmap" is returned when it is not needed.
            self._returns_host_memory |= cpu and settings.cpu_backup_backend == "mmap"
        return config.within(settings)

    @contextlib.contextmanager
    def region(
        self,
        tag: str = DEFAULT_TAG,
        enable_cpu_backup: bool = False,
        enable_disk_backup: bool = False,
        cpu_backup_backend: Optional[str] = None,
    ) -> Iterator[None]:
        """Memory that is allocated in the block has the tag. Contents are kept with one of the backups. Without a CUDA driver
        and with AMEM_ENABLE=0 it has no effect, with a warning."""
        _check_backend(enable_cpu_backup, cpu_backup_backend)
        if enable_cpu_backup and enable_disk_backup:
            raise ValueError("enable_cpu_backup and enable_disk_backup exclude each other")
        region = regions.region(tag, backup=backup_of(enable_cpu_backup, enable_disk_backup))
        with region, self._configured(tag, enable_cpu_backup, enable_disk_backup, cpu_backup_backend):
            yield

    @contextlib.contextmanager
    def cuda_graph(
        self,
        cuda_graph: Any,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
        tag: str = DEFAULT_TAG,
        enable_cpu_backup: bool = False,
        cpu_backup_backend: Optional[str] = None,
    ) -> Iterator[None]:
        """torch.cuda.graph(), whose private memory has the tag."""
        options = {"pool": pool, "stream": stream, "capture_error_mode": capture_error_mode}
        _check_backend(enable_cpu_backup, cpu_backup_backend)
        captured = regions.cuda_graph(cuda_graph, tag=tag, backup="host" if enable_cpu_backup else None, **options)
        with captured, self._configured(tag, enable_cpu_backup, backend=cpu_backup_backend):
            yield

    @contextlib.contextmanager
    def disable(self, dispose_mem_pool_after_use: bool = True) -> Iterator[None]:
        """Memory that is allocated in the block is not paused."""
        with regions.disable(), self._configured(None):
            yield

    def pause(self, tag: Optional[str] = None) -> None:
        """Releases the memory with this tag, or of all tags."""
        self._ensure_initialized()
        known = status().get("tags", {})
        tags = _tags(tag, known)
        if tags:
            _pause(*tags)
        # A job sets AMEM_TMS=TAG for all of its processes. One without memory of NCCL keeps using NCCL: slime's trainers
        # destroy their process groups before they pause, and recreate them before they resume.
        others = [name for name in _WITH_NCCL if name in known and known[name]["resident_bytes"] > 0]
        if amem_flags.torch_memory_saver()[1] not in tags or not others:
            return
        try:
            resume_on_call()  # for programs that know of no pause of NCCL
            _pause(*others)
        except AmemError as error:
            if any(state(name) != "active" for name in others):
                raise
            _LOG.warning("Memory with the tags %s stays on the GPU: %s", ", ".join(others), error)

    def resume(self, tag: Optional[str] = None) -> None:
        """Restores the memory with this tag, or of all tags."""
        functions = self._functions()
        known = status().get("tags", {})
        tags = _tags(tag, known)
        # The memory with AMEM_TMS's tag may have been freed since its pause.
        nccl_with = amem_flags.torch_memory_saver()[1]
        if nccl_with and tag in (None, nccl_with):
            tags += [name for name in _WITH_NCCL if name == "nccl" or name in known]
        if tags:
            _resume(*tags)
        functions.drop_copies()
        if not functions.tms_get_retain_cpu_backup():
            self._return_host_memory()

    def _return_host_memory(self) -> None:
        """What holds no contents, for a program that has asked for it."""
        of_process = is_on("TMS_INIT_ENABLE_CPU_BACKUP") and os.environ.get("TMS_INIT_CPU_BACKUP_BACKEND") == "mmap"
        if self._returns_host_memory or of_process:
            with contextlib.suppress(AmemError):  # all of it does
                trim_host_memory()

    @property
    def enabled(self) -> bool:
        return True

    def _set_hook_mode(self, hook_mode: str) -> None:
        if hook_mode not in HOOK_MODES:
            raise ValueError(f"hook_mode is {hook_mode!r}, not 'preload' or 'torch'")

    hook_mode = property(fset=_set_hook_mode)

    @property
    def memory_margin_bytes(self) -> int:
        raise NotImplementedError("Only setter is supported")

    @memory_margin_bytes.setter
    def memory_margin_bytes(self, value: int) -> None:
        self._functions().set_memory_margin_bytes(value)

    @property
    def retain_cpu_backup(self) -> bool:
        """Whether get_cpu_backup() works after a resume. amem keeps its host memory for the next pause, unless this is
        set: then a resume that retains nothing returns the host memory without contents."""
        return self._functions().tms_get_retain_cpu_backup()

    @retain_cpu_backup.setter
    def retain_cpu_backup(self, value: bool) -> None:
        self._returns_host_memory = True
        self._functions().tms_set_retain_cpu_backup(value)

    def get_cpu_backup(self, x: Any, zero_copy: bool = False) -> Any:
        """The saved contents of a tensor on the CPU, of its pause or with retain_cpu_backup of the last one; None if there
        are none. Raises AmemError if the tensor is not contiguous."""
        if not x.is_contiguous():
            raise AmemError("get_cpu_backup() needs a contiguous tensor")
        try:
            return regions.backup(x, copy=not zero_copy)
        except AmemError:
            return None

    def set_disk_backup_dir(self, path: str) -> None:
        """The directory for files with contents; it is created if it does not exist."""
        self._ensure_initialized()
        set_backup_directory(path)
