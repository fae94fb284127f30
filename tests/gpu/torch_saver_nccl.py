# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""NCCL's memory and symmetric memory leave and return with the weights: torch_memory_saver's interface under
AMEM_TMS=weights, called as SGLang does, with a barrier of the ranks before the pause and after the resume.

AMEM_TMS=weights amem run -- torchrun --nproc-per-node 2 tests/gpu/torch_saver_nccl.py
"""

import os
import site
from pathlib import Path

os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")

# As Python does for an installed package: runs the line of amem_tms.pth.
site.addsitedir(str(Path(__file__).resolve().parents[2] / "python"))

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory
from torch_memory_saver import torch_memory_saver as saver

import amem
from torch_sleep import CapturedSum, digest, random_floats

CYCLES = 5
MIB = 1 << 20
SIZE = 256 * MIB  # of the weights and of the cache
COUNT = MIB
PAUSED_WITH_WEIGHTS = ("nccl", "symmetric")


def free_bytes() -> int:
    torch.cuda.synchronize()
    return int(torch.cuda.mem_get_info()[0])


def expect(condition: bool, what: str) -> None:
    if not condition:
        raise SystemExit(f"wrong: {what}")


class CapturedSymmetricSum(CapturedSum):
    """By a kernel that reads the symmetric memory of all ranks."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.input = symmetric_memory.empty(COUNT, device="cuda")
        symmetric_memory.rendezvous(self.input, group.group_name)
        self.output = torch.zeros(COUNT, device="cuda")
        self.input.zero_()
        self.sum(group)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.sum(group)

    def sum(self, group: dist.ProcessGroup) -> None:
        self.output.copy_(torch.ops.symm_mem.one_shot_all_reduce(self.input, "sum", group.group_name))

    def replay(self) -> torch.Tensor:
        self.input.copy_(random_floats(COUNT, 200 + dist.get_rank()))
        self.output.fill_(torch.nan)
        self.graph.replay()
        return self.output


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    cpu = dist.new_group(backend="gloo")
    dist.all_reduce(torch.zeros(1, device="cuda"))  # connects: NCCL may not do so during a capture
    with saver.region(tag="weights", enable_cpu_backup=True):
        weights = random_floats(SIZE // 4, seed=dist.get_rank())
    with saver.region(tag="kv_cache"):
        cache = torch.zeros(SIZE // 4, device="cuda")
    sums = CapturedSum(dist.group.WORLD), CapturedSymmetricSum(dist.group.WORLD)
    results = [digest(each.replay()) for each in sums]
    freed = []
    for cycle in range(CYCLES):
        before = digest(weights)
        dist.barrier(group=cpu)
        active = free_bytes()
        dist.barrier(group=cpu)
        saver.pause("kv_cache")
        expect(all(amem.state(tag) == "active" for tag in PAUSED_WITH_WEIGHTS), "NCCL is paused with the cache")
        saver.pause("weights")
        expect(all(amem.state(tag) == "paused" for tag in PAUSED_WITH_WEIGHTS), "NCCL is not paused with the weights")
        expect(amem.stats()["context_bytes"] > 0, "the context has kept its local memory")
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
        expect([digest(each.replay()) for each in sums] == results, f"cycle {cycle}: the captured sums")
    tensors = 2 * SIZE // MIB
    expect(min(freed) > tensors, f"pauses have released {min(freed)} MiB, of which {tensors} are tensors'")
    print(f"result: pauses released {min(freed)} MiB, the captured sums are right", flush=True)
    for each in sums:
        each.graph.reset()
    dist.barrier(group=cpu)
    os._exit(0)  # PyTorch frees symmetric memory after the driver has shut down


if __name__ == "__main__":
    main()
