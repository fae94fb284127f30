# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""PyTorch's symmetric memory with the NVSHMEM backend: NVSHMEM's heap leaves, and a graph that was captured once replays.

AMEM_NVSHMEM=1 amem run -- torchrun --nproc-per-node 2 tests/gpu/torch_nvshmem.py
torchrun --nproc-per-node 2 tests/gpu/torch_nvshmem.py --no-pauses      to compare, without amem
"""

import argparse
import os
from typing import Any

os.environ.setdefault("NVSHMEM_DISABLE_NVLS", "1")  # no multicast memory
os.environ.setdefault("NVSHMEM_REMOTE_TRANSPORT", "none")  # it would register the heap with a NIC
os.environ.setdefault("NVSHMEM_DISABLE_NCCL", "1")  # with NCCL the graph fails, also without amem

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory

from compared_training import expect

COUNT, CYCLES = 4 << 20, 6


class Job:
    def __init__(self) -> None:
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        symmetric_memory.set_backend("NVSHMEM")
        dist.init_process_group("nccl", device_id=device)
        self.gloo_group = dist.new_group(backend="gloo")
        self.group = dist.group.WORLD.group_name
        self.sent, self.received, self.shared = (symmetric_memory.empty(COUNT, device=device) for _ in range(3))
        handles = [symmetric_memory.rendezvous(tensor, self.group) for tensor in (self.sent, self.received, self.shared)]
        self.next = (self.rank + 1) % self.ranks
        self.of_next = handles[0].get_buffer(self.next, (COUNT,), torch.float32)
        self.copy = torch.empty(COUNT, device=device)
        self.graph: Any = None

    def meet(self) -> None:
        torch.cuda.synchronize()
        dist.barrier(group=self.gloo_group)

    def input_of(self, seed: int, rank: int) -> Any:
        return torch.randn(COUNT, generator=torch.Generator().manual_seed(seed * self.ranks + rank))

    def step(self) -> None:
        torch.ops.symm_mem.nvshmem_all_to_all(self.sent, self.received, self.group)
        torch.ops.symm_mem.nvshmem_broadcast(self.shared, 0, self.group)

    def capture(self) -> None:
        self.step()
        self.meet()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.step()
        self.meet()

    def check(self, seed: int) -> None:
        """A replay with these inputs, and a copy from the next rank."""
        inputs = [self.input_of(seed, rank) for rank in range(self.ranks)]
        for tensor in (self.sent, self.shared):
            tensor.copy_(inputs[self.rank])
        self.received.fill_(-1)
        self.meet()
        self.graph.replay()
        self.copy.copy_(self.of_next)
        self.meet()
        blocks = torch.cat([each.view(self.ranks, -1)[self.rank] for each in inputs])
        expect(torch.equal(self.received.cpu(), blocks), f"all-to-all of seed {seed}")
        expect(torch.equal(self.shared.cpu(), inputs[0]), f"broadcast of seed {seed}")
        expect(torch.equal(self.copy.cpu(), inputs[self.next]), f"copy of seed {seed}")

    def pause_and_resume(self, cycle: int) -> Any:
        """Of all ranks, or of one alone. Other memory is written meanwhile."""
        import amem

        kept = [tensor.clone() for tensor in (self.sent, self.received, self.shared)]
        self.meet()
        released = 0
        if cycle % 3 != 2 or cycle % self.ranks == self.rank:
            before, _ = torch.cuda.mem_get_info()
            report = amem.pause("symmetric")
            released = report.released_bytes
            expect(released > 0 and report.resident_bytes == 0, f"{report}")
            freed = torch.cuda.mem_get_info()[0] - before
            if cycle % 3 != 2:
                expect(freed >= released // 2, f"{freed} bytes are free, {released} were released")
                torch.full((freed // 4,), 0xA5, dtype=torch.uint8, device="cuda")
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
            amem.resume("symmetric")
        self.meet()
        expect(all(map(torch.equal, (self.sent, self.received, self.shared), kept)), "contents")
        return released


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-pauses", action="store_true")
    options = parser.parse_args()
    job = Job()
    job.capture()
    job.check(0)
    released = []
    for cycle in range(CYCLES):
        if not options.no_pauses:
            released.append(job.pause_and_resume(cycle))
        job.check(cycle + 1)
    least = min(filter(None, released), default=0) >> 20
    print(f"result: rank {job.rank}: {CYCLES} cycles, graph captured once, {least} MiB of NVSHMEM left each time", flush=True)
    job.meet()
    os._exit(0)  # PyTorch frees symmetric memory after the driver has shut down


main()
