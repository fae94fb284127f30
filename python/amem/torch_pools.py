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

from .calls import Int, call
from .errors import AmemError
from .library import state_of
from .torch_checks import EMPTY_CACHE, OF_HANDLES

_KEPT_BYTES = 64 << 20  # A pool with more is not used again.
_MANY_BYTES = 64 << 20  # outside a region, while it is open
_LOG = logging.getLogger(__name__)
PoolId = Tuple[int, int]


class Owner(NamedTuple):
    """What the memory of a pool has in common. Without a tag it is never paused."""

    tag: Optional[str]
    kind: int  # amemKind_t
    device: int


class Pool:
    def __init__(self, torch: Any, owner: Owner) -> None:
        _replace_functions(torch)
        allocator = () if owner.tag is None else (_allocator(torch, owner.tag, owner.kind),)
        current = torch.cuda.current_device()
        try:
            torch.cuda._maybe_exchange_device(owner.device)  # makes no context on the device
            pool = torch.cuda.MemPool(*allocator)
        except RuntimeError as error:
            raise AmemError(f"PyTorch has no memory pools here, which regions need: {error}") from error
        finally:
            torch.cuda.set_device(current)
        # Never destroyed: ~MemPool() ends the process while memory is routed to any pool, or a graph is captured
        # (CUDACachingAllocator.cpp:3662@v2.11).
        _add_reference(pool)
        self.owner, self.id, self.use_count = owner, pool.id, pool.use_count
        self.size_bytes = 0  # when its last region has ended
        self.regions_before = self.reserved_before = 0  # when its first region began: regions, bytes that PyTorch had reserved
        owners[pool.id] = owner


_mutex = threading.RLock()  # a region may end in a finalizer
allocators: Dict[Tuple[str, int], Any] = {}  # of each tag and kind for which a region has been open
owners: Dict[PoolId, Owner] = {}  # of all pools of amem
_kept: List[Pool] = []  # of no open region and no graph: for the next region
_ended: List[Pool] = []  # the same, with memory, for no region
_graph_pools: Dict[Tuple[Owner, Any], Pool] = {}  # by their own id, and by that of a handle for which they were made
captures: Dict[Any, PoolId] = {}  # the pools into which graphs are being captured, by the handle of the program
_largest_bytes: Dict[Owner, int] = {}  # of the pools of regions
_cached: Dict[Owner, int] = {}  # bytes that PyTorch had cached when free segments were looked for
_region_counts: Counter[int] = collections.Counter()  # regions and captures so far, by device
_warned: Set[Optional[str]] = set()  # tags


def _add_reference(value: Any) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def segments(torch: Any, pool_id: PoolId = (0, 0)) -> List[Any]:
    """Of a pool, or of all; before 2.8, of all. Before 2.15, _cuda_memorySnapshot() takes a reference away from each of its
    arguments (Module.cpp@v2.11): without another one, Python frees numbers, and False, that are in use."""
    for argument in (*pool_id, False):
        _add_reference(argument)
    known = torch.cuda.memory_snapshot.__code__.co_varnames
    named = {"mempool_id": pool_id, "include_traces": False}
    return list(torch.cuda.memory_snapshot(**{name: value for name, value in named.items() if name in known}))


def _allocator(torch: Any, tag: str, kind: int) -> Any:
    with _mutex:
        if (tag, kind) not in allocators:
            number = len(allocators)
            if number == 64:
                raise AmemError("a process has at most 64 tags for memory of PyTorch")
            call("amemSetPool", Int(number), ctypes.c_char_p(tag.encode()), Int(kind))
            name = f"amemPoolAllocate{number:02x}"
            allocators[tag, kind] = torch.cuda.memory.CUDAPluggableAllocator(None, name, "amemPoolFree")
        return allocators[tag, kind].allocator()


def empty_cache(torch: Any) -> None:
    with contextlib.suppress(RuntimeError):  # older versions: while a graph is captured
        torch.cuda.empty_cache()


def end(torch: Any, is_wanted: Callable[[Pool], bool] = lambda _: True) -> None:
    """No region uses these again. PyTorch returns their free memory at empty_cache(), or when memory is short."""
    with _mutex:
        for pool in [pool for pool in _kept if pool.size_bytes > 0 and is_wanted(pool)]:
            _kept.remove(pool)
            _ended.append(pool)
            torch._C._cuda_releasePool(pool.owner.device, pool.id)


def ended_segments(torch: Any, is_wanted: Callable[[Pool], bool] = lambda _: True) -> List[Any]:
    """Of these pools, where they have ended. Forgets those without memory."""
    with _mutex:
        found = {pool: segments(torch, pool.id) for pool in _ended if is_wanted(pool)}
        _ended[:] = [pool for pool in _ended if found.get(pool, True)]
    return [segment for of_pool in found.values() for segment in of_pool]


@functools.lru_cache(maxsize=None)
def _replace_functions(torch: Any) -> None:
    """torch.cuda.empty_cache() returns the memory of kept pools too. During a capture into a pool of amem, the handle of the
    program means this pool: SGLang stops and continues to allocate to its handle around its symmetric memory."""

    def empty(original: Callable[[], None]) -> None:
        end(torch)
        original()
        ended_segments(torch)

    def with_pool(original: Callable[[int, Any], None], device: int, pool: Any) -> None:
        original(device, captures.get(pool, pool))

    functions: Dict[str, Callable[..., None]] = {**dict.fromkeys(EMPTY_CACHE, empty), **dict.fromkeys(OF_HANDLES, with_pool)}
    for name, function in functions.items():
        if hasattr(torch._C, name):
            setattr(torch._C, name, functools.partial(function, getattr(torch._C, name)))


def _has_free(segments: List[Any]) -> bool:
    """Whether one of them has no block in use."""
    return any(all(block["state"] == "inactive" for block in each["blocks"]) for each in segments)


def _sizes(torch: Any, device: int) -> Tuple[int, int]:
    """Bytes that PyTorch has reserved, and of it cached."""
    if not torch.cuda.is_initialized() or not torch._C._cuda_hasPrimaryContext(device):  # while CUDA is initialized
        return 0, 0
    stats = torch.cuda.memory_stats_as_nested_dict(device)
    reserved, allocated = (int(stats[f"{name}_bytes"]["all"]["current"]) for name in ("reserved", "allocated"))
    return reserved, reserved - allocated


def is_active(owner: Owner) -> bool:
    return owner.tag is None or state_of(owner.tag.encode()) == "active"


def take(torch: Any, owner: Owner) -> Pool:
    """A pool to which nothing is routed. Of a paused tag a new one: blocks of others have no memory.

    First returns cached memory that the pool cannot use, because PyTorch does not do so while memory is routed to a pool: if
    the device may lack room, or if ended pools of the same owner have free segments."""
    reserved, cached = _sizes(torch, owner.device)
    can_lack = cached > 256 << 20 and _largest_bytes.get(owner, 1 << 60) > torch.cuda.mem_get_info(owner.device)[0]
    has_more, _cached[owner] = cached > _cached.get(owner, 0), cached
    if can_lack or (has_more and _has_free(ended_segments(torch, lambda pool: pool.owner == owner))):
        empty_cache(torch)
        reserved, _cached[owner] = _sizes(torch, owner.device)
    with _mutex:
        _region_counts[owner.device] += 1
        for pool in _kept if is_active(owner) else ():
            if pool.owner == owner:
                _kept.remove(pool)
                return pool
    pool = Pool(torch, owner)
    pool.regions_before, pool.reserved_before = _region_counts[owner.device], reserved
    return pool


def give_back(torch: Any, pool: Pool) -> None:
    """After a region: a small pool is used again, which keeps the memory of many small regions together."""
    of_pool = segments(torch, pool.id) if torch._C._cuda_hasPrimaryContext(pool.owner.device) else []
    pool.size_bytes = sum(each["total_size"] for each in of_pool)
    _largest_bytes[pool.owner] = max(pool.size_bytes, _largest_bytes.get(pool.owner, 0))
    _check_others(torch, pool)
    if pool.size_bytes == 0 and not is_active(pool.owner):
        torch._C._cuda_releasePool(pool.owner.device, pool.id)
        return
    _kept.append(pool)
    if pool.size_bytes > _KEPT_BYTES or not is_active(pool.owner):
        end(torch, lambda each: each is pool)
        if _has_free(of_pool):
            empty_cache(torch)


def _check_others(torch: Any, pool: Pool) -> None:
    """After the first region of a pool. Other threads may load what the program has meant to be in the region, as transformers 5
    does. Not if other regions or captures have begun meanwhile, to which the memory may belong."""
    tag, device = pool.owner.tag, pool.owner.device
    if tag is None or tag in _warned or _region_counts[device] != pool.regions_before:
        return
    others = _sizes(torch, device)[0] - pool.size_bytes - pool.reserved_before
    if others >= max(_MANY_BYTES, pool.size_bytes):
        _warned.add(tag)
        _LOG.warning(
            "The region %r has got %d MiB of memory; meanwhile PyTorch has reserved %d MiB outside it on device %d, for other "
            "threads, which amem.region(..., threads=True) covers, or for pools of the program",
            *(tag, pool.size_bytes >> 20, others >> 20, device),
        )


def _is_of_graph(pool: Pool) -> bool:
    """False if its graphs are gone."""
    with contextlib.suppress(RuntimeError):  # PyTorch has deleted it
        return int(pool.use_count()) > 0
    return False


@contextlib.contextmanager
def graph_pool(torch: Any, tag: str, kind: int, handle: Any) -> Iterator[PoolId]:
    """The pool for the capture of a graph. Graphs with the same handle, or that of one of them, share one with this tag, except
    while it is paused."""
    owner = Owner(tag, kind, torch.cuda.current_device())
    handle = getattr(handle, "id", handle)
    with _mutex:
        _region_counts[owner.device] += 1
        for key in [key for key, pool in _graph_pools.items() if not _is_of_graph(pool)]:
            del _graph_pools[key]
        found = _graph_pools.get((owner, handle)) if is_active(owner) else None
        pool = found or Pool(torch, owner)
        handle = handle or pool.id
        _graph_pools[owner, handle] = _graph_pools[owner, pool.id] = pool
    captures[handle] = pool.id
    try:
        yield pool.id
    finally:
        captures.pop(handle, None)
        if found is None:
            torch._C._cuda_releasePool(owner.device, pool.id)  # it ends with its graphs
