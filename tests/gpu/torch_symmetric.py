# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""PyTorch's symmetric memory over 100 pauses: contents, addresses, signal pads and captured graphs, bit by bit.

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

COUNT, SEEDS, CHANNEL = 1 << 20, 4, 5
CYCLES = int(os.environ.get("CYCLES", "100"))


class Job:
    def __init__(self) -> None:
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.next, self.previous = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("gloo")
        self.group = dist.group.WORLD.group_name
        pad_bytes = 2 * symmetric_memory.get_signal_pad_size()
        symmetric_memory.set_signal_pad_size(pad_bytes)
        self.tensor, self.reduced = (symmetric_memory.empty(COUNT, device="cuda") for _ in range(2))
        self.handle, _ = (symmetric_memory.rendezvous(t, self.group) for t in (self.tensor, self.reduced))
        self.expect(self.handle.signal_pad_size == pad_bytes, f"{self.handle.signal_pad_size} bytes of signal pad")
        every_rank = range(self.ranks)
        self.peers = [self.handle.get_buffer(peer, (COUNT,), torch.float32) for peer in every_rank]
        self.pads = [self.handle.get_signal_pad(peer, (pad_bytes // 4,), torch.int32) for peer in every_rank]
        self.inputs = [self.input_of(seed, self.rank).cuda() for seed in range(SEEDS)]
        self.gathered, self.copies = torch.empty(COUNT, device="cuda"), torch.empty(self.ranks, COUNT, device="cuda")

    def expect(self, condition: Any, what: str) -> None:
        if not condition:
            raise SystemExit(f"wrong: rank {self.rank}: {what}")

    def input_of(self, seed: int, rank: int) -> Any:
        return torch.randn(COUNT, generator=torch.Generator().manual_seed(seed * self.ranks + rank))

    def step(self) -> None:
        """One-shot and two-shot all-reduce, barriers, and copies from every peer."""
        self.gathered.copy_(torch.ops.symm_mem.one_shot_all_reduce(self.tensor, "sum", self.group))
        self.handle.barrier(channel=0)
        for peer in range(self.ranks):
            self.copies[peer].copy_(self.peers[peer])
        self.reduced.copy_(self.tensor)
        torch.ops.symm_mem.two_shot_all_reduce_(self.reduced, "sum", self.group)
        self.handle.barrier(channel=1)

    def meet(self) -> None:
        torch.cuda.synchronize()
        dist.barrier()

    def capture(self) -> None:
        self.step()
        self.meet()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.step()
        dist.barrier()

    def results(self, seed: int) -> Any:
        """What a replay makes of these inputs."""
        for out in (self.gathered, self.reduced, self.copies):
            out.fill_(-1)
        self.tensor.copy_(self.inputs[seed])
        self.meet()
        self.graph.replay()
        self.meet()
        return [out.clone() for out in (self.gathered, self.reduced, self.copies)]

    def check_against_float64(self, seed: int, found: Any) -> None:
        inputs = [self.input_of(seed, rank) for rank in range(self.ranks)]
        total = sum(each.double() for each in inputs)
        for name, sums in zip(("one-shot", "two-shot"), found):
            self.expect(torch.allclose(sums.double().cpu(), total, rtol=1e-6, atol=1e-5), f"{name} all-reduce")
        self.expect(torch.equal(found[2].cpu(), torch.stack(inputs)), "copies")

    def signal(self, mark: int) -> None:
        """A signal that is not waited for, and a word at the end of the larger pad."""
        self.handle.put_signal(self.next, CHANNEL)
        self.pads[self.next][-1] = mark
        self.meet()

    def expect_signal(self, mark: int) -> None:
        pad = self.pads[self.rank]
        wanted = {CHANNEL * self.ranks + self.previous: 1, len(pad) - 1: mark}
        found = {index: int(pad[index]) for index in pad.nonzero().flatten().tolist()}
        self.expect(found == wanted, f"signal pad {found}, not {wanted}")
        self.handle.wait_signal(self.previous, CHANNEL)
        pad[-1] = 0
        self.meet()
        self.expect(not bool(pad.any()), "the signal pad is zero after a synchronization")

    def addresses(self) -> Any:
        tensors = (self.tensor, self.reduced, *self.peers, *self.pads)
        return [*(each.data_ptr() for each in tensors), *self.handle.buffer_ptrs, *self.handle.signal_pad_ptrs]

    def pause_and_resume(self, cycle: int) -> None:
        kept, addresses = [self.tensor.clone(), self.reduced.clone()], self.addresses()
        self.signal(cycle + 1)
        if cycle % 3 == 0 or cycle % self.ranks == self.rank:  # all ranks, or one alone
            report = amem.pause("symmetric") if cycle % 2 == 0 else amem.pause()
            totals = amem.stats()["tags"]["symmetric"]
            self.expect(totals["released_bytes"] > 0 and totals["resident_bytes"] == 0, f"{report}, {totals}")
            amem.resume()
        dist.barrier()
        self.expect(all(map(torch.equal, (self.tensor, self.reduced), kept)), "contents")
        self.expect(addresses == self.addresses(), "addresses")
        self.expect_signal(cycle + 1)


def main() -> None:
    job = Job()
    job.expect("symmetric" in amem.stats()["tags"], f"amem does not know the memory: {amem.stats()['tags']}")
    job.capture()
    before = [job.results(seed) for seed in range(SEEDS)]
    for seed, found in enumerate(before):
        job.check_against_float64(seed, found)
    for cycle in range(CYCLES):
        job.pause_and_resume(cycle)
        seed = cycle % SEEDS
        job.expect(all(map(torch.equal, job.results(seed), before[seed])), f"results after pause {cycle + 1}")
    totals = amem.stats()["tags"]["symmetric"]
    print(f"result: rank {job.rank}: {CYCLES} pauses, graph captured once, {totals['allocated_bytes'] >> 10} KiB", flush=True)
    dist.barrier()
    os._exit(0)  # PyTorch frees symmetric memory after the driver has shut down


main()
