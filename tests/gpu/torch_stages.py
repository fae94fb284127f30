# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The stages of a reinforcement learning step, with one graph that reads weights and a KV cache and has an all_reduce.

All memory leaves. The weights return and are updated; then the KV cache, the graph's memory and NCCL's return, and the
graph is replayed. For the ranks of a job, with NCCL_GRAPH_REGISTER at its default: NCCL registers the reduced tensor.
"""

import os
from typing import Any

import torch
import torch.distributed as dist

import amem

COUNT, STEPS = 8 << 20, 6
TENSORS = ("weights", "kv_cache", "cuda_graph")
ALL = (*TENSORS, "nccl")


class Job:
    def __init__(self) -> None:
        self.rank, self.ranks, self.value = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), 1
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
        self.store = dist.distributed_c10d._get_default_store()
        with amem.region("weights"):
            self.weights = torch.full((COUNT,), float(self.value + self.rank), device="cuda")
        with amem.region("kv_cache", backup=None):
            self.cache = torch.ones(COUNT, device="cuda")
            self.summed = torch.zeros(COUNT, device="cuda")
        for _ in range(2):
            self.forward()  # connects: NCCL may not do so during a capture
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        # Other threads of PyTorch may call the driver meanwhile.
        with amem.cuda_graph(self.graph, backup=None, capture_error_mode="thread_local"):
            self.forward()

    def expect(self, condition: Any, what: str) -> None:
        if not condition:
            raise SystemExit(f"wrong: rank {self.rank}: {what}")

    def meet(self, name: str) -> None:
        self.store.add(name, 1)
        while int(self.store.add(name, 0)) < self.ranks:
            pass

    def forward(self) -> None:
        """summed = sum over the ranks of weights * cache."""
        hidden = self.weights * self.cache
        self.summed.copy_(hidden)
        dist.all_reduce(self.summed)

    def replay(self, cached: int) -> None:
        """Small whole numbers, so that sums are exact in any order."""
        self.cache.fill_(cached)
        self.summed.zero_()
        self.graph.replay()
        torch.cuda.synchronize()
        wanted = sum((self.value + rank) * cached for rank in range(self.ranks))
        if not bool((self.summed == wanted).all()):
            self.expect(False, f"a replay has {self.summed.unique()[:4].tolist()}, not {wanted}")
        dist.barrier()

    def step(self, number: int) -> None:
        amem.pause(*(ALL if number % 2 else ()))
        tags = amem.stats()["tags"]
        self.expect(all(tags[tag]["resident_bytes"] == 0 for tag in TENSORS), f"memory stayed: {tags}")
        amem.resume("weights")
        states = [amem.state(tag) for tag in ALL]
        self.expect(states == ["active", "paused", "paused", "paused"], f"{ALL} are {states}")
        self.expect(bool((self.weights == self.value + self.rank).all()), "contents of the weights")
        self.value = 10 + number
        self.weights.fill_(self.value + self.rank)
        amem.resume("kv_cache", "cuda_graph", "nccl")
        self.meet(f"step{number}")  # like a job: all ranks have resumed before any of them replays
        self.replay(2 + number)


def main() -> None:
    job = Job()
    job.replay(1)
    for number in range(STEPS):
        job.step(number)
    print(f"result: rank {job.rank}: {STEPS} steps with updated weights, one capture, imports {amem.stats()['imports']}")
    job.graph.reset()  # NCCL does not end a communicator that a graph still uses
    dist.destroy_process_group()


main()
