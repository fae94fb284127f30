# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem.symmetric under PyTorch over pauses: PyTorch's example, collectives against float64, captured graphs.

For the ranks of a job (torchrun, one_gpu.py). Compares latencies with PyTorch's symmetric memory in the same run.
"""

import os
import time
from typing import Any, Literal

os.environ.setdefault("TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES", "1")  # ranks may share a GPU
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as torch_symmetric

import amem
import amem.symmetric as symm_mem

# One vector, odd numbers of vectors, the largest small all-reduce and the next size, and large ones.
SIZES = (16, 48, 1008, 4096, 131072, 131088, 12345 * 16, 1 << 20, (32 << 20) + 16, 256 << 20)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
ENGINES: tuple[Literal["kernels", "copy_engines"], ...] = ("kernels", "copy_engines")
CYCLES, ROUNDS = 5, int(os.environ.get("ROUNDS", "400"))


class Job:
    def __init__(self) -> None:
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("gloo")
        self.next, self.previous = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks
        self.compared = 0

    def expect(self, condition: Any, what: str) -> None:
        self.compared += 1
        if not condition:
            raise SystemExit(f"wrong: rank {self.rank}: {what}")

    def example(self) -> None:
        """Document 004 with the import changed."""
        t = symm_mem.empty(4096, device="cuda")
        hdl = symm_mem.rendezvous(t, dist.group.WORLD)
        peer_buf = hdl.get_buffer(self.next, t.shape, t.dtype)
        t.fill_(self.rank)
        hdl.barrier(channel=0)
        pulled = torch.empty_like(t)
        pulled.copy_(peer_buf)
        hdl.barrier(channel=0)
        self.expect(bool(pulled.eq(self.next).all()), "pull")
        hdl.barrier(channel=0)
        peer_buf.copy_(torch.full_like(t, self.rank))
        hdl.barrier(channel=0)
        self.expect(bool(t.eq(self.previous).all()), "push")
        hdl.barrier(channel=0)
        t.fill_(self.rank)
        hdl.barrier(channel=0)
        torch.add(peer_buf, self.rank, out=peer_buf)
        hdl.barrier(channel=0)
        self.expect(bool(t.eq(self.rank + self.previous).all()), "direct")
        self.expect(len(hdl.buffer_ptrs) == self.ranks and len(hdl.signal_pad_ptrs) == self.ranks, "pointers")
        self.expect(int(hdl.get_signal_pad(self.rank).to(torch.int64).abs().sum()) == 0, "signal pad")

    def inputs(self, count: Any, dtype: Any) -> Any:
        """Of all ranks, the same in all processes."""
        index = torch.arange(count, device="cuda")
        return [((index * 40503 + rank * 7919) % 8191 / 8191 - 0.5).to(dtype) for rank in range(self.ranks)]

    def symmetric(self, values: Any) -> Any:
        tensor = symm_mem.empty(len(values), dtype=values.dtype, device="cuda")
        symm_mem.rendezvous(tensor, dist.group.WORLD)
        return tensor.copy_(values)

    def close_to(self, found: Any, wanted: Any, what: str) -> None:
        limit = torch.finfo(found.dtype).eps * wanted.abs() + 4 * self.ranks * torch.finfo(torch.float32).eps
        over = float(((found.double() - wanted).abs() - limit).max())
        self.expect(over <= 0, f"{what}: {over} over the limit")

    def check_whole(self, size_bytes: int, dtype: Any) -> None:
        """The collectives of the whole tensor."""
        inputs, what = self.inputs(size_bytes // dtype.itemsize, dtype), f"{size_bytes} bytes, {dtype}"
        total = sum(each.double() for each in inputs)
        t = self.symmetric(inputs[self.rank])
        self.close_to(symm_mem.one_shot_all_reduce(t), total, f"one-shot, {what}")
        for engine in ENGINES:
            gathered = symm_mem.all_gather(t, engine=engine)
            self.expect(torch.equal(gathered, torch.cat(inputs)), f"all-gather by {engine}, {what}")
        self.close_to(symm_mem.two_shot_all_reduce_(t), total, f"two-shot, {what}")
        self.meet()

    def check_parts(self, part_bytes: int, dtype: Any) -> None:
        """The collectives of a tensor that has a part for each rank."""
        part, what = part_bytes // dtype.itemsize, f"parts of {part_bytes} bytes, {dtype}"
        inputs, own = self.inputs(part * self.ranks, dtype), slice(self.rank * part, (self.rank + 1) * part)
        parts = [each[own] for each in inputs]
        total = sum(each.double() for each in parts)
        t = self.symmetric(inputs[self.rank])
        for engine in ENGINES:
            self.close_to(symm_mem.reduce_scatter(t, engine=engine), total, f"reduce-scatter by {engine}, {what}")
            exchanged = symm_mem.all_to_all(t, engine=engine)
            self.expect(torch.equal(exchanged, torch.cat(parts)), f"all-to-all by {engine}, {what}")
        self.meet()

    def collectives(self, size_bytes: int) -> None:
        most = SIZES[-1] // self.ranks // 16 * 16
        for dtype in DTYPES:
            self.check_whole(size_bytes, dtype)
            self.check_parts(min(size_bytes, most), dtype)

    def meet(self) -> None:
        torch.cuda.synchronize()
        dist.barrier()

    def replay_over_pauses(self, step: Any) -> None:
        """A graph of the step that is captured once, with delays between the ranks."""
        step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            step()
        generator = torch.Generator().manual_seed(self.rank)
        for cycle in range(CYCLES):
            for _ in range(ROUNDS // CYCLES):
                if torch.rand((), generator=generator) < 0.1:
                    torch.cuda._sleep(int(torch.randint(200000, (), generator=generator)))
                graph.replay()
            self.meet()
            if cycle % 2 == 0 or self.rank == 0:
                amem.pause("symmetric")
                self.expect(amem.stats()["tags"]["symmetric"]["resident_bytes"] == 0, "released")
                amem.resume("symmetric")
            dist.barrier()

    def races(self) -> None:
        """Many small and large collectives, by kernels and by copy engines, with no barrier between them."""
        count = 48000
        small, large = self.symmetric(torch.zeros(512, device="cuda")), self.symmetric(torch.zeros(count, device="cuda"))
        value, wrong = torch.zeros((), device="cuda"), torch.zeros((), device="cuda")
        offsets = torch.arange(self.ranks, device="cuda").repeat_interleave(512)

        def step() -> None:
            value.add_(1)
            small.copy_((value + self.rank).expand(512))
            large.copy_(value.expand(count))
            wrong.add_((symm_mem.one_shot_all_reduce(small) != value * self.ranks + sum(range(self.ranks))).sum())
            for engine in ENGINES:
                wrong.add_((symm_mem.all_gather(small, engine=engine) != value + offsets).sum())
                wrong.add_((symm_mem.reduce_scatter(large, engine=engine) != value * self.ranks).sum())
            symm_mem.two_shot_all_reduce_(large)
            wrong.add_((large != value * self.ranks).sum())

        self.replay_over_pauses(step)
        self.expect(int(wrong) == 0, f"{int(wrong)} wrong elements in {ROUNDS} rounds")
        self.meet()

    def signals(self) -> None:
        """Signals around the ring instead of barriers; words that are written to the next rank; cleared pads."""
        t = self.symmetric(torch.zeros(4096, device="cuda"))
        hdl = symm_mem.rendezvous(t, dist.group.WORLD)
        peer, words = hdl.get_buffer(self.next, t.shape, t.dtype), hdl.signal_pad_size // 4
        pad, last_word = hdl.get_signal_pad(self.rank, (words,), torch.int32), hdl.signal_pad_ptrs[self.next] + 4 * (words - 1)
        value, wrong = torch.zeros((), device="cuda"), torch.zeros((), device="cuda")
        self.meet()  # the next rank has filled its tensor

        def step() -> None:
            value.add_(1)
            peer.copy_(value.expand(4096))
            hdl.put_signal(self.next, 3)
            hdl.wait_signal(self.previous, 3)
            wrong.add_((t != value).sum())
            hdl.put_signal(self.previous, 4)  # which may write again
            hdl.wait_signal(self.next, 4)
            hdl.write_value32(last_word, 4711)
            hdl.barrier(channel=7)
            wrong.add_((pad[-1:] != 4711).sum() + (pad[:-1] != 0).sum())
            hdl.clear_signal_pad()
            wrong.add_((pad != 0).sum())
            hdl.barrier(channel=7)

        self.replay_over_pauses(step)
        hdl.check_error()
        self.expect(int(wrong) == 0, f"{int(wrong)} wrong elements or words in {ROUNDS} rounds of signals")
        self.meet()

    def latency(self, what: str, step: Any) -> None:
        step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(20):
                step()
        times = []
        for _ in range(10):
            self.meet()
            start = time.perf_counter()
            graph.replay()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) / 20)
        if self.rank == 0:
            print(f"result: {what}: {sorted(times)[5] * 1e6:.1f} us", flush=True)

    def compare(self) -> None:
        group, ops = dist.group.WORLD.group_name, torch.ops.symm_mem
        for size_bytes in (2048, 32768, 2 << 20):
            count = size_bytes // 2
            own = symm_mem.empty(count, dtype=torch.bfloat16, device="cuda")
            torchs = torch_symmetric.empty(count, dtype=torch.bfloat16, device="cuda")
            symm_mem.rendezvous(own, dist.group.WORLD)
            torch_symmetric.rendezvous(torchs, group)
            if size_bytes <= 131072:
                self.latency(f"amem, {size_bytes} bytes", lambda: symm_mem.one_shot_all_reduce(own))
                self.latency(f"torch, {size_bytes} bytes", lambda: ops.one_shot_all_reduce(torchs, "sum", group))
            else:
                self.latency(f"amem, {size_bytes} bytes", lambda: symm_mem.two_shot_all_reduce_(own))
                self.latency(f"torch, {size_bytes} bytes", lambda: ops.two_shot_all_reduce_(torchs, "sum", group))
            self.keep = getattr(self, "keep", []) + [torchs]


def main() -> None:
    job = Job()
    job.example()
    for size_bytes in SIZES:
        job.collectives(size_bytes)
    job.races()
    job.signals()
    rounds = f"{ROUNDS} rounds of collectives and of signals over {CYCLES} pauses each"
    print(f"result: rank {job.rank}: {job.compared} comparisons, {rounds}", flush=True)
    job.compare()
    dist.barrier()
    os._exit(0)  # PyTorch frees symmetric memory after the driver has shut down


main()
