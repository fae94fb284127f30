# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Whose the memory of the GPUs of this process is."""

import json
from typing import Any, Dict, List, TypedDict

from . import torch_order, torch_pools
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


def _of_pytorch(torch: Any, device: int) -> List[MemoryOwner]:
    """What PyTorch's allocator has outside the pools of amem."""
    used = free = of_pools = 0
    for segment in torch_pools.segments(torch):
        pool = tuple(segment.get("segment_pool_id", (0, 0)))
        if segment["device"] != device or pool in torch_order.of_amem:
            continue
        unused = sum(block["size"] for block in segment["blocks"] if block["state"] == "inactive")
        if pool == (0, 0):
            free, used = free + unused, used + segment["total_size"] - unused
        else:
            of_pools += segment["total_size"]
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
    for gpu in found.get("gpus", []):
        if torch is not None and not found["tags_all"]:
            others = [owner for owner in gpu["owners"] if not owner["owner"].startswith("libc10_cuda.so")]
            gpu["owners"] = others + [owner for owner in _of_pytorch(torch, gpu["device"]) if owner["bytes"] > 0]
        gpu["owners"].sort(key=lambda owner: -owner["bytes"])
        known = sum(owner["bytes"] for owner in gpu["owners"])
        gpu["not_attributed_bytes"] = max(gpu.get("used_bytes", 0) - known, 0)
    return list(found.get("gpus", []))
