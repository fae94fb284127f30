# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Region tensors that NCCL has registered: in a captured graph, whose replays read peers' tensors directly.

For the ranks of a job on GPUs that reach each other by P2P, with NCCL_GRAPH_REGISTER at its default.
"""

import os
from typing import Any

import torch
import torch.distributed as dist

import amem

COUNT = 8 << 20


def main() -> None:
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    with amem.region("weights"):
        shard = torch.zeros(COUNT, device="cuda")
        whole = torch.zeros(COUNT * ranks, device="cuda")
        summed = torch.zeros(COUNT, device="cuda")
    for _ in range(2):
        dist.all_gather_into_tensor(whole, shard)
        dist.all_reduce(summed)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        dist.all_gather_into_tensor(whole, shard)
        dist.all_reduce(summed)

    def replay(value: Any) -> None:
        shard.fill_(value + rank)
        summed.fill_(value + rank)
        whole.zero_()
        graph.replay()
        torch.cuda.synchronize()
        total = sum(value + other for other in range(ranks))
        for other in range(ranks):
            part = whole[other * COUNT : (other + 1) * COUNT]
            if not bool((part == value + other).all()):
                raise SystemExit(f"wrong: rank {rank}, all_gather of rank {other}: {part.unique()[:4].tolist()}")
        if not bool((summed == total).all()):
            raise SystemExit(f"wrong: rank {rank}, all_reduce: {summed.unique()[:4].tolist()}")
        dist.barrier()

    replay(1)
    for cycle, tags in enumerate([("weights",), ("nccl",), ("weights", "nccl"), ()] * 2):
        amem.pause(*tags)
        if "weights" in tags and amem.stats()["tags"]["weights"]["resident_bytes"] != 0:
            raise SystemExit(f"wrong: rank {rank}: weights stayed: {amem.stats()['tags']}")
        amem.resume(*tags)
        # Like a job: all ranks have resumed before any of them replays.
        torch.distributed.distributed_c10d._get_default_store().add(f"cycle{cycle}", 1)
        while int(torch.distributed.distributed_c10d._get_default_store().add(f"cycle{cycle}", 0)) < ranks:
            pass
        replay(10 + cycle)
    stats = amem.stats()
    print(f"result: rank {rank}: registered tensors are right, {stats['tags']['weights']}, imports {stats['imports']}")
    graph.reset()  # NCCL does not end a communicator that a graph still uses
    dist.destroy_process_group()


main()
