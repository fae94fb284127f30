# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Regions: in them PyTorch, and every library that is linked with the CUDA runtime, allocates memory with a tag."""

import contextlib
import contextvars
import ctypes
import os
import sys
import threading
from typing import Any, ContextManager, Dict, Iterator, List, Literal, Optional, Tuple

from amem_flags import RESERVED_TAGS

from . import remaking, torch_checks, torch_pools
from .calls import Int, call, check_tensor, encoded, value_of
from .errors import AmemError, AmemTypeError, AmemValueError, shown
from .library import why_off
from .torch_route import Route

Backup = Literal["host", "disk", "zero"]
_KINDS: Dict[Optional[str], int] = {"host": 0, None: 1, "disk": 3, "zero": 4}  # amemKind_t
_RETAIN = 5


class _Default(str):
    """The backup of a region that names none."""


_HOST: Any = _Default("host")


def kind_of(backup: Optional[Backup], retain: bool = False) -> int:
    """amemKind_t."""
    if not isinstance(backup, (str, type(None))) or backup not in _KINDS:
        raise AmemValueError(f"backup is {shown(backup)}; it must be 'host', 'disk', 'zero' or None (contents are discarded)")
    if not isinstance(retain, (bool, int)):
        raise AmemTypeError(f"retain is {shown(retain)}, not True or False")
    if retain and backup != "host":
        raise AmemValueError(f"retain=True keeps the copy in host memory: backup must be 'host', not {backup!r}")
    return _RETAIN if retain else _KINDS[backup]


# By thread: a token of each region; the innermost one is the last. PyTorch knows threads by the same ids.
_open_regions: Dict[int, List[object]] = {}


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.regions: List[object] = []
        _open_regions[threading.get_ident()] = self.regions  # the id may be that of a thread that has ended


_of_thread = _OfThread()
_of_context: contextvars.ContextVar[Tuple[object, ...]] = contextvars.ContextVar("amem_regions", default=())


@contextlib.contextmanager
def opened(tag: Optional[str], kind: int, all_threads: bool = False) -> Iterator[None]:
    """A region of this amemKind_t; without a tag, memory is not paused. Has no effect inside a capture."""
    if why_off() or torch_checks.is_capturing():
        yield
        return
    torch_checks.check_backend()
    of_thread, token = _of_thread.regions, object()
    if of_thread and of_thread[-1] not in _of_context.get():
        raise AmemError("another coroutine of this thread has an open region that would get the memory: close it first")
    if all_threads:
        alive = sys._current_frames()
        others = [each for thread, each in list(_open_regions.items()) if each is not of_thread and thread in alive]
        if torch_pools.captures or any(others):
            raise AmemError("another thread has an open region or captures a graph: a region of all threads would get its memory")
    number, process, route = ctypes.c_uint64(0), os.getpid(), Route(tag, kind, all_threads)
    with contextlib.ExitStack() as stack:
        # Before the calls: the handler of a signal can raise after any of them.
        stack.callback(lambda: number.value and value_of("amemCloseRegion", number.value))
        stack.callback(route.end)
        name = ctypes.c_char_p(None if tag is None else encoded(tag))
        call("amemOpenRegion", name, Int(kind), Int(all_threads), ctypes.byref(number))
        route.start()
        of_thread.append(token)
        _of_context.set((*_of_context.get(), token))
        try:
            yield
        finally:  # possibly in another thread
            was_innermost = of_thread[-1] is token
            of_thread.remove(token)
            _of_context.set(tuple(each for each in _of_context.get() if each is not token))
            if process != os.getpid():  # nothing is routed in a forked child
                stack.pop_all()
            elif not was_innermost:
                raise AmemError(
                    f"the region {tag!r} has ended before a region that was opened inside it in the same thread: what was "
                    "allocated meanwhile has the tag of the other one. Do not interleave the regions of generators or coroutines"
                )


def _check_tag(tag: str) -> None:
    encoded(tag)
    if tag in RESERVED_TAGS:
        raise AmemValueError(f"the tag {tag!r} is reserved: choose another one")


def region(tag: str, *, backup: Optional[Backup] = _HOST, threads: bool = False, retain: bool = False) -> ContextManager[None]:
    """Memory that is allocated in the block carries the tag: pause(tag) releases it, resume(tag) restores it.

    Addresses stay the same, so CUDA graphs that use the memory stay valid.

    Args:
        tag: 1 to 64 letters, digits, '_', '-', '.', ':' or '/'. "nccl", "symmetric" and "context" are reserved.
        backup: "host": a pause copies the contents to pinned host memory, and a resume restores them.
            "disk": the same with a file in the directory of set_backup_directory().
            None: the contents are undefined after a resume, as for a KV cache. "zero": all bytes are zero then.
            Without this argument: None if the tag has functions of on_resume(), else "host".
        threads: False: the region is the calling thread's. True: it is the process's, for allocations of threads
            that have no region of their own, such as those of autograd. Raises AmemError while another thread has a
            region open or captures with cuda_graph(): PyTorch routes the allocations of all threads to it. Do not open it while
            a thread captures with torch.cuda.graph().
        retain: True: the host copy stays after a resume, and the next pause copies only what has changed, for contents
            that mostly stay the same. With backup="host" only. A pause that lacks host memory, and trim_host_memory(), drop it.

    The region covers tensors of PyTorch on every visible device, and cudaMalloc() of other libraries. Regions
    nest; the innermost one counts. Inside a capture of a CUDA graph a region has no effect: memory of a capture belongs
    to its graph. With AMEM_ENABLE=0, or without a CUDA driver, regions have no effect. Raises AmemError if amem is not
    installed or the tag is not valid.
    """
    _check_tag(tag)
    if isinstance(backup, _Default) and remaking.is_remade(tag):
        backup = None
    return opened(tag, kind_of(backup, retain), threads)


def set_backup_directory(path: str) -> None:
    """The directory for files with the contents of regions with backup="disk"; choose one on a local disk.

    Replaces that of AMEM_BACKUP_DIR. Files have no names and end with the process. A path that ends in XXXXXX is a template of
    mkstemp(3): files have names, and stay if the process ends while it is paused. Raises AmemError if no file can be created.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise AmemTypeError(f"the backup directory is a path, not {shown(path)}")
    name = os.fsencode(path)
    if not name or b"\0" in name:
        raise AmemValueError(f"the path of the backup directory is {path!r}, which is empty or contains a NUL character")
    call("amemSetBackupDirectory", ctypes.c_char_p(name))


def disable() -> ContextManager[None]:
    """Memory that is allocated in the block is not paused, also inside a region."""
    return opened(None, 0)


@contextlib.contextmanager
def cuda_graph(graph: Any, *, tag: str = "cuda_graph", backup: Optional[Backup] = "host", **options: Any) -> Iterator[None]:
    """torch.cuda.graph(graph, **options), whose private memory carries the tag.

    After pause(tag) and resume(tag) the graph can be replayed; it is not captured again. With backup=None a
    replay must not read what an earlier replay has left in the graph's memory.
    """
    _check_tag(tag)
    kind = kind_of(backup)
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        raise AmemError("cuda_graph() needs PyTorch with a GPU: import torch first")
    if why_off() or not torch_checks.can_route(torch):
        with torch.cuda.graph(graph, **options):
            yield
        return
    torch_checks.check_backend()
    with torch_pools.graph_pool(torch, tag, kind, options.pop("pool", None)) as pool:
        capture = torch.cuda.graph(graph, pool=pool, **options)
        # PyTorch keeps the workspace of cuBLAS of a stream: that of the capture must not be the graph's.
        with torch.cuda.stream(capture.capture_stream), contextlib.suppress(RuntimeError):
            torch.cuda.current_blas_handle()
        with capture:
            yield


def backup(tensor: Any, *, copy: bool = False) -> Any:
    """The contents of a paused tensor of PyTorch, as a tensor on the CPU.

    Without `copy`, the result shares memory with the host copy where that is contiguous, and is valid until the tag
    is resumed; it keeps the tensor, and must not be written, or used in a forked child, which does not have this memory.
    Raises AmemError if the tensor is not contiguous, is not paused and not empty, or its contents are not kept.
    """
    check_tensor(tensor, "layout")
    import torch

    if tensor.layout is not torch.strided or not tensor.is_contiguous():
        raise AmemError("backup() needs a contiguous tensor")
    address = None if copy or tensor.nbytes == 0 else value_of("amemGetBackup", tensor.data_ptr(), tensor.nbytes)
    if address is not None:
        data = (ctypes.c_uint8 * tensor.nbytes).from_address(address)
        data.tensor = tensor  # whose end would be that of the copy
        result = torch.frombuffer(data, dtype=torch.uint8).view(tensor.dtype).view(tensor.shape)
    else:
        result = torch.empty(tensor.shape, dtype=tensor.dtype)
        if tensor.nbytes > 0:
            call("amemReadBackup", result.data_ptr(), tensor.data_ptr(), tensor.nbytes)
    result = result.conj() if tensor.is_conj() else result
    return -result if tensor.is_neg() else result
