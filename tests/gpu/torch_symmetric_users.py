# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""How vLLM, SGLang and asynchronous tensor parallelism use PyTorch's symmetric memory, over 100 pauses.

For the ranks of a job (torchrun, one_gpu.py), without multicast.
"""

import os
from typing import Any

os.environ.setdefault("TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES", "1")  # ranks may share a GPU
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory

import amem

CYCLES = int(os.environ.get("CYCLES", "100"))


class Job:
    def __init__(self) -> None:
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("gloo")
        symmetric_memory.set_signal_pad_size(symmetric_memory.get_signal_pad_size() * 2)
        self.second = dist.new_group(list(range(self.ranks)))
        self.groups = [dist.group.WORLD.group_name, self.second.group_name]

    def expect(self, condition: Any, what: str) -> None:
        if not condition:
            raise SystemExit(f"wrong: rank {self.rank}: {what}")

    def make_communicators(self) -> None:
        """vLLM's SymmMemCommunicator: one buffer for each group, of the largest message."""
        self.buffers = [symmetric_memory.empty(1 << 20, dtype=torch.bfloat16, device="cuda") for _ in self.groups]
        self.handles = [symmetric_memory.rendezvous(b, group) for b, group in zip(self.buffers, self.groups)]

    def all_reduce(self, index: int, tensor: Any) -> Any:
        buffer, out = self.buffers[index], torch.empty_like(tensor)
        part = buffer[: tensor.numel()]
        part.copy_(tensor.view(-1))
        torch.ops.symm_mem.two_shot_all_reduce_(part, "sum", self.groups[index])
        out.copy_(part.view(out.shape))
        return out

    def capture(self) -> None:
        """The same in a CUDA graph, as both servers decode."""
        self.input = torch.zeros(64, 512, dtype=torch.bfloat16, device="cuda")
        self.all_reduce(0, self.input)
        torch.cuda.synchronize()
        dist.barrier()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.output = self.all_reduce(0, self.input)
        dist.barrier()

    def check_all_reduce(self, value: Any) -> None:
        wanted = float(sum(value + rank for rank in range(self.ranks)))
        for index in range(len(self.groups)):
            out = self.all_reduce(index, torch.full((64, 512), float(value + self.rank), device="cuda").bfloat16())
            self.expect(bool((out == wanted).all()), f"group {index}: {out.unique().tolist()}, not {wanted}")
        self.input.fill_(value + self.rank)
        self.graph.replay()
        self.expect(bool((self.output == wanted).all()), f"graph: {self.output.unique().tolist()}, not {wanted}")

    def check_dropped_buffer(self) -> None:
        """SGLang's TorchSymmMemCommunicator: one buffer of 64 MiB, dropped after the rendezvous without multicast."""
        before = amem.stats()["tags"]["symmetric"]["allocated_bytes"]
        device = torch.device("cuda", torch.cuda.current_device())
        buffer = symmetric_memory.empty(32 << 20, device=device, dtype=torch.bfloat16)
        handle = symmetric_memory.rendezvous(buffer, self.groups[0])
        self.expect(handle.multicast_ptr == 0, "it has multicast")
        self.expect(amem.stats()["tags"]["symmetric"]["allocated_bytes"] >= before + (64 << 20), "the buffer is not amem's")
        dist.barrier()
        del handle, buffer
        dist.barrier()
        after = amem.stats()["tags"]["symmetric"]["allocated_bytes"]
        self.expect(after == before, f"{after - before} bytes of a dropped buffer remain")

    def check_async_tp(self, value: Any) -> None:
        """fused_all_gather_matmul and fused_matmul_reduce_scatter of asynchronous tensor parallelism."""
        generator = torch.Generator().manual_seed(value)
        shards = [torch.randint(-3, 4, (64, 128), generator=generator).float() for _ in range(self.ranks)]
        weight = torch.randint(-3, 4, (128, 96), generator=generator).float()
        group = self.groups[0]
        gathered, products = torch.ops.symm_mem.fused_all_gather_matmul(
            shards[self.rank].cuda(), [weight.cuda()], 0, group
        )
        whole = torch.cat(shards)
        self.expect(torch.equal(gathered.cpu(), whole), "all-gather")
        self.expect(torch.equal(products[0].cpu(), whole @ weight), "matmul after all-gather")
        scattered = torch.ops.symm_mem.fused_matmul_reduce_scatter(
            (whole * (self.rank + 1)).cuda(), weight.cuda(), "sum", 0, group
        )
        own = (whole @ weight).chunk(self.ranks)[self.rank] * sum(range(1, self.ranks + 1))
        self.expect(torch.equal(scattered.cpu(), own), "matmul before reduce-scatter")

    def pause_and_resume(self, cycle: int) -> None:
        torch.cuda.synchronize()
        dist.barrier()
        if cycle % 3 == 0 or cycle % self.ranks == self.rank:
            amem.pause("symmetric")
            totals = amem.stats()["tags"]["symmetric"]
            self.expect(totals["resident_bytes"] == 0 and totals["released_bytes"] > 0, f"{totals}")
            amem.resume("symmetric")
        dist.barrier()


def main() -> None:
    job = Job()
    job.make_communicators()
    job.capture()
    job.check_all_reduce(1)
    job.check_async_tp(1)
    for cycle in range(CYCLES):
        job.pause_and_resume(cycle)
        job.check_all_reduce(cycle % 50)
        if cycle % 10 == 0:
            job.check_async_tp(cycle)
            job.check_dropped_buffer()
    allocated = amem.stats()["tags"]["symmetric"]["allocated_bytes"] >> 20
    print(f"result: rank {job.rank}: {CYCLES} pauses, two groups, a graph, dropped buffers, fused matmuls, {allocated} MiB", flush=True)
    dist.barrier()
    os._exit(0)  # PyTorch frees symmetric memory after the driver has shut down


main()
