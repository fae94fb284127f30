# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The interface of torch_memory_saver 0.0.10, implemented by amem.

After `import amem.torch_memory_saver`, or in a process that was started with AMEM_TMS=1 and has the wheel,
`import torch_memory_saver` imports this module. Nothing is preloaded, so both hook modes mean the same. In the wheel,
torch_memory_saver_hook_mode_preload.abi3.so lies where launchers look for it, beside the folder of this module, and loads
amem's library.

AMEM_TMS_NCCL=TAG: pause(TAG) and resume(TAG), and those without a tag in a process that has memory with TAG, also
concern the memory of NCCL and symmetric memory; resume() without a tag always does. If they cannot be paused, they stay
on the GPU, with a warning. A program with symmetric memory needs a barrier of its ranks before the pause and after the resume.
TMS_INIT_ENABLE=1 and TMS_INIT_ENABLE_CPU_BACKUP=1 or TMS_INIT_ENABLE_DISK_BACKUP=1: all memory that the process
allocates has the tag "default". TMS_DISK_BACKUP_DIR: the directory for backups on disk, as AMEM_BACKUP_DIR.
"""

import contextlib
import ctypes
import json
import logging
import os
import sys
import types
from typing import Any, Dict, Iterator, Optional, Tuple

from .. import launch, regions, torch_pools
from ..calls import call, encoded, value_of
from ..errors import AmemError
from ..library import require_library, why_off
from ..session import enabled
from ..session import pause as _pause
from ..session import resume as _resume
from ..session import resume_on_call, state, trim_host_memory
from . import preload as utils
from .config import DEFAULT_TAG, ThreadConfig, is_on, kind_of, set_backup_directory

_LOG = logging.getLogger("amem.torch_memory_saver")
_NOT_TENSORS = ("nccl", "symmetric", "context")
_WITH_NCCL = ("nccl", "symmetric")  # what AMEM_TMS_NCCL pauses


class _Cdll:
    """The functions that torch_memory_saver exports, as ctypes calls them."""

    def __init__(self) -> None:
        self._config = ThreadConfig()
        self._copies: Dict[Tuple[int, int], Any] = {}  # what tms_get_cpu_backup_pointer() has returned
        self.tms_set_retain_cpu_backup(is_on("TMS_RETAIN_CPU_BACKUP"))

    def __getattr__(self, name: str) -> Any:
        """tms_get_X and tms_set_X, for X of the thread's configuration."""
        names = {"current_tag": "tag", "interesting_region": "interesting", "enable_cpu_backup": "cpu_backup"}
        names.update(enable_disk_backup="disk_backup", cpu_backup_backend="cpu_backup_backend")
        field = names.get(name[len("tms_get_") :]) if name.startswith(("tms_get_", "tms_set_")) else None
        if field is None:
            raise AttributeError(name)

        def get() -> Any:
            value = getattr(self._config, field)
            return value.encode() if isinstance(value, str) else value

        def set_to(value: Any) -> None:
            value = value.decode() if isinstance(value, bytes) else value
            if field == "tag":
                encoded(value)
            setattr(self._config, field, value)
            self._config.apply()

        return get if name.startswith("tms_get_") else set_to

    def tms_set_disk_backup_dir(self, path: bytes) -> None:
        torch_memory_saver.set_disk_backup_dir(os.fsdecode(path))

    def tms_get_retain_cpu_backup(self) -> bool:
        return self._retain

    def tms_set_retain_cpu_backup(self, value: bool) -> None:
        call("amemRetainBackups", value)
        self._retain = bool(value)

    def set_memory_margin_bytes(self, value: int) -> None:
        call("amemSetMemoryMargin", value)

    def tms_get_cpu_backup_pointer(self, pointer: int, size: int) -> Optional[int]:
        """Where the saved contents are in host memory, until the memory is resumed, or with retain_cpu_backup paused
        again; None if there are none."""
        address = value_of("amemGetBackup", pointer, size)
        if address is None:  # on disk, or with pages that are all zero
            copy = ctypes.create_string_buffer(size)
            if value_of("amemReadBackup", copy, pointer, size) != 0:
                return None
            kept = self._copies.setdefault((pointer, size), copy)
            if kept is not copy:  # of this pause, or of an earlier one
                ctypes.memmove(kept, copy, size)
            address = ctypes.addressof(kept)
        return address

    def drop_copies(self) -> None:
        """Of memory that has no saved contents any more."""
        byte = ctypes.create_string_buffer(1)
        for pointer, size in list(self._copies):
            if require_library().amemReadBackup(byte, pointer, 1) != 0:
                del self._copies[pointer, size]

    def tms_torch_malloc(self, size: int, device: int, stream: Any) -> int:
        """Allocates memory as the thread is configured. Raises AmemError outside regions."""
        config, pointer = self._config, ctypes.c_void_p()
        if not config.interesting:
            raise AmemError("tms_torch_malloc() needs a region: this thread has none")
        with torch_pools.on_device(device):
            kind = kind_of(config.cpu_backup, config.disk_backup)
            call("amemMalloc", ctypes.byref(pointer), size, encoded(config.tag), kind)
        return pointer.value

    def tms_torch_free(self, pointer: int, size: int, device: int, stream: Any) -> None:
        call("amemFree", pointer)

    def tms_pause(self, tag: Optional[bytes]) -> int:
        torch_memory_saver.pause(tag.decode() if tag else None)
        return 0

    def tms_resume(self, tag: Optional[bytes]) -> int:
        torch_memory_saver.resume(tag.decode() if tag else None)
        return 0


def _known() -> dict:
    """The tags of this process and their memory."""
    return json.loads(require_library().amemGetStatus()).get("tags", {})


def _tags(tag: Optional[str], known: dict) -> list:
    """The tags of amem for a tag of torch_memory_saver; None or "" is all of its tags."""
    encoded(tag or "")
    return [tag] if tag else [name for name in known if name not in _NOT_TENSORS]


def _refuse_expandable_segments() -> None:
    """PyTorch maps them itself, past cudaMalloc. Regions have none, but nothing prevents them in TMS_INIT_ENABLE's."""
    size = torch_pools.expandable_bytes()
    if size > 0:
        raise AmemError(
            f"{size >> 20} MiB of PyTorch's memory are in expandable segments, which TMS_INIT_ENABLE does not cover: remove "
            "expandable_segments:True from PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF"
        )


class _Impl:
    def __init__(self) -> None:
        require_library()
        if hasattr(ctypes.CDLL(None), "tms_pause"):
            raise AmemError(
                "torch_memory_saver's own library is in this process and allocates its memory, which amem does not "
                "pause: remove it from LD_PRELOAD"
            )
        try:
            self._binary_wrapper = types.SimpleNamespace(cdll=_Cdll())
        except AmemError as error:  # of a call that the program has not made
            reason = str(error).partition(" failed: ")[2]
            raise AmemError(f"torch_memory_saver cannot pause or resume in this process: {reason}", error.code) from None


class TorchMemorySaver:
    """See torch_memory_saver. Errors are AmemError; nothing ends the process."""

    def __init__(self) -> None:
        self._impl: Optional[_Impl] = None
        self._returns_host_memory = False
        self._has_warned = False

    def _has_effect(self) -> bool:
        """False, with one warning, where regions have no effect."""
        reason = why_off()
        if reason and not self._has_warned:
            _LOG.warning("Regions have no effect, and pause() and resume() raise AmemError: %s", reason)
            self._has_warned = True
        return not reason

    def _ensure_initialized(self) -> None:
        if self._impl is None:
            self._impl = _Impl()

    def _cdll(self) -> _Cdll:
        self._ensure_initialized()
        return self._impl._binary_wrapper.cdll

    @contextlib.contextmanager
    def _configured(self, **values: Any) -> Iterator[None]:
        config = self._cdll()._config
        was_open, before = config.is_open, {name: getattr(config, name) for name in values}
        vars(config).update(values)
        config.apply()
        try:
            yield
        finally:
            vars(config).update(before)
            config.apply() if was_open else config.close()

    def _checked_backend(self, cpu: bool, disk: bool, backend: Optional[str]) -> str:
        """The backend of a region. The host memory of "mmap" is returned after each resume."""
        if cpu and disk:
            raise ValueError("enable_cpu_backup and enable_disk_backup exclude each other")
        if backend is not None and not cpu:
            raise ValueError("cpu_backup_backend requires enable_cpu_backup=True")
        if backend not in (None, "pinned", "mmap"):
            raise ValueError(f"cpu_backup_backend is {backend!r}, not 'pinned' or 'mmap'")
        backend = backend or self._cdll().tms_get_cpu_backup_backend().decode()
        self._returns_host_memory |= cpu and backend == "mmap"
        return backend

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
        encoded(tag)
        if not self._has_effect():
            yield
            return
        backend = self._checked_backend(enable_cpu_backup, enable_disk_backup, cpu_backup_backend)
        backup = "host" if enable_cpu_backup else "disk" if enable_disk_backup else "none"
        config = {"cpu_backup": enable_cpu_backup, "disk_backup": enable_disk_backup, "cpu_backup_backend": backend}
        with torch_pools.routed(tag, backup), self._configured(tag=tag, interesting=True, **config):
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
        encoded(tag)
        if not self._has_effect():
            with regions.cuda_graph(cuda_graph, **options):
                yield
            return
        backend = self._checked_backend(enable_cpu_backup, False, cpu_backup_backend)
        backup = "host" if enable_cpu_backup else None
        with regions.cuda_graph(cuda_graph, tag=tag, backup=backup, **options):
            config = {"cpu_backup": enable_cpu_backup, "disk_backup": False, "cpu_backup_backend": backend}
            with self._configured(tag=tag, interesting=True, **config):
                yield

    @contextlib.contextmanager
    def disable(self) -> Iterator[None]:
        """Memory that is allocated in the block is not paused."""
        if not self._has_effect():
            yield
            return
        with torch_pools.routed_outside(), self._configured(interesting=False):
            yield

    def pause(self, tag: Optional[str] = None) -> None:
        """Releases the memory with this tag, or of all tags."""
        self._ensure_initialized()
        if is_on("TMS_INIT_ENABLE") and tag in (None, DEFAULT_TAG):
            _refuse_expandable_segments()
        known = _known()
        tags = _tags(tag, known)
        if tags:
            _pause(*tags)
        # A job sets AMEM_TMS_NCCL for all of its processes. One without memory of NCCL keeps using NCCL: slime's trainers
        # destroy their process groups before they pause, and recreate them before they resume.
        others = [name for name in _WITH_NCCL if known.get(name, {}).get("resident_bytes", 0) > 0]
        if os.environ.get("AMEM_TMS_NCCL") not in tags or not others:
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
        cdll = self._cdll()
        known = _known()
        tags = _tags(tag, known)
        # The memory with AMEM_TMS_NCCL's tag may have been freed since its pause.
        nccl_with = os.environ.get("AMEM_TMS_NCCL")
        if nccl_with and tag in (None, nccl_with):
            tags += [name for name in _WITH_NCCL if name == "nccl" or name in known]
        if tags:
            _resume(*tags)
        cdll.drop_copies()
        if self._returns_host_memory:
            with contextlib.suppress(AmemError):  # another tag is paused
                trim_host_memory()

    @property
    def enabled(self) -> bool:
        return True

    @property
    def hook_mode(self) -> str:
        raise AttributeError("hook_mode can only be set")

    @hook_mode.setter
    def hook_mode(self, hook_mode: str) -> None:
        if hook_mode not in ("preload", "torch"):
            raise ValueError(f"hook_mode is {hook_mode!r}, not 'preload' or 'torch'")

    @property
    def memory_margin_bytes(self) -> int:
        raise NotImplementedError("Only setter is supported")

    @memory_margin_bytes.setter
    def memory_margin_bytes(self, value: int) -> None:
        self._cdll().set_memory_margin_bytes(value)

    @property
    def retain_cpu_backup(self) -> bool:
        """Whether get_cpu_backup() works after a resume. amem keeps its host memory for the next pause, unless this is
        set to False."""
        return self._cdll().tms_get_retain_cpu_backup()

    @retain_cpu_backup.setter
    def retain_cpu_backup(self, value: bool) -> None:
        self._returns_host_memory = not value
        self._cdll().tms_set_retain_cpu_backup(value)

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


@contextlib.contextmanager
def configure_subprocess() -> Iterator[None]:
    """Processes that are started in the block have amem, as this module."""
    with contextlib.ExitStack() as variables:
        for name, value in {**launch.env(), "AMEM_TMS": "1"}.items():
            variables.enter_context(utils.change_env(name, value))
        yield


torch_memory_saver = TorchMemorySaver()
if is_on("TMS_INIT_ENABLE") and enabled():  # launchers without a GPU import this too
    _of_process = kind_of(is_on("TMS_INIT_ENABLE_CPU_BACKUP"), is_on("TMS_INIT_ENABLE_DISK_BACKUP"))
    call("amemSetProcessRegion", encoded(DEFAULT_TAG), _of_process)
sys.modules["torch_memory_saver"] = sys.modules[__name__]
sys.modules["torch_memory_saver.utils"] = utils
