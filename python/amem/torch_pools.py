# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""PyTorch's memory pools for regions. Each (tag, backup, device) has pools of its own, so that
PyTorch's cache never hands a block of one tag to another."""

import contextlib
import logging
import sys
import threading
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Set

_LOG = logging.getLogger(__name__)
_mutex = threading.Lock()


class Owner(NamedTuple):
    """What the memory of a pool has in common."""

    tag: str
    kind: str
    device: int


_NO_TAG = ""
_idle: Dict[Owner, List] = {}
# Pools of paused tags: no region uses them before a resume, because their cached blocks have no memory.
_parked: Dict[Owner, List] = {}
_held: Dict[str, List] = {}  # free blocks of paused tags
_pauses: Dict[str, int] = {}  # how often each tag was paused
_PENDING = "active_pending_free"  # the state of a block
process_tag: Optional[str] = None  # of PyTorch's common cache, with TMS_INIT_ENABLE


def torch_with_gpus():
    """The torch module; None if the process has not imported it or it has no GPU."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_available() else None


def on_device(device: int):
    """torch.cuda.device(device). Does nothing in a process without PyTorch."""
    torch = torch_with_gpus()
    return contextlib.nullcontext() if torch is None else torch.cuda.device(device)


def is_capturing() -> bool:
    """True if the calling thread captures a CUDA graph with PyTorch."""
    torch = torch_with_gpus()
    return torch is not None and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def _devices(torch) -> Set[int]:
    """The current device, and the devices that this process has used."""
    used = {device for device in range(torch.cuda.device_count()) if torch._C._cuda_hasPrimaryContext(device)}
    return used | {torch.cuda.current_device()}


@contextlib.contextmanager
def _borrowed(torch, owner: Owner) -> Iterator:
    """A pool that no other thread is using: PyTorch refuses to route two threads to one pool."""
    with _mutex:
        idle = _idle.get(owner)
        pool = idle.pop() if idle else None
        pauses = _pauses.get(owner.tag, 0)
    if pool is None:
        with torch.cuda.device(owner.device):
            pool = torch.cuda.MemPool()
    try:
        yield pool
    finally:
        with _mutex:
            # A pool that was in use during a pause has cached blocks without memory.
            was_paused = pauses != _pauses.get(owner.tag, 0)
            (_parked if was_paused else _idle).setdefault(owner, []).append(pool)


@contextlib.contextmanager
def _routed(torch, pool, device: int, whole_process: bool) -> Iterator[None]:
    if not whole_process:
        with torch.cuda.use_mem_pool(pool, device):
            yield
        return
    torch._C._cuda_beginAllocateToPool(device, pool.id)
    try:
        yield
    finally:
        torch._C._cuda_endAllocateToPool(device, pool.id)
        torch._C._cuda_releasePool(device, pool.id)


class _ExpandableSegments:
    """PyTorch maps expandable segments itself, past cudaMalloc. It makes none while any region is open."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._regions = 0
        self._before = ""  # the settings to restore

    @staticmethod
    def _configure(torch, settings: str) -> None:
        configure = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
        (configure or torch._C._cuda_cudaCachingAllocator_set_allocator_settings)(settings)

    @contextlib.contextmanager
    def disabled(self, torch, pool_id) -> Iterator[None]:
        with self._mutex:
            settings = torch._C._cuda_memorySnapshot(pool_id)["allocator_settings"]
            if settings["expandable_segments"]:
                before = settings["PYTORCH_CUDA_ALLOC_CONF"]
                self._before = before or "expandable_segments:True"
                self._configure(torch, ",".join(filter(None, [before, "expandable_segments:False"])))
            self._regions += 1
        try:
            yield
        finally:
            with self._mutex:
                self._regions -= 1
                if self._regions == 0 and self._before:
                    self._configure(torch, self._before)
                    self._before = ""


without_expandable_segments = _ExpandableSegments().disabled


@contextlib.contextmanager
def routed(tag: str, kind: str, whole_process: bool = False) -> Iterator[None]:
    """PyTorch allocates from the pools of this tag. Does nothing in a process without PyTorch."""
    torch = torch_with_gpus()
    if torch is None:
        yield
        return
    with contextlib.ExitStack() as stack:
        for number, device in enumerate(sorted(_devices(torch))):
            pool = stack.enter_context(_borrowed(torch, Owner(tag, kind, device)))
            if number == 0:
                stack.enter_context(without_expandable_segments(torch, pool.id))
            stack.enter_context(_routed(torch, pool, device, whole_process))
        yield


@contextlib.contextmanager
def routed_outside() -> Iterator[None]:
    """PyTorch allocates from pools of no tag. They are kept: ~MemPool() ends the process while any region is open
    (CUDACachingAllocator.cpp:3662@v2.11)."""
    torch = torch_with_gpus()
    if torch is None:
        yield
        return
    with contextlib.ExitStack() as stack:
        for device in sorted(_devices(torch)):
            pool = stack.enter_context(_borrowed(torch, Owner(_NO_TAG, "outside", device)))
            stack.enter_context(torch.cuda.use_mem_pool(pool, device))
        yield


def _stream(torch, address: int):
    # ExternalStream(0) is a new stream.
    return torch.cuda.ExternalStream(address) if address else torch.cuda.default_stream()


def _pieces(segment) -> Iterator[int]:
    """Sizes of allocations that together take the free blocks of a segment."""
    for block in segment["blocks"]:
        left = block["size"] if block["state"] == "inactive" else 0
        # PyTorch looks in small segments for up to this size only (kSmallSize, c10/core/AllocatorConfig.h:21@v2.11).
        most = 1 << 20 if segment["segment_type"] == "small" else left
        while left > 0:
            yield min(left, most)
            left -= most


def _allocate(torch, segment) -> List:
    with torch.cuda.device(segment["device"]), torch.cuda.stream(_stream(torch, segment["stream"])):
        return [torch.zeros(size, dtype=torch.uint8, device="cuda") for size in _pieces(segment)]


def _hold_free_blocks(torch, tag: str, find_segments: Callable[[], List]) -> bool:
    """Takes the free blocks out of PyTorch's cache until unpark(), and zeroes them: a pause does not copy zero pages.

    False if some are still there: PyTorch has no memory for them, or allocates from other segments.
    """
    held = _held.setdefault(tag, [])
    segments, before = find_segments(), sys.maxsize
    while 0 < (left := sum(size for segment in segments for size in _pieces(segment))) < before:
        try:
            held.append([_allocate(torch, segment) for segment in segments])
        except torch.cuda.OutOfMemoryError:
            return False
        segments, before = find_segments(), left
    if left > 0:
        held.pop()
    return left == 0


def _common_segments() -> List:
    """Of PyTorch's common cache, not of any MemPool."""
    torch = torch_with_gpus()
    if torch is None or not torch.cuda.is_initialized():
        return []
    segments = torch._C._cuda_memorySnapshot((0, 0))["segments"]
    return [segment for segment in segments if tuple(segment.get("segment_pool_id", (0, 0))) == (0, 0)]


def _hold_common_cache(torch, tag: str) -> None:
    """The free blocks of PyTorch's common cache. Those that another stream has used are free after its work, when
    PyTorch allocates again."""
    pending = [segment for segment in _common_segments() for block in segment["blocks"] if block["state"] == _PENDING]
    for device in {segment["device"] for segment in pending}:
        with torch.cuda.device(device):
            torch.cuda.synchronize()
            torch.empty(1, dtype=torch.uint8, device="cuda")
    if not _hold_free_blocks(torch, tag, _common_segments):
        _LOG.warning("PyTorch may use free blocks of its cache before the resume: allocate in amem.disable() only")


def expandable_bytes() -> int:
    """Bytes in expandable segments of PyTorch's common cache."""
    return sum(segment["total_size"] for segment in _common_segments() if segment.get("is_expandable"))


def park(tags: Set[str], region) -> None:
    """Before a pause of these active tags: no region uses their pools until unpark().

    Takes the free blocks whose contents would be kept, and with the process' tag those of the common cache.
    `region(owner)` opens the region of a pool.
    """
    torch = torch_with_gpus()
    if torch is None:
        return
    with _mutex:
        pools = {owner: _idle.pop(owner) for owner in list(_idle) if owner.tag in tags}
        for owner, parked in pools.items():
            _parked.setdefault(owner, []).extend(parked)
        for tag in tags:
            _pauses[tag] = _pauses.get(tag, 0) + 1
    if process_tag in tags:
        _hold_common_cache(torch, process_tag)
    for owner, parked in pools.items():
        for pool in parked if owner.kind in ("host", "disk") else ():
            with torch.cuda.device(owner.device), region(owner), torch.cuda.use_mem_pool(pool, owner.device):
                _hold_free_blocks(torch, owner.tag, lambda: torch._C._cuda_memorySnapshot(pool.id)["segments"])


def unpark(active) -> None:
    """After a pause that failed, or a resume: regions use the pools of the tags again for which active(tag) is true."""
    with _mutex:
        for owner in [owner for owner in _parked if active(owner.tag)]:
            _idle.setdefault(owner, []).extend(_parked.pop(owner))
    for tag in [tag for tag in _held if active(tag)]:
        _held.pop(tag)
