# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Regions: in them PyTorch, and every library that is linked with the CUDA runtime, allocates memory with a tag."""

import contextlib
import ctypes
import threading
from typing import Iterator, Optional

from . import torch_pools
from .calls import call
from .errors import AmemError
from .library import require_library

_KINDS = {"host": 0, None: 1}  # amemKindKeep, amemKindDiscard
_capture = threading.local()


def _kind_of(backup: Optional[str]) -> int:
    if backup not in _KINDS:
        raise AmemError(f"backup is {backup!r}; it must be 'host' (contents are kept) or None (contents are discarded)")
    return _KINDS[backup]


@contextlib.contextmanager
def _open(tag: Optional[str], kind: int) -> Iterator[None]:
    call("amemBeginRegion", None if tag is None else tag.encode(), kind)
    try:
        yield
    finally:
        call("amemEndRegion")


@contextlib.contextmanager
def region(tag: str, *, backup: Optional[str] = "host", threads: bool = False) -> Iterator[None]:
    """Memory that is allocated in the block carries the tag: pause(tag) releases it, resume(tag) restores it.

    Addresses stay the same, so CUDA graphs that use the memory stay valid.

    Args:
        tag: 1 to 64 letters, digits, '_', '-', '.', ':' or '/'. "nccl", "symmetric" and "context" are reserved.
        backup: "host": a pause copies the contents to pinned host memory, and a resume restores them.
            None: the contents are undefined after a resume, as for a KV cache.
        threads: False: the region is the calling thread's. True: it is the process's, for allocations of threads
            that have no region of their own, such as those of autograd.

    The region covers cudaMalloc() on every device that the process has used, and on the current one. Regions
    nest; the innermost one counts. Inside cuda_graph() a region has no effect: memory of a capture belongs to its
    graph. Raises AmemError if amem is not in the process or the tag is not valid.
    """
    kind = _kind_of(backup)
    if getattr(_capture, "depth", 0) > 0:
        yield
        return
    name = "host" if backup == "host" else "none"
    if not threads:
        with _open(tag, kind), torch_pools.routed(tag, name):
            yield
        return
    call("amemSetProcessRegion", tag.encode(), kind)
    try:
        with torch_pools.routed(tag, name, whole_process=True):
            yield
    finally:
        call("amemSetProcessRegion", None, 0)


@contextlib.contextmanager
def disable() -> Iterator[None]:
    """Memory that is allocated in the block is not paused, also inside a region."""
    with _open(None, 0), torch_pools.routed_outside():
        yield


@contextlib.contextmanager
def cuda_graph(graph, *, tag: str = "cuda_graph", backup: Optional[str] = "host", **options) -> Iterator[None]:
    """torch.cuda.graph(graph, **options), whose private memory carries the tag.

    After pause(tag) and resume(tag) the graph can be replayed; it is not captured again. With backup=None a
    replay must not read what an earlier replay has left in the graph's memory.
    """
    kind = _kind_of(backup)
    torch = torch_pools.torch_with_gpus()
    if torch is None:
        raise AmemError("cuda_graph() needs PyTorch with a GPU: import torch first")
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
    import torch

    if not tensor.is_contiguous():
        raise AmemError("backup() needs a contiguous tensor")
    address = None if copy else require_library().amemGetBackup(tensor.data_ptr(), tensor.nbytes)
    if address is not None and tensor.nbytes > 0:
        data = (ctypes.c_uint8 * tensor.nbytes).from_address(address)
        return torch.frombuffer(data, dtype=torch.uint8).view(tensor.dtype).view(tensor.shape)
    result = torch.empty(tensor.shape, dtype=tensor.dtype)
    call("amemReadBackup", result.data_ptr(), tensor.data_ptr(), tensor.nbytes)
    return result


def open_pool(owner: torch_pools.Owner):
    """The region of a pool of PyTorch."""
    return _open(owner.tag, _KINDS["host"] if owner.kind == "host" else _KINDS[None])
