# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""NCCL leaves and returns with the weights: torch_memory_saver's interface under AMEM_TMS_NCCL=weights, as SGLang calls it.

AMEM_TMS=1 AMEM_TMS_NCCL=weights amem run -- torchrun --nproc-per-node 2 tests/gpu/torch_saver_nccl.py
"""

import os
import site
from pathlib import Path

# As Python does for an installed package: runs the line of amem_tms.pth.
site.addsitedir(str(Path(__file__).resolve().parents[2] / "python"))

import torch
import torch.distributed as dist
from torch_memory_saver import torch_memory_saver as saver
from torch_sleep import CapturedSum, digest, random_floats

import amem

CYCLES = 5
MIB = 1 << 20
SIZE = 256 * MIB  # of the weights and of the cache


def free_bytes() -> int:
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0]


def expect(condition: bool, what: str) -> None:
    if not condition:
        raise SystemExit(f"wrong: {what}")


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    cpu = dist.new_group(backend="gloo")
    dist.all_reduce(torch.zeros(1, device="cuda"))  # connects: NCCL may not do so during a capture
    with saver.region(tag="weights", enable_cpu_backup=True):
        weights = random_floats(SIZE // 4, seed=dist.get_rank())
    with saver.region(tag="kv_cache"):
        cache = torch.zeros(SIZE // 4, device="cuda")
    captured = CapturedSum(dist.group.WORLD)
    graph_result = digest(captured.replay())
    freed = []
    for cycle in range(CYCLES):
        before = digest(weights)
        dist.barrier(group=cpu)
        active = free_bytes()
        dist.barrier(group=cpu)
        saver.pause("kv_cache")
        expect(amem.state("nccl") == "active", "NCCL is paused with the cache")
        saver.pause("weights")
        expect(amem.state("nccl") == "paused", "NCCL is not paused with the weights")
        dist.barrier(group=cpu)
        freed.append((free_bytes() - active) // MIB)
        dist.barrier(group=cpu)
        saver.resume("weights")
        expect(digest(weights) == before, f"cycle {cycle}: the weights")
        weights.add_(dist.get_rank() + 1)
        dist.broadcast(weights, src=cycle % 2)  # the update, while the cache is away
        digests = [None] * dist.get_world_size()
        dist.all_gather_object(digests, digest(weights), group=cpu)
        expect(len(set(digests)) == 1 and digests[0] != before, f"cycle {cycle}: the update")
        saver.resume("kv_cache")
        cache.fill_(cycle)
        expect(bool((cache == cycle).all()), f"cycle {cycle}: the cache")
        expect(digest(captured.replay()) == graph_result, f"cycle {cycle}: the captured all_reduce")
    tensors = 2 * SIZE // MIB
    expect(min(freed) > tensors, f"pauses have released {min(freed)} MiB, of which {tensors} are tensors'")
    print(f"result: pauses released {min(freed)} MiB, the captured all_reduce is right", flush=True)
    captured.graph.reset()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
