# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What a pause of a PyTorch job gives back, by the driver's own figure, and that every group goes on.

amem run -- torchrun --nproc-per-node 2 tests/gpu/torch_memory.py [--groups N]
"""

import argparse
import os
from typing import Any

import torch
import torch.distributed as dist

import amem

CYCLES = 3
COUNT = 1 << 20  # floats
FREED_AT_LEAST = 0.99
# The first cycle may cost the driver pages for itself (amem's copy stream, mapping tables): 8 MiB seen
# with 9 communicators on H200. Later ones may not.
FIRST_CYCLE_BYTES = 16 << 20


def free_bytes() -> int:
    torch.cuda.synchronize()
    return int(torch.cuda.mem_get_info()[0])


def check_all(groups: list[Any], buffer: torch.Tensor, cycle: int) -> None:
    """One all_reduce in every group; small whole numbers, so that sums are exact in any order."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for number, group in enumerate(groups):
        buffer.fill_(rank + number + cycle)
        dist.all_reduce(buffer, group=group)
        expected = sum(range(ranks)) + ranks * (number + cycle)
        least, most = (value.item() for value in torch.aminmax(buffer))
        if (least, most) != (expected, expected):
            raise SystemExit(f"rank {rank}: group {number}: from {least} to {most} instead of {expected}")


def one_cycle(groups: list[Any], buffer: torch.Tensor, cycle: int) -> tuple[int, int]:
    """(bytes that the driver has more while paused, bytes that amem says it released)."""
    before = free_bytes()
    amem.pause()
    freed = free_bytes() - before
    total = amem.stats()["total"]
    amem.resume()
    check_all(groups, buffer, cycle)
    missing = before - free_bytes()
    released, rank = total["released_bytes"], dist.get_rank()
    if total["resident_bytes"] != total["fixed_bytes"] or released < FREED_AT_LEAST * total["allocated_bytes"]:
        raise SystemExit(f"rank {rank}: cycle {cycle}: not all was released: {total}")
    if freed < FREED_AT_LEAST * released:
        raise SystemExit(f"rank {rank}: cycle {cycle}: amem released {released} bytes, the driver has {freed} more")
    if missing > (FIRST_CYCLE_BYTES if cycle == 1 else 0):
        raise SystemExit(f"rank {rank}: cycle {cycle}: {missing} bytes did not come back")
    return freed, released


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1, help="process groups besides the default one")
    extra_groups = parser.parse_args().groups
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    groups = [dist.group.WORLD] + [dist.new_group() for _ in range(extra_groups)]
    buffer = torch.empty(COUNT, device="cuda")
    for _ in range(2):  # connects all, and PyTorch's allocator has what it needs
        check_all(groups, buffer, 0)
    figures = [one_cycle(groups, buffer, cycle) for cycle in range(1, CYCLES + 1)]
    freed, released = figures[-1]
    if dist.get_rank() == 0:
        asked = f"{released >> 20} MiB of it what NCCL asked for"
        print(f"result: freed {freed >> 20} MiB, {asked}, {len(groups)} communicators", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
