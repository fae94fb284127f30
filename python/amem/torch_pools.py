# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""PyTorch's memory pools for regions. What PyTorch allocates for a pool of amem has the tag of this pool, and nothing else
has. A pool ends with its region: what is left of it is free when its tensors are, as in PyTorch's common cache.

Not public in PyTorch, read in 2.6 to 2.15:

| function | without it |
|---|---|
| torch._C._cuda_releasePool() | memory that is freed after its region stays in the region's pool |
| torch._C._cuda_beginAllocateToPool(), _cuda_endAllocateToPool() | AmemError for regions with threads=True |
| torch._C._cuda_emptyCache(), _accelerator_emptyCache() | empty_cache() leaves up to 64 MiB of free memory for each tag |
| torch.cuda._lazy_call() | a region in which CUDA is initialized has no effect on PyTorch, with a warning |
| torch.cuda._maybe_exchange_device() | a region covers devices that PyTorch has used |
"""

import contextlib
import ctypes
import logging
import os
import sys
import threading
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from .calls import call
from .errors import AmemError
from .library import STATES, require_library

_LOG = logging.getLogger(__name__)
_KEPT_BYTES = 64 << 20  # A pool with more is not used again.
_ALLOCATORS = 64  # amemSetPool()
_DISCARDED = (1, 4)  # of amemKind_t: no contents to keep


class Owner(NamedTuple):
    """What the memory of a pool has in common. Without a tag it is never paused."""

    tag: Optional[str]
    kind: int  # amemKind_t
    device: int


class _Pool:
    def __init__(self, torch: Any, owner: Owner) -> None:
        current = torch.cuda.current_device()
        allocator = () if owner.tag is None else (_allocator(torch, owner.tag, owner.kind),)
        try:
            if owner.device != current:
                torch.cuda._maybe_exchange_device(owner.device)  # makes no context on the device
            self.pool = torch.cuda.MemPool(*allocator)
        except RuntimeError as error:
            raise AmemError(f"PyTorch has no memory pools here, which regions need: {error}") from error
        finally:
            if owner.device != current:
                torch.cuda.set_device(current)
        # Never destroyed: ~MemPool() ends the process while memory is routed to any pool, or a graph is captured
        # (CUDACachingAllocator.cpp:3662@v2.11).
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.pool))
        self.owner, self.id = owner, self.pool.id
        self.is_of_graph = self.is_released = False

    def release(self, torch: Any) -> None:
        """No region uses it again. PyTorch returns its free memory at empty_cache(), or when memory is short."""
        if hasattr(torch._C, "_cuda_releasePool") and not self.is_released:
            torch._C._cuda_releasePool(self.owner.device, self.id)
            self.is_released = True

    def segments(self, torch: Any) -> List[dict]:
        try:
            return torch.cuda.memory_snapshot(self.id, include_traces=False)
        except TypeError:  # before 2.11
            return torch.cuda.memory_snapshot(self.id)


_mutex = threading.RLock()  # a region may end in a finalizer
_allocators: Dict[Tuple[str, int], Tuple[int, Any]] = {}  # of a tag and kind: its number, and PyTorch's object
_pools: List[_Pool] = []  # that may have memory and are not in use by a region
_idle: Dict[Owner, List[_Pool]] = {}  # of them, those that the next region uses
_graph_pools: Dict[Tuple[Owner, Any], _Pool] = {}  # for handles of torch.cuda.graph_pool_handle()
_cached: Dict[Owner, int] = {}  # bytes that PyTorch had cached when free segments were looked for
_waiting: List["Route"] = []  # for the initialization of CUDA


def _torch() -> Any:
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "cuda") else None


def torch_with_cuda() -> Any:
    """The torch module; None unless PyTorch has initialized CUDA in this process. Does not initialize it."""
    torch = _torch()
    return torch if torch is not None and torch.cuda.is_initialized() else None


def on_device(device: int):
    """torch.cuda.device(device). Does nothing in a process without PyTorch."""
    torch = torch_with_cuda()
    return contextlib.nullcontext() if torch is None else torch.cuda.device(device)


def is_capturing() -> bool:
    """True if the calling thread captures a CUDA graph with PyTorch."""
    torch = torch_with_cuda()
    return torch is not None and torch.cuda.is_current_stream_capturing()


def check_backend() -> None:
    """Raises AmemError if PyTorch's allocator has no pools."""
    torch = _torch()
    backend = torch.cuda.get_allocator_backend() if torch is not None and torch.cuda._is_compiled() else "native"
    if backend != "native":
        raise AmemError(
            f"regions need PyTorch's native allocator, and this process uses {backend!r}: remove backend:{backend} from "
            "PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF, or do not change the allocator"
        )


def _allocator(torch: Any, tag: str, kind: int) -> Any:
    with _mutex:
        if (tag, kind) not in _allocators:
            number = len(_allocators)
            if number == _ALLOCATORS:
                raise AmemError(f"a process has at most {_ALLOCATORS} tags for memory of PyTorch")
            call("amemSetPool", number, tag.encode(), kind)
            of_torch = torch.cuda.memory.CUDAPluggableAllocator(None, f"amemPoolAllocate{number:02x}", "amemPoolFree")
            _allocators[tag, kind] = (number, of_torch)
        return _allocators[tag, kind][1].allocator()


def _empty_cache(torch: Any) -> None:
    with contextlib.suppress(RuntimeError):  # older versions: while a graph is captured
        torch.cuda.empty_cache()


def _end_idle_pools(torch: Any, owner: Optional[Owner] = None) -> None:
    with _mutex:
        for each in [owner] if owner is not None else list(_idle):
            for pool in _idle.pop(each, []):
                pool.release(torch)


def _watch_empty_cache(torch: Any) -> None:
    """torch.cuda.empty_cache() returns the memory of idle pools too."""
    for name in ("_cuda_emptyCache", "_accelerator_emptyCache"):
        original = getattr(torch._C, name, None)
        if original is None or hasattr(original, "amem"):
            continue

        def empty(original=original):
            _end_idle_pools(torch)
            return original()

        empty.amem = True
        setattr(torch._C, name, empty)


def _free_bytes(segments: List[dict]) -> int:
    """Of segments that have no block in use."""
    return sum(each["total_size"] for each in segments if all(b["state"] == "inactive" for b in each["blocks"]))


def _make_room(torch: Any, owner: Owner) -> None:
    """Returns cached memory that the pool of a new region cannot use: if ended pools of the same owner have free segments, or if
    PyTorch caches more than the device has free, because PyTorch does not do so while memory is routed to a pool."""
    stats = torch.cuda.memory_stats_as_nested_dict(owner.device)
    if not stats:
        return
    cached = stats["reserved_bytes"]["all"]["current"] - stats["allocated_bytes"]["all"]["current"]
    with _mutex:
        ended = [pool for pool in _pools if pool.owner == owner and pool.is_released]
    if ended and cached > _cached.get(owner, 0):
        has_free = any(_free_bytes(pool.segments(torch)) > 0 for pool in ended)
        _cached[owner] = cached
    else:
        has_free = cached > 256 << 20 and cached > torch.cuda.mem_get_info(owner.device)[0]
    if has_free:
        _empty_cache(torch)
        _cached.pop(owner, None)


def _take(torch: Any, owner: Owner) -> _Pool:
    """A pool to which nothing is routed. Blocks of a paused tag have no memory."""
    if owner.tag is not None and STATES[require_library().amemGetTagState(owner.tag.encode())] != "active":
        _end_idle_pools(torch, owner)
    if owner.device == torch.cuda.current_device():
        _make_room(torch, owner)
    with _mutex:
        if _idle.get(owner):
            pool = _idle[owner].pop()
            _pools.remove(pool)
            return pool
    return _Pool(torch, owner)


def _give_back(torch: Any, pool: _Pool) -> None:
    """After a region: a small pool is used again, which keeps the memory of many small regions together."""
    segments = pool.segments(torch)
    with _mutex:
        _pools.append(pool)
        if sum(each["total_size"] for each in segments) <= _KEPT_BYTES:
            _idle.setdefault(pool.owner, []).append(pool)
            return
    pool.release(torch)
    if _free_bytes(segments) > 0:
        _empty_cache(torch)


class Route:
    """PyTorch allocates from pools of this tag from start() to end(): for the calling thread, or for all threads."""

    def __init__(self, tag: Optional[str], kind: int, all_threads: bool) -> None:
        self._tag, self._kind, self._all_threads = tag, kind, all_threads
        self._thread = threading.get_ident()
        self._routed: List[Tuple[_Pool, contextlib.ExitStack]] = []
        self._started_without_torch = _torch() is None

    def start(self) -> None:
        torch = _torch()
        if torch is None:
            return
        if not torch.cuda.is_initialized() and hasattr(torch.cuda, "_lazy_call"):
            with _mutex:
                _waiting.append(self)
                is_first = len(_waiting) == 1
            if is_first:
                torch.cuda._lazy_call(_start_waiting)
            return
        self._start(torch)

    def _start(self, torch: Any) -> None:
        if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
            _LOG.warning("Regions have no effect on tensors of PyTorch: PYTORCH_NO_CUDA_MEMORY_CACHING is set")
            return
        _watch_empty_cache(torch)
        devices = range(torch.cuda.device_count())
        if not hasattr(torch.cuda, "_maybe_exchange_device"):
            devices = [torch.cuda.current_device()]
        try:
            for device in devices:
                self._route(torch, _take(torch, Owner(self._tag, self._kind, device)))
        except BaseException:
            self.end()
            raise

    def _route(self, torch: Any, pool: _Pool) -> None:
        device, stack = pool.owner.device, contextlib.ExitStack()
        if self._all_threads:
            begin = getattr(torch._C, "_cuda_beginAllocateToPool", None)
            if begin is None:
                raise AmemError(f"PyTorch {torch.__version__} cannot route the allocations of all threads to a pool")
            begin(device, pool.id)
            stack.callback(torch._C._cuda_releasePool, device, pool.id)
            stack.callback(torch._C._cuda_endAllocateToPool, device, pool.id)
        else:
            stack.enter_context(torch.cuda.use_mem_pool(pool.pool, device))
        self._routed.append((pool, stack))

    def end(self) -> None:
        """May be called from any thread, and without start()."""
        torch = _torch()
        with _mutex:
            if self in _waiting:
                _waiting.remove(self)
        if self._started_without_torch and torch_with_cuda() is not None:
            _LOG.warning("The region %r has no effect on PyTorch, which was imported inside it: import torch before", self._tag)
        routed, self._routed = self._routed, []
        for _, stack in reversed(routed):
            stack.close()
        for pool, _ in routed:
            _give_back(torch, pool)

    def start_late(self, torch: Any) -> None:
        """CUDA has been initialized by the calling thread."""
        if not self._all_threads and self._thread != threading.get_ident():
            _LOG.warning("The region %r has no effect on PyTorch: another thread has initialized CUDA inside it", self._tag)
            return
        try:
            self._start(torch)
        except AmemError as error:  # would make torch.cuda unusable
            _LOG.error("The region %r has no effect on PyTorch: %s", self._tag, error)


def _start_waiting() -> None:
    with _mutex:
        routes, _waiting[:] = list(_waiting), []
    for route in routes:
        route.start_late(_torch())


@contextlib.contextmanager
def graph_pool(torch: Any, tag: str, kind: int, handle: Any) -> Iterator[Any]:
    """The pool for the capture of a graph: `handle` itself if it is that of a graph of amem."""
    owner = Owner(tag, kind, torch.cuda.current_device())
    handle = getattr(handle, "id", handle)
    with _mutex:
        known = any(pool.is_of_graph and pool.id == handle for pool in _pools)
        pool = None if known or handle is None else _graph_pools.get((owner, handle))
        if not known and pool is None:
            pool = _Pool(torch, owner)
            pool.is_of_graph = True
            _pools.append(pool)
            if handle is not None:
                _graph_pools[owner, handle] = pool
    try:
        yield handle if known else pool.id
    finally:
        if handle is None:
            pool.release(torch)  # it ends with the graph


class _Range(ctypes.Structure):
    """amemRange_t."""

    _fields_ = [("pointer", ctypes.c_void_p), ("size_bytes", ctypes.c_size_t)]


@contextlib.contextmanager
def unused_ranges(tags: Set[str]) -> Iterator[None]:
    """For a pause: contents of free blocks are not kept. Nothing can allocate such a block meanwhile, because no thread is
    routed to its pool. Blocks of a graph may carry data between replays."""
    torch = torch_with_cuda()
    with _mutex:
        pools = [p for p in _pools if p.owner.tag in tags and p.owner.kind not in _DISCARDED and not p.is_of_graph]
        for owner in {pool.owner for pool in pools}:
            _end_idle_pools(torch, owner)
    if not pools:
        yield
        return
    call("amemSetUnusedRanges", None, 0)
    blocks = [block for pool in pools for segment in pool.segments(torch) for block in segment["blocks"]]
    ranges = [_Range(block["address"], block["size"]) for block in blocks if block["state"] == "inactive"]
    if ranges:
        call("amemSetUnusedRanges", (_Range * len(ranges))(*ranges), len(ranges))
    try:
        yield
    finally:
        call("amemSetUnusedRanges", None, 0)


def empty_cache() -> bool:
    """Returns what PyTorch caches to the driver. False if that is nothing."""
    torch = torch_with_cuda()
    if torch is None:
        return False
    before = sum(map(torch.cuda.memory_reserved, range(torch.cuda.device_count())))
    _empty_cache(torch)
    return sum(map(torch.cuda.memory_reserved, range(torch.cuda.device_count()))) < before


def reserved_bytes() -> Dict[int, int]:
    """By device: what PyTorch's allocator has, also while it is paused."""
    torch = torch_with_cuda()
    return {} if torch is None else {i: torch.cuda.memory_reserved(i) for i in range(torch.cuda.device_count())}


def expandable_bytes() -> int:
    """Bytes in expandable segments of PyTorch."""
    torch = torch_with_cuda()
    segments = [] if torch is None else torch.cuda.memory_snapshot()
    return sum(segment["total_size"] for segment in segments if segment.get("is_expandable"))
