# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The functions that torch_memory_saver's library exports. They are found in cdll of BinaryWrapper; and in the process and the
library of LD_PRELOAD, whose functions (python/torch_memory_saver_hook.c) call these."""

import atexit
import ctypes
import functools
import logging
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple

from ..calls import Int, call, encoded, value_of
from ..errors import AmemError
from ..regions import kind_of
from .config import Settings, ThreadConfig, is_on
from .preload import get_binary_path_from_package

if TYPE_CHECKING:
    from .entrypoint import TorchMemorySaver

_LOG = logging.getLogger("amem.torch_memory_saver")
_Implementation = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint64)
_TAKE_TEXT = ("pause", "resume", "set_current_tag", "set_cpu_backup_backend", "set_disk_backup_dir")


class Cdll:
    """As ctypes.CDLL of the library, whose functions programs give signatures. It also finds those of the CUDA runtime."""

    def __init__(self, functions: "BinaryWrapper") -> None:
        self._functions = functions
        self._process = ctypes.CDLL(None)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(self._functions, name, None)
        function = getattr(self._process, name) if function is None else functools.partial(function)
        setattr(self, name, function)
        return function


class BinaryWrapper:
    """Loads the library, so that the whole process finds its functions. Each raises AmemError here if it fails."""

    def __init__(self, saver: "TorchMemorySaver") -> None:
        self._library = library = ctypes.CDLL(
            str(get_binary_path_from_package("torch_memory_saver_hook_mode_preload")), ctypes.RTLD_GLOBAL
        )
        found = ctypes.cast(ctypes.CDLL(None).tms_pause, ctypes.c_void_p).value
        if found != ctypes.cast(library.tms_pause, ctypes.c_void_p).value:
            raise AmemError(
                "torch_memory_saver's own library is in this process and allocates its memory, which amem does not "
                "pause: remove it from LD_PRELOAD"
            )
        self._saver, self.cdll = saver, Cdll(self)
        self._of_thread = threading.local()
        self._of_native_threads: Dict[str, ThreadConfig] = {}
        self.copies: Dict[Tuple[int, int], Any] = {}  # what tms_get_cpu_backup_pointer() has returned
        self.tms_set_retain_cpu_backup(is_on("TMS_RETAIN_CPU_BACKUP"))
        self._from_c = _Implementation(self._call)
        library.amem_tms_implement(self._from_c)
        atexit.register(library.amem_tms_implement, None)

    @property
    def config(self) -> ThreadConfig:
        """Of the calling thread."""
        owner: Dict[str, ThreadConfig] = vars(self._of_thread)
        key = "config"
        if isinstance(threading.current_thread(), threading._DummyThread):  # Python keeps no data between its calls
            owner, key = self._of_native_threads, str(threading.get_ident())
        if key not in owner:
            owner[key] = ThreadConfig(self._set_memory)
        return owner[key]

    def _set_memory(self, settings: Settings) -> None:
        """What PyTorch's pools get from tms_torch_malloc() in this thread."""
        tag, backup = settings.region() or (None, None)
        self._library.amem_tms_set_memory(None if tag is None else encoded(tag), kind_of(backup))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """tms_get_X and tms_set_X, for X of a thread's settings."""
        field = name[len("tms_get_") :]
        if not name.startswith(("tms_get_", "tms_set_")) or field not in Settings._fields:
            raise AttributeError(name)

        def get() -> Any:
            value = getattr(self.config.settings, field)
            return value.encode() if isinstance(value, str) else value

        def set_to(value: Any) -> None:
            value = value.decode() if isinstance(value, bytes) else value
            if field == "current_tag":
                encoded(value)
            self.config.set(self.config.settings._replace(**{field: value}))

        return get if name.startswith("tms_get_") else set_to

    def tms_set_disk_backup_dir(self, path: bytes) -> None:
        self._saver.set_disk_backup_dir(os.fsdecode(path))

    def tms_get_retain_cpu_backup(self) -> bool:
        return self._retain

    def tms_set_retain_cpu_backup(self, value: bool) -> None:
        call("amemRetainBackups", Int(value))
        self._retain = bool(value)

    def set_memory_margin_bytes(self, value: int) -> None:
        call("amemSetMemoryMargin", value)

    def tms_get_cpu_backup_pointer(self, pointer: int, size: int) -> Optional[int]:
        """Where the saved contents are in host memory, until the memory is resumed, or with retain_cpu_backup paused
        again; None if there are none."""
        address: Optional[int] = value_of("amemGetBackup", pointer, size)
        if address is None:  # on disk, or with pages that are all zero
            copy = ctypes.create_string_buffer(size)
            if value_of("amemReadBackup", ctypes.byref(copy), pointer, size) != 0:
                return None
            kept = self.copies.setdefault((pointer, size), copy)
            if kept is not copy:  # of this pause, or of an earlier one
                ctypes.memmove(kept, copy, size)
            address = ctypes.addressof(kept)
        return address

    def drop_copies(self) -> None:
        """Of memory that has no saved contents any more."""
        byte = ctypes.c_char()
        for pointer, size in list(self.copies):
            if value_of("amemReadBackup", ctypes.byref(byte), pointer, 1) != 0:
                del self.copies[pointer, size]

    def tms_torch_malloc(self, size: int, device: int, stream: Any) -> Optional[int]:
        """Allocates memory as the thread is configured, on the current device. Raises AmemError outside regions."""
        region, pointer = self.config.settings.region(), ctypes.c_void_p()
        if region is None:
            raise AmemError("tms_torch_malloc() needs a region: this thread has none")
        call("amemMalloc", ctypes.byref(pointer), size, ctypes.c_char_p(encoded(region[0])), Int(kind_of(region[1])))
        return pointer.value

    def tms_torch_free(self, pointer: int, size: int, device: int, stream: Any) -> None:
        call("amemFree", pointer or 0)

    def tms_pause(self, tag: Optional[bytes]) -> int:
        self._saver.pause(tag.decode() if tag else None)
        return 0

    def tms_resume(self, tag: Optional[bytes]) -> int:
        self._saver.resume(tag.decode() if tag else None)
        return 0

    def set_config(
        self,
        *,
        tag: str,
        interesting_region: bool,
        enable_cpu_backup: bool,
        cpu_backup_backend: Optional[str] = None,
        enable_disk_backup: bool = False,
    ) -> None:
        """The settings of the calling thread."""
        config = self.config
        backend = cpu_backup_backend or config.settings.cpu_backup_backend
        config.set(Settings(tag, interesting_region, enable_cpu_backup, enable_disk_backup, backend))

    def _call(self, name: bytes, pointer: Optional[int], value: int) -> int:
        """A function of the library. Returns 1 if it fails, with an error in the log."""
        function, words = getattr(self, name.decode()), name.decode().partition("_")[2]
        arguments: Tuple[Any, ...] = (value,)
        if words.startswith("get_"):
            arguments = (pointer, value) if words == "get_cpu_backup_pointer" else ()
        elif words in _TAKE_TEXT:
            arguments = (None if pointer is None else ctypes.string_at(pointer),)
        try:
            result = function(*arguments)
        except Exception as error:  # Python has no other way to hand it to C
            _LOG.error("%s() failed: %s", name.decode(), error)
            return 1
        if not isinstance(result, bytes):
            return int(result or 0)
        text = self.config.returned[name] = ctypes.create_string_buffer(result)
        return ctypes.addressof(text)
