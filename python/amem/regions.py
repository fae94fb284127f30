# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Regions: in them PyTorch, and every library that is linked with the CUDA runtime, allocates memory with a tag."""

import contextlib
import ctypes
import os
import threading
from typing import Iterator, List, Optional, Tuple

from . import torch_pools
from .calls import call, check_tensor, encoded, value_of
from .errors import AmemError, AmemValueError
from .library import is_off

_KINDS = {"host": 0, None: 1, "disk": 3, "zero": 4}  # amemKind_t
_capture = threading.local()


def kind_of(backup: Optional[str]) -> int:
    """amemKind_t."""
    if not isinstance(backup, (str, type(None))) or backup not in _KINDS:
        raise AmemValueError(f"backup is {backup!r}; it must be 'host', 'disk', 'zero' or None (contents are discarded)")
    return _KINDS[backup]


@contextlib.contextmanager
def _open(tag: Optional[str], kind: int) -> Iterator[None]:
    call("amemBeginRegion", None if tag is None else tag.encode(), kind)
    try:
        yield
    finally:
        call("amemEndRegion")


class _ProcessRegions:
    """The process' regions that are open; the newest one counts."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._open: List[Tuple[str, int]] = []

    def _apply(self) -> None:
        tag, kind = self._open[-1] if self._open else (None, 0)
        call("amemSetProcessRegion", None if tag is None else tag.encode(), kind)

    def begin(self, tag: str, kind: int) -> Tuple[str, int]:
        with self._mutex:
            self._open.append((tag, kind))
            try:
                self._apply()
            except AmemError:
                self._open.pop()
                raise
            return self._open[-1]

    def end(self, region: Tuple[str, int]) -> None:
        with self._mutex:
            newest_first = next(i for i in reversed(range(len(self._open))) if self._open[i] == region)
            del self._open[newest_first]
            self._apply()


process_regions = _ProcessRegions()


@contextlib.contextmanager
def _process_region(tag: str, kind: int) -> Iterator[None]:
    opened = process_regions.begin(tag, kind)
    try:
        yield
    finally:
        process_regions.end(opened)


@contextlib.contextmanager
def region(tag: str, *, backup: Optional[str] = "host", threads: bool = False) -> Iterator[None]:
    """Memory that is allocated in the block carries the tag: pause(tag) releases it, resume(tag) restores it.

    Addresses stay the same, so CUDA graphs that use the memory stay valid.

    Args:
        tag: 1 to 64 letters, digits, '_', '-', '.', ':' or '/'. "nccl", "symmetric" and "context" are reserved.
        backup: "host": a pause copies the contents to pinned host memory, and a resume restores them.
            "disk": the same with a file in the directory of set_backup_directory().
            None: the contents are undefined after a resume, as for a KV cache. "zero": all bytes are zero then.
        threads: False: the region is the calling thread's. True: it is the process's, for allocations of threads
            that have no region of their own, such as those of autograd. Open it while no other thread has a region
            open: PyTorch routes the allocations of all threads to it.

    The region covers cudaMalloc() on every device that the process has used, and on the current one. Regions
    nest; the innermost one counts. Inside a capture of a CUDA graph a region has no effect: memory of a capture belongs
    to its graph. With AMEM_ENABLE=0, or without a CUDA driver, regions have no effect. Raises AmemError if amem is not
    installed or the tag is not valid.
    """
    encoded(tag)
    kind = kind_of(backup)
    if is_off() or getattr(_capture, "depth", 0) > 0 or torch_pools.is_capturing():
        yield
        return
    name = backup or "none"
    if not threads:
        with _open(tag, kind), torch_pools.routed(tag, name):
            yield
        return
    with _process_region(tag, kind), torch_pools.routed(tag, name, whole_process=True):
        yield


def set_backup_directory(path: str) -> None:
    """The directory for files with the contents of regions with backup="disk"; choose one on a local disk.

    Replaces that of AMEM_BACKUP_DIR. Files have no names and end with the process. Raises AmemError if no file can be
    created in the directory.
    """
    call("amemSetBackupDirectory", os.fsencode(path))


@contextlib.contextmanager
def disable() -> Iterator[None]:
    """Memory that is allocated in the block is not paused, also inside a region."""
    if is_off() or torch_pools.is_capturing():
        yield
        return
    with _open(None, 0), torch_pools.routed_outside():
        yield


@contextlib.contextmanager
def cuda_graph(graph, *, tag: str = "cuda_graph", backup: Optional[str] = "host", **options) -> Iterator[None]:
    """torch.cuda.graph(graph, **options), whose private memory carries the tag.

    After pause(tag) and resume(tag) the graph can be replayed; it is not captured again. With backup=None a
    replay must not read what an earlier replay has left in the graph's memory.
    """
    encoded(tag)
    kind = kind_of(backup)
    torch = torch_pools.torch_with_gpus()
    if torch is None:
        raise AmemError("cuda_graph() needs PyTorch with a GPU: import torch first")
    if is_off():
        with torch.cuda.graph(graph, **options):
            yield
        return
    with torch_pools.without_expandable_segments(torch, (0, 0)), torch.cuda.graph(graph, **options), _open(tag, kind):
        _capture.depth = getattr(_capture, "depth", 0) + 1
        try:
            yield
        finally:
            _capture.depth -= 1


def backup(tensor, *, copy: bool = False):
    """The contents of a paused tensor of PyTorch, as a tensor on the CPU.

    Without `copy`, the result shares memory with the host copy where that is contiguous, and is valid until the tag
    is resumed; it must not be written. Raises AmemError if the tensor is not contiguous, is not paused, or its
    contents are not kept.
    """
    check_tensor(tensor)
    import torch

    if not tensor.is_contiguous():
        raise AmemError("backup() needs a contiguous tensor")
    address = None if copy else value_of("amemGetBackup", tensor.data_ptr(), tensor.nbytes)
    if address is not None and tensor.nbytes > 0:
        data = (ctypes.c_uint8 * tensor.nbytes).from_address(address)
        return torch.frombuffer(data, dtype=torch.uint8).view(tensor.dtype).view(tensor.shape)
    result = torch.empty(tensor.shape, dtype=tensor.dtype)
    call("amemReadBackup", result.data_ptr(), tensor.data_ptr(), tensor.nbytes)
    return result


def open_pool(owner: torch_pools.Owner):
    """The region of a pool of PyTorch."""
    return _open(owner.tag, _KINDS[None if owner.kind == "none" else owner.kind])
