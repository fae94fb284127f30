# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""PyTorch's symmetric memory over pauses: contents, addresses, collectives and captured graphs.

For the ranks of a job (torchrun, one_gpu.py), without multicast.
"""

import os

os.environ.setdefault("TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES", "1")  # ranks may share a GPU
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory

import amem

COUNT, CYCLES = 1 << 20, 4


class Job:
    def __init__(self):
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("gloo")
        self.group = dist.group.WORLD.group_name
        self.tensor = symmetric_memory.empty(COUNT, dtype=torch.float32, device="cuda")
        self.handle = symmetric_memory.rendezvous(self.tensor, self.group)
        self.out = torch.empty(COUNT, device="cuda")
        self.peers = [self.handle.get_buffer(peer, (COUNT,), torch.float32) for peer in range(self.ranks)]

    def expect(self, condition, what):
        if not condition:
            raise SystemExit(f"wrong: rank {self.rank}: {what}")

    def sum_of(self, value):
        return sum(value + rank for rank in range(self.ranks))

    def capture(self):
        """One-shot all-reduce, a barrier, and copies from every peer, in a graph."""
        self.copies = torch.empty(self.ranks, device="cuda")
        self.step()
        torch.cuda.synchronize()
        dist.barrier()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.step()
        dist.barrier()

    def step(self):
        self.out.copy_(torch.ops.symm_mem.one_shot_all_reduce(self.tensor, "sum", self.group))
        self.handle.barrier(channel=0)
        for peer in range(self.ranks):
            self.copies[peer].copy_(self.peers[peer][0])
        self.handle.barrier(channel=1)

    def check(self, value):
        self.tensor.fill_(value + self.rank)
        torch.cuda.synchronize()
        dist.barrier()
        self.graph.replay()
        torch.cuda.synchronize()
        self.expect(bool((self.out == self.sum_of(value)).all()), f"one-shot all-reduce: {self.out.unique()[:4].tolist()}")
        self.expect(self.copies.tolist() == [value + peer for peer in range(self.ranks)], f"copies {self.copies.tolist()}")
        torch.ops.symm_mem.two_shot_all_reduce_(self.tensor, "sum", self.group)
        torch.cuda.synchronize()
        dist.barrier()
        self.expect(bool((self.tensor == self.sum_of(value)).all()), "two-shot all-reduce")

    def pause_and_resume(self, cycle):
        kept = self.tensor.clone()
        addresses = [self.tensor.data_ptr(), *(peer.data_ptr() for peer in self.peers)]
        torch.cuda.synchronize()
        dist.barrier()
        if cycle % 2 == 0 or self.rank == 0:  # all ranks, or one alone
            report = amem.pause("symmetric") if cycle < 2 else amem.pause()
            totals = amem.stats()["tags"]["symmetric"]
            self.expect(totals["released_bytes"] > 0 and totals["resident_bytes"] == 0, f"{report}, {totals}")
            amem.resume()
        dist.barrier()
        self.expect(torch.equal(self.tensor, kept), "contents")
        self.expect(addresses == [self.tensor.data_ptr(), *(peer.data_ptr() for peer in self.peers)], "addresses")


def main():
    job = Job()
    job.expect("symmetric" in amem.stats()["tags"], f"amem does not know the memory: {amem.stats()['tags']}")
    job.capture()
    job.check(1)
    for cycle in range(CYCLES):
        job.pause_and_resume(cycle)
        job.check(10 * (cycle + 1))
    totals = amem.stats()["tags"]["symmetric"]
    print(f"result: rank {job.rank}: {CYCLES} pauses, graph captured once, {totals['allocated_bytes'] >> 10} KiB", flush=True)
    dist.barrier()
    os._exit(0)  # PyTorch frees symmetric memory after the driver has shut down


main()
