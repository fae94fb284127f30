# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Whose the memory of the GPUs of this process is."""

import json
from typing import Any, Dict, List, Optional, TypedDict

from . import torch_pools
from .library import require_library
from .torch_checks import torch_with_cuda


class _Owner(TypedDict):
    owner: str
    bytes: int


class MemoryOwner(_Owner, total=False):
    """A tag, a library, PyTorch's cache, or a part of the CUDA context."""

    remedy: str  # what would release it, if it is 100 MiB or more
    allocations: int  # of a library
    largest_bytes: int
    largest_at: str  # the file and offset of its call, and the stack of Python


class GpuReport(TypedDict):
    """What report() returns for a GPU."""

    gpu: str  # the UUID
    device: int
    total_bytes: int
    used_bytes: int  # by all processes
    owners: List[MemoryOwner]  # of this process, the largest first
    not_attributed_bytes: int  # the CUDA context, kernels, other processes


def _owner(name: str, size: int, remedy: str) -> MemoryOwner:
    return {"owner": name, "bytes": size, "remedy": remedy} if size >= 100 << 20 else {"owner": name, "bytes": size}


def _of_pytorch(segments: List[Any], library_bytes: Optional[int]) -> List[MemoryOwner]:
    """What PyTorch's allocator has without a tag. `library_bytes`: what its library has allocated, if that is noted: pools of
    the program may have another allocator."""
    used = free = of_pools = 0
    for segment in segments:
        pool = tuple(segment.get("segment_pool_id", (0, 0)))
        unused = sum(block["size"] for block in segment["blocks"] if block["state"] == "inactive")
        of_amem = torch_pools.owners.get(pool)
        if of_amem is not None and of_amem.tag is not None:
            continue
        if pool == (0, 0) or of_amem is not None:
            free, used = free + unused, used + segment["total_size"] - unused
        else:
            of_pools += segment["total_size"]
    if library_bytes is not None:
        of_pools = min(of_pools, max(library_bytes - used - free, 0))
    return [
        _owner("PyTorch, tensors without a tag", used, "with amem.region(TAG): around what allocates them"),
        _owner("PyTorch, free blocks of its cache", free, "torch.cuda.empty_cache() returns free segments"),
        _owner("PyTorch, pools of graphs and of the program", of_pools, "for graphs: amem.cuda_graph(graph, TAG)"),
    ]


def report() -> List[GpuReport]:
    """Whose the memory is of each GPU on which this process has a context; raises AmemError when amem is not in the process.

    A list of {"gpu": UUID, "device": ordinal, "total_bytes": of the GPU, "used_bytes": by all processes, "owners": the largest
    first, "not_attributed_bytes": what is left of used_bytes}. An owner is {"owner": name, "bytes": size}, with a "remedy" if
    it is 100 MiB or more and something would release it. Libraries other than PyTorch are owners if the process was started
    with AMEM_ATTRIBUTION=1, with "allocations", "largest_bytes" and "largest_at". Asks PyTorch for a snapshot of its
    allocator, and the driver; any thread. `amem why` shows the same of other processes, without what is free of PyTorch's cache.
    """
    found: Dict[str, Any] = json.loads(require_library().amemGetAttribution())
    torch = torch_with_cuda()
    segments = None
    if torch is not None and not found.get("has_process_tag") and torch.cuda.get_allocator_backend() == "native":
        segments = torch_pools.segments(torch)
    for gpu in found.get("gpus", []):
        if segments is not None:
            of_library = [owner for owner in gpu["owners"] if owner["owner"].startswith("libc10_cuda.so")]
            noted = sum(owner["bytes"] for owner in of_library) if found["names_libraries"] else None
            gpu["owners"] = [owner for owner in gpu["owners"] if owner not in of_library]
            of_device = [segment for segment in segments if segment["device"] == gpu["device"]]
            gpu["owners"] += [owner for owner in _of_pytorch(of_device, noted) if owner["bytes"] > 0]
        gpu["owners"].sort(key=lambda owner: -owner["bytes"])
        known = sum(owner["bytes"] for owner in gpu["owners"])
        gpu["not_attributed_bytes"] = max(gpu.get("used_bytes", 0) - known, 0)
    return list(found.get("gpus", []))
