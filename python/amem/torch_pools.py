# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""PyTorch's memory pools for regions. What PyTorch allocates for a pool of amem has the tag of this pool, and nothing else
has. A pool ends with its region: what is left of it is free when its tensors are, as in PyTorch's common cache.

Not public in PyTorch, read in 2.6 to 2.15:

| function | without it |
|---|---|
| torch._C._cuda_releasePool() | memory that is freed after its region stays in the region's pool |
| torch._C._cuda_beginAllocateToPool(), _cuda_endAllocateToPool() | AmemError for regions with threads=True |
| torch._C._cuda_beginAllocateCurrentThreadToPool(), not called, since 2.8 | regions have no effect on PyTorch, with a warning |
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
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from . import torch_order
from .calls import call
from .errors import AmemError
from .library import STATES, require_library

_LOG = logging.getLogger(__name__)
_KEPT_BYTES = 64 << 20  # A pool with more is not used again.
_ALLOCATORS = 64  # amemSetPool()


class Owner(NamedTuple):
    """What the memory of a pool has in common. Without a tag it is never paused."""

    tag: Optional[str]
    kind: int  # amemKind_t
    device: int


class _Pool:
    def __init__(self, torch: Any, owner: Owner) -> None:
        _watch_empty_cache(torch)
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
        _add_reference(self.pool)
        self.owner, self.id = owner, self.pool.id
        torch_order.of_amem.add(self.id)

    def release(self, torch: Any) -> None:
        """No region uses it again. PyTorch returns its free memory at empty_cache(), or when memory is short."""
        if hasattr(torch._C, "_cuda_releasePool"):
            torch._C._cuda_releasePool(self.owner.device, self.id)

    def segments(self, torch: Any) -> List[dict]:
        return segments(torch, self.id)

    def is_of_graph(self) -> bool:
        """False when the graphs that were captured with it are gone."""
        try:
            return self.pool.use_count() > 0
        except RuntimeError:  # PyTorch has deleted it
            return False


_mutex = threading.RLock()  # a region may end in a finalizer
_allocators: Dict[Tuple[str, int], Tuple[int, Any]] = {}  # of a tag and kind: its number, and PyTorch's object
_idle: Dict[Owner, List[_Pool]] = {}  # pools that the next region uses
_ended: List[_Pool] = []  # pools that were released and may have memory
_graph_pools: Dict[Tuple[Owner, Any], _Pool] = {}  # by their own id, and by that of a handle for which they were made
_cached: Dict[Owner, int] = {}  # bytes that PyTorch had cached when free segments were looked for
_waiting: List["Route"] = []  # for the initialization of CUDA


def _add_reference(value: Any) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def segments(torch: Any, pool_id: Tuple[int, int] = (0, 0)) -> List[dict]:
    """Of a pool, or of all. Before 2.15, _cuda_memorySnapshot() takes a reference away from each of its arguments
    (Module.cpp@v2.11): without another one, Python frees numbers, and False, that are in use."""
    parameters = torch.cuda.memory_snapshot.__code__.co_varnames
    if "mempool_id" not in parameters:  # before 2.8: of all
        return torch.cuda.memory_snapshot()
    for argument in (*pool_id, False):
        _add_reference(argument)
    return torch.cuda.memory_snapshot(pool_id, **({"include_traces": False} if "include_traces" in parameters else {}))


def _torch() -> Any:
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "cuda") else None


def torch_with_cuda() -> Any:
    """The torch module; None unless PyTorch has initialized CUDA in this process. Does not initialize it."""
    torch = _torch()
    return torch if torch is not None and torch.cuda.is_initialized() else None


def is_capturing() -> bool:
    """True if the calling thread captures a CUDA graph with PyTorch."""
    torch = torch_with_cuda()
    return torch is not None and torch.cuda.is_current_stream_capturing()


def can_route(torch: Any) -> bool:
    """False, with a warning, if regions have no effect on tensors."""
    reason = ""
    if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        reason = "PYTORCH_NO_CUDA_MEMORY_CACHING is set"
    elif not hasattr(torch._C, "_cuda_beginAllocateCurrentThreadToPool"):
        reason = f"pools of PyTorch {torch.__version__} are used by all threads; use PyTorch 2.8 or newer, or amem run --tensors"
    if reason:
        _LOG.warning("Regions have no effect on tensors of PyTorch: %s", reason)
    return not reason


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


def has_tags() -> bool:
    """False if no region with a tag has been open."""
    return bool(_allocators)


def empty_cache(torch: Any) -> None:
    with contextlib.suppress(RuntimeError):  # older versions: while a graph is captured
        torch.cuda.empty_cache()


def _ended_segments(torch: Any, is_wanted: Callable[[Owner], bool] = lambda _: True) -> List[dict]:
    """Of ended pools. Forgets those that have no memory any more."""
    found = []
    with _mutex:
        for pool in [pool for pool in _ended if is_wanted(pool.owner)]:
            of_pool = pool.segments(torch)
            found += of_pool
            if not of_pool:
                _ended.remove(pool)
    return found


def ended_segments(torch: Any, is_wanted: Callable[[Owner], bool]) -> List[dict]:
    """The segments of all pools with these owners, except those of open regions and of graphs. No region uses the pools again."""
    with _mutex:
        for owner in filter(is_wanted, list(_idle)):
            for pool in [pool for pool in _idle[owner] if pool.segments(torch)]:
                _idle[owner].remove(pool)
                _ended.append(pool)
                pool.release(torch)
        return _ended_segments(torch, is_wanted)


def _watch_empty_cache(torch: Any) -> None:
    """torch.cuda.empty_cache() returns the memory of idle pools too."""
    for name in ("_cuda_emptyCache", "_accelerator_emptyCache"):
        original = getattr(torch._C, name, None)
        if original is None or hasattr(original, "amem"):
            continue

        def empty(original=original):
            ended_segments(torch, lambda _: True)
            original()
            _ended_segments(torch)

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
    if cached > _cached.get(owner, 0):
        has_free = _free_bytes(_ended_segments(torch, owner.__eq__)) > 0
        _cached[owner] = cached
    else:
        has_free = False
    if has_free or cached > 256 << 20 and cached > torch.cuda.mem_get_info(owner.device)[0]:
        empty_cache(torch)
        _cached.pop(owner, None)


def _is_active(owner: Owner) -> bool:
    return owner.tag is None or STATES[require_library().amemGetTagState(owner.tag.encode())] == "active"


def _take(torch: Any, owner: Owner) -> _Pool:
    """A pool to which nothing is routed. Of a paused tag a new one: blocks of others have no memory."""
    if owner.device == torch.cuda.current_device():
        _make_room(torch, owner)
    with _mutex:
        idle = _idle.get(owner)
        return idle.pop() if idle and _is_active(owner) else _Pool(torch, owner)


def _give_back(torch: Any, pool: _Pool) -> None:
    """After a region: a small pool is used again, which keeps the memory of many small regions together."""
    segments = pool.segments(torch)
    with _mutex:
        if sum(each["total_size"] for each in segments) <= _KEPT_BYTES and _is_active(pool.owner):
            _idle.setdefault(pool.owner, []).append(pool)
            return
        _ended.append(pool)
        pool.release(torch)
    if _free_bytes(segments) > 0:
        empty_cache(torch)


class Route:
    """PyTorch allocates from pools of this tag from start() to end(): for the calling thread, or for all threads."""

    def __init__(self, tag: Optional[str], kind: int, all_threads: bool) -> None:
        self._tag, self._kind, self._all_threads = tag, kind, all_threads
        self._thread = threading.get_ident()
        self._stack = contextlib.ExitStack()
        self._started_without_torch = _torch() is None

    def start(self) -> None:
        torch = _torch()
        if torch is None:
            return
        torch_order.keep(torch)
        if not torch.cuda.is_initialized() and hasattr(torch.cuda, "_lazy_call"):
            with _mutex:
                _waiting.append(self)
                is_first = len(_waiting) == 1
            if is_first:
                torch.cuda._lazy_call(_start_waiting)
            return
        self._start(torch)

    def _start(self, torch: Any) -> None:
        if not can_route(torch):
            return
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
        device = pool.owner.device
        self._stack.callback(_give_back, torch, pool)
        if not self._all_threads:
            self._stack.enter_context(torch.cuda.use_mem_pool(pool.pool, device))
            return
        begin = getattr(torch._C, "_cuda_beginAllocateToPool", None)
        if begin is None:
            raise AmemError(f"PyTorch {torch.__version__} cannot route the allocations of all threads to a pool")
        begin(device, pool.id)
        self._stack.callback(torch._C._cuda_releasePool, device, pool.id)
        self._stack.callback(torch._C._cuda_endAllocateToPool, device, pool.id)

    def end(self) -> None:
        """May be called from any thread, and without start()."""
        with _mutex:
            if self in _waiting:
                _waiting.remove(self)
        if self._started_without_torch and torch_with_cuda() is not None:
            _LOG.warning("The region %r has no effect on PyTorch, which was imported inside it: import torch before", self._tag)
        self._stack.close()  # each step whether or not another one fails

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
    """The pool for the capture of a graph. Graphs with the same handle, or that of one of them, share one with this tag."""
    owner = Owner(tag, kind, torch.cuda.current_device())
    handle = getattr(handle, "id", handle)
    with _mutex:
        for key in [key for key, pool in _graph_pools.items() if not pool.is_of_graph()]:
            del _graph_pools[key]
        pool = _graph_pools.get((owner, handle)) or _Pool(torch, owner)
        is_new = pool.id not in {key[1] for key in _graph_pools}
        if handle is not None:
            _graph_pools[owner, handle] = pool
        _graph_pools[owner, pool.id] = pool
    try:
        yield pool.id
    finally:
        if is_new:
            pool.release(torch)  # it ends with its graphs


if _torch() is not None:
    torch_order.keep(_torch())  # before the program uses pools of its own
