# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""PyTorch's memory pools for regions. Each (tag, backup, device) has pools of its own, so that
PyTorch's cache never hands a block of one tag to another."""

import contextlib
import sys
import threading
from typing import Dict, Iterator, List, NamedTuple, Set

_mutex = threading.Lock()


class Owner(NamedTuple):
    """What the memory of a pool has in common."""

    tag: str
    kind: str
    device: int


_idle: Dict[Owner, List] = {}
_held: Dict[str, List] = {}  # free blocks of paused tags


def torch_with_gpus():
    """The torch module; None if the process has not imported it or it has no GPU."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_available() else None


def _devices(torch) -> Set[int]:
    """The current device, and the devices that this process has used."""
    used = {device for device in range(torch.cuda.device_count()) if torch._C._cuda_hasPrimaryContext(device)}
    return used | {torch.cuda.current_device()}


@contextlib.contextmanager
def _borrowed(torch, owner: Owner) -> Iterator:
    """A pool that no other thread is using: PyTorch refuses to route two threads to one pool."""
    with _mutex:
        idle = _idle.setdefault(owner, [])
        pool = idle.pop() if idle else None
    if pool is None:
        with torch.cuda.device(owner.device):
            pool = torch.cuda.MemPool()
    try:
        yield pool
    finally:
        with _mutex:
            _idle[owner].append(pool)


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


@contextlib.contextmanager
def without_expandable_segments(torch, pool_id) -> Iterator[None]:
    """PyTorch maps expandable segments itself, past cudaMalloc. It keeps those it has, and makes none in this block."""
    settings = torch._C._cuda_memorySnapshot(pool_id)["allocator_settings"]
    if not settings["expandable_segments"]:
        yield
        return
    before = settings["PYTORCH_CUDA_ALLOC_CONF"]
    configure = getattr(torch._C, "_accelerator_setAllocatorSettings", None) or torch._C._cuda_cudaCachingAllocator_set_allocator_settings
    configure(",".join(filter(None, [before, "expandable_segments:False"])))
    try:
        yield
    finally:
        configure(before or "expandable_segments:True")


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
    """PyTorch allocates from a new pool on the current device. Its free memory is returned at the end."""
    torch = torch_with_gpus()
    if torch is None:
        yield
        return
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        yield


def _stream(torch, address: int):
    # ExternalStream(0) is a new stream.
    return torch.cuda.ExternalStream(address) if address else torch.cuda.default_stream()


def hold_free_blocks(tags, region) -> None:
    """Takes the free blocks of these tags (all tags if empty) out of PyTorch's cache and zeroes them.

    A pause does not copy pages that are zero. Nothing else can allocate the blocks before a resume.
    `region(owner)` opens the region of the pool.
    """
    torch = torch_with_gpus()
    if torch is None:
        return
    with _mutex:
        pools = [
            (owner, pool)
            for owner, idle in _idle.items()
            for pool in idle
            if owner.kind == "host" and (not tags or owner.tag in tags)
        ]
    for owner, pool in pools:
        free = [
            (segment["stream"], block["size"])
            for segment in torch._C._cuda_memorySnapshot(pool.id)["segments"]
            for block in segment["blocks"]
            if block["state"] == "inactive"
        ]
        if not free:
            continue
        held = _held.setdefault(owner.tag, [])
        with torch.cuda.device(owner.device), region(owner), torch.cuda.use_mem_pool(pool, owner.device):
            for stream, size in free:
                with torch.cuda.stream(_stream(torch, stream)):
                    held.append(torch.zeros(size, dtype=torch.uint8, device="cuda"))


def return_held_blocks(tags) -> None:
    """The opposite, after a resume."""
    for tag in list(_held):
        if not tags or tag in tags:
            _held.pop(tag, None)
