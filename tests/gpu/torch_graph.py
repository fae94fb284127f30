# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A CUDA graph with an all_reduce in it, captured once, replayed after every pause and resume, and beside a paused rank.

amem run -- torchrun --nproc-per-node 2 tests/gpu/torch_graph.py
"""

import os
import time

import torch
import torch.distributed as dist

import amem

CYCLES = 3
REPLAYS = 5
COUNT = 1 << 20  # floats


class CapturedSum:
    """output = sum over the ranks of input, as a graph."""

    def __init__(self) -> None:
        self.input = torch.zeros(COUNT, device="cuda")
        self.output = torch.zeros(COUNT, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        # Other threads of PyTorch may call the driver meanwhile.
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.output.copy_(self.input)
            dist.all_reduce(self.output)

    def check(self, step: int) -> None:
        """Replays it on new inputs; small whole numbers, so that sums are exact in any order."""
        rank, ranks = dist.get_rank(), dist.get_world_size()
        self.input.fill_(rank + step)
        self.output.fill_(-1.0)
        self.graph.replay()
        expected = sum(range(ranks)) + ranks * step
        least, most = (value.item() for value in torch.aminmax(self.output))
        if (least, most) != (expected, expected):
            raise SystemExit(f"rank {rank}: replay {step}: from {least} to {most} instead of {expected}")


def wait_for_all() -> None:
    """Returns when every rank is back."""
    dist.all_reduce(torch.ones(1, device="cuda"))
    torch.cuda.synchronize()


def check_beside_a_paused_rank(captured: CapturedSum, step: int) -> None:
    """A replay is refused in the process that is paused; those of other ranks wait for its resume."""
    rank, paused_s = dist.get_rank(), 1.0
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        amem.pause()
        try:
            captured.graph.replay()
            raise SystemExit("a replay in a paused process was not refused")
        except RuntimeError:
            pass
        store.set("paused", "1")
        time.sleep(paused_s)  # allow: the replay of the others must last as long
        amem.resume()
    store.wait(["paused"])
    began = time.monotonic()
    captured.check(step)
    waited = time.monotonic() - began
    if rank != 0 and waited < paused_s / 2:
        raise SystemExit(f"rank {rank}: the replay waited {waited:.3f} s for rank 0")


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    wait_for_all()  # connects: NCCL may not do so during a capture
    captured = CapturedSum()
    for step in range(REPLAYS):
        captured.check(step)
    for cycle in range(1, CYCLES + 1):
        amem.pause()
        if amem.stats()["total"]["released_bytes"] == 0:
            raise SystemExit("the pause released nothing")
        amem.resume()
        wait_for_all()
        for step in range(REPLAYS):
            captured.check(cycle * REPLAYS + step)
    check_beside_a_paused_rank(captured, (CYCLES + 1) * REPLAYS)
    if dist.get_rank() == 0:
        print(f"result: {CYCLES * REPLAYS} replays right after {CYCLES} pauses, captured once", flush=True)
    captured.graph.reset()  # NCCL does not end a communicator that a graph still uses
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
