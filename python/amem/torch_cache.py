# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What a pause and a resume ask and want from PyTorch's caching allocator."""

import contextlib
import ctypes
import threading
from typing import Collection, Dict, Iterator

from . import torch_pools
from .calls import call
from .torch_checks import torch_with_cuda

_DISCARDED = (1, 4)  # of amemKind_t: no contents to keep
_mutex = threading.Lock()


@contextlib.contextmanager
def unused_ranges(tags: Collection[str]) -> Iterator[None]:
    """For a pause of these tags, or of all: contents of free blocks are not kept. Nothing can allocate such a block meanwhile,
    because no thread is routed to its pool. Blocks of a graph may carry data between replays."""
    torch = torch_with_cuda()
    # Of two pauses at a time, one would end the check of the other's ranges.
    if torch is None or not torch_pools.allocators or not _mutex.acquire(blocking=False):
        yield
        return

    def has_contents(pool: torch_pools.Pool) -> bool:
        tag, kind, _ = pool.owner
        return tag is not None and (not tags or tag in tags) and kind not in _DISCARDED and torch_pools.is_active(pool.owner)

    with contextlib.ExitStack() as stack:
        stack.callback(_mutex.release)
        stack.callback(call, "amemSetUnusedRanges", 0, 0)
        call("amemSetUnusedRanges", 0, 0)
        torch_pools.end(torch, has_contents)
        blocks = [block for segment in torch_pools.ended_segments(torch, has_contents) for block in segment["blocks"]]
        ranges = [number for block in blocks if block["state"] == "inactive" for number in (block["address"], block["size"])]
        call("amemSetUnusedRanges", ctypes.byref((ctypes.c_uint64 * len(ranges))(*ranges)), len(ranges) // 2)  # amemRange_t
        yield


def reserved_bytes() -> Dict[int, int]:
    """By device: what PyTorch's allocator has, also while it is paused. One of change_current_allocator() does not say it."""
    torch = torch_with_cuda()
    is_known = torch is not None and torch.cuda.get_allocator_backend() != "pluggable"
    return {i: torch.cuda.memory_reserved(i) for i in range(torch.cuda.device_count())} if is_known else {}


def free_bytes(device: int) -> int:
    return int(torch_with_cuda().cuda.mem_get_info(device)[0])


def empty_cache() -> bool:
    """Returns what PyTorch caches to the driver. False if that is nothing."""
    before = sum(reserved_bytes().values())
    if before > 0:
        torch_pools.empty_cache(torch_with_cuda())
    return sum(reserved_bytes().values()) < before
