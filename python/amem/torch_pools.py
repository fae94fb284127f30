# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""PyTorch's memory pools for regions. What PyTorch allocates for a pool of amem has the tag of this pool, and nothing else
has. A pool ends with its region: what is left of it is free when its tensors are, as in PyTorch's common cache.
"""

import collections
import contextlib
import ctypes
import functools
import logging
import threading
from typing import Any, Callable, Counter, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from . import torch_order
from .calls import Int, call
from .errors import AmemError
from .library import state_of
from .torch_checks import EMPTY_CACHE, OF_HANDLES

_KEPT_BYTES = 64 << 20  # A pool with more is not used again.
_ALLOCATORS = 64  # amemSetPool()
_MANY_BYTES = 64 << 20  # outside a region, while it is open
_LOG = logging.getLogger(__name__)


class Owner(NamedTuple):
    """What the memory of a pool has in common. Without a tag it is never paused."""

    tag: Optional[str]
    kind: int  # amemKind_t
    device: int


class Pool:
    def __init__(self, torch: Any, owner: Owner) -> None:
        _watch(torch)
        allocator = () if owner.tag is None else (_allocator(torch, owner.tag, owner.kind),)
        current = torch.cuda.current_device()
        try:
            torch.cuda._maybe_exchange_device(owner.device)  # makes no context on the device
            self.pool = torch.cuda.MemPool(*allocator)
        except RuntimeError as error:
            raise AmemError(f"PyTorch has no memory pools here, which regions need: {error}") from error
        finally:
            torch.cuda.set_device(current)
        # Never destroyed: ~MemPool() ends the process while memory is routed to any pool, or a graph is captured
        # (CUDACachingAllocator.cpp:3662@v2.11).
        _add_reference(self.pool)
        self.owner, self.id, self.has_ended = owner, self.pool.id, False
        self.others, self.begun = -1, 0  # bytes of all pools, and regions so far, when its first region began
        torch_order.of_amem.add(self.id)
        if owner.tag is not None:
            with_tag.add(self.id)

    def end(self, torch: Any) -> None:
        """No region uses it again. PyTorch returns its free memory at empty_cache(), or when memory is short."""
        torch._C._cuda_releasePool(self.owner.device, self.id)
        self.has_ended = True

    def is_of_graph(self) -> bool:
        """False when the graphs that were captured with it are gone."""
        with contextlib.suppress(RuntimeError):  # PyTorch has deleted it
            return int(self.pool.use_count()) > 0
        return False


_mutex = threading.RLock()  # a region may end in a finalizer
allocators: Dict[Tuple[str, int], Any] = {}  # of each tag and kind for which a region has been open
_unused: List[Pool] = []  # of no open region and no graph: for the next region, or ended and with memory
_graph_pools: Dict[Tuple[Owner, Any], Pool] = {}  # by their own id, and by that of a handle for which they were made
captured: Dict[Any, Any] = {}  # by handle: the id of the pool into which a graph is being captured
_cached: Dict[Owner, int] = {}  # bytes that PyTorch had cached when free segments were looked for
with_tag: Set[Tuple[int, int]] = set()  # of amem's pools
_warned: Set[Optional[str]] = set()  # tags
_begun: Counter[int] = collections.Counter()  # regions and captures so far, by device
_taken: Dict[Owner, int] = {}  # bytes of the largest pool of a region


def _add_reference(value: Any) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def segments(torch: Any, pool_id: Tuple[int, int] = (0, 0)) -> List[Any]:
    """Of a pool, or of all. Before 2.15, _cuda_memorySnapshot() takes a reference away from each of its arguments
    (Module.cpp@v2.11): without another one, Python frees numbers, and False, that are in use."""
    parameters = torch.cuda.memory_snapshot.__code__.co_varnames
    if "mempool_id" not in parameters:  # before 2.8: of all
        return list(torch.cuda.memory_snapshot())
    for argument in (*pool_id, False):
        _add_reference(argument)
    return list(torch.cuda.memory_snapshot(pool_id, **({"include_traces": False} if "include_traces" in parameters else {})))


def _allocator(torch: Any, tag: str, kind: int) -> Any:
    with _mutex:
        if (tag, kind) not in allocators:
            number = len(allocators)
            if number == _ALLOCATORS:
                raise AmemError(f"a process has at most {_ALLOCATORS} tags for memory of PyTorch")
            call("amemSetPool", Int(number), ctypes.c_char_p(tag.encode()), Int(kind))
            name = f"amemPoolAllocate{number:02x}"
            allocators[tag, kind] = torch.cuda.memory.CUDAPluggableAllocator(None, name, "amemPoolFree")
        return allocators[tag, kind].allocator()


def empty_cache(torch: Any) -> None:
    with contextlib.suppress(RuntimeError):  # older versions: while a graph is captured
        torch.cuda.empty_cache()


def unused_segments(torch: Any, is_wanted: Callable[[Owner], bool] = lambda _: True, end: bool = True) -> List[Any]:
    """The segments of all pools with these owners, except those of open regions and of graphs. Ends the pools that have memory,
    or leaves out those that have not ended. Forgets ended ones without memory."""
    found = []
    with _mutex:
        for pool in [pool for pool in _unused if is_wanted(pool.owner) and (end or pool.has_ended)]:
            of_pool = segments(torch, pool.id)
            found += of_pool
            if pool.has_ended and not of_pool:
                _unused.remove(pool)
            elif of_pool and not pool.has_ended:
                pool.end(torch)
    return found


@functools.lru_cache(maxsize=None)
def _watch(torch: Any) -> None:
    """torch.cuda.empty_cache() returns the memory of unused pools too. During a capture into a pool of amem, the handle of the
    program means this pool: SGLang stops and continues to allocate to its handle around its symmetric memory."""

    def empty(original: Callable[[], None]) -> None:
        unused_segments(torch)
        original()
        unused_segments(torch)

    def to_captured(original: Callable[[int, Any], None], device: int, pool: Any) -> None:
        original(device, captured.get(pool, pool))

    replaced: Tuple[Tuple[Callable[..., None], Tuple[str, ...]], ...] = (empty, EMPTY_CACHE), (to_captured, OF_HANDLES)
    for function, names in replaced:
        for name in names:
            if hasattr(torch._C, name):
                setattr(torch._C, name, functools.partial(function, getattr(torch._C, name)))


def _free_bytes(segments: List[Any]) -> int:
    """Of segments that have no block in use."""
    return sum(each["total_size"] for each in segments if all(b["state"] == "inactive" for b in each["blocks"]))


def _reserved_bytes(torch: Any, device: int) -> int:
    return int(torch.cuda.memory_stats_as_nested_dict(device)["reserved_bytes"]["all"]["current"])


def _make_room(torch: Any, owner: Owner) -> None:
    """Returns cached memory that the pool of a new region cannot use: if ended pools of the same owner have free segments, or if
    the device may lack room, because PyTorch does not do so while memory is routed to a pool."""
    stats = torch.cuda.memory_stats_as_nested_dict(owner.device)
    cached = stats["reserved_bytes"]["all"]["current"] - stats["allocated_bytes"]["all"]["current"]
    has_more, _cached[owner] = cached > _cached.get(owner, 0), cached
    can_lack = cached > 256 << 20 and _taken.get(owner, 1 << 60) > torch.cuda.mem_get_info(owner.device)[0]
    if can_lack or (has_more and _free_bytes(unused_segments(torch, owner.__eq__, end=False)) > 0):
        empty_cache(torch)
        _cached[owner] = 0


def _is_active(owner: Owner) -> bool:
    return owner.tag is None or state_of(owner.tag.encode()) == "active"


def take(torch: Any, owner: Owner) -> Pool:
    """A pool to which nothing is routed. Of a paused tag a new one: blocks of others have no memory."""
    is_in_use = torch.cuda.is_initialized() and torch._C._cuda_hasPrimaryContext(owner.device)  # not while CUDA is initialized
    if is_in_use:
        _make_room(torch, owner)
    with _mutex:
        _begun[owner.device] += 1
        for pool in _unused if _is_active(owner) else ():
            if pool.owner == owner and not pool.has_ended:
                _unused.remove(pool)
                return pool
    pool = Pool(torch, owner)
    pool.begun, pool.others = _begun[owner.device], _reserved_bytes(torch, owner.device) if is_in_use else 0
    return pool


def give_back(torch: Any, pool: Pool) -> None:
    """After a region: a small pool is used again, which keeps the memory of many small regions together."""
    is_in_use = torch._C._cuda_hasPrimaryContext(pool.owner.device)  # else the pool has no memory
    of_pool = segments(torch, pool.id) if is_in_use else []
    with _mutex:
        _unused.append(pool)
        size = sum(each["total_size"] for each in of_pool)
        _taken[pool.owner] = max(size, _taken.get(pool.owner, 0))
        if size > _KEPT_BYTES or not _is_active(pool.owner):
            pool.end(torch)
    if is_in_use and pool.others >= 0:
        _check_others(torch, pool, size)
    if pool.has_ended and _free_bytes(of_pool) > 0:
        empty_cache(torch)


def _check_others(torch: Any, pool: Pool, size: int) -> None:
    """Other threads may load what the program has meant to be in the region, as transformers 5 does. Not if other regions or
    captures have begun meanwhile, to which the memory may belong."""
    others, pool.others = _reserved_bytes(torch, pool.owner.device) - size - pool.others, -1
    tag = pool.owner.tag
    if tag is None or tag in _warned or others < max(_MANY_BYTES, size) or _begun[pool.owner.device] != pool.begun:
        return
    _warned.add(tag)
    _LOG.warning(
        "The region %r has got %d MiB of memory; meanwhile PyTorch has reserved %d MiB outside it on device %d, for other "
        "threads, which amem.region(..., threads=True) covers, or for pools of the program",
        *(tag, size >> 20, others >> 20, pool.owner.device),
    )


@contextlib.contextmanager
def graph_pool(torch: Any, tag: str, kind: int, handle: Any) -> Iterator[Any]:
    """The pool for the capture of a graph. Graphs with the same handle, or that of one of them, share one with this tag, except
    while it is paused."""
    owner = Owner(tag, kind, torch.cuda.current_device())
    handle = getattr(handle, "id", handle)
    with _mutex:
        _begun[owner.device] += 1
        for key in [key for key, pool in _graph_pools.items() if not pool.is_of_graph()]:
            del _graph_pools[key]
        found = _graph_pools.get((owner, handle)) if _is_active(owner) else None
        pool = found or Pool(torch, owner)
        _graph_pools[owner, handle or pool.id] = _graph_pools[owner, pool.id] = pool
    captured[handle] = pool.id
    try:
        yield pool.id
    finally:
        captured.pop(handle, None)
        if found is None:
            pool.end(torch)  # with its graphs
