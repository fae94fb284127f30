# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem.symmetric under PyTorch over pauses: the example of the documents, collectives against float64, captured graphs.

For the ranks of a job (torchrun, one_gpu.py). Compares latencies with PyTorch's symmetric memory in the same run.
"""

import os
import time

os.environ.setdefault("TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES", "1")  # ranks may share a GPU
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as torch_symmetric

import amem
import amem.symmetric as symm_mem

SIZES = (16, 48, 1008, 4096, 131072, 131088, 1 << 20, 12345 * 16, 32 << 20, 256 << 20)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
CYCLES, ROUNDS = 5, int(os.environ.get("ROUNDS", "400"))


class Job:
    def __init__(self):
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("gloo")
        self.next, self.previous = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks
        self.compared = 0

    def expect(self, condition, what):
        self.compared += 1
        if not condition:
            raise SystemExit(f"wrong: rank {self.rank}: {what}")

    def example(self):
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

    def inputs(self, count, dtype):
        """Of all ranks, the same in all processes."""
        generator = torch.Generator().manual_seed(count)
        return [torch.randn(count, generator=generator).to(dtype) for _ in range(self.ranks)]

    def close_to(self, found, wanted, dtype, what):
        unit = torch.finfo(dtype).eps
        difference = (found.double().cpu() - wanted).abs()
        limit = unit * wanted.abs() + 4 * self.ranks * torch.finfo(torch.float32).eps
        self.expect(bool((difference <= limit).all()), f"{what}: {float((difference - limit).max())} over the limit")

    def collectives(self, size_bytes):
        for dtype in DTYPES:
            count = size_bytes // dtype.itemsize
            inputs = self.inputs(count, dtype)
            total = sum(each.double() for each in inputs)
            t = symm_mem.empty(count, dtype=dtype, device="cuda")
            symm_mem.rendezvous(t, dist.group.WORLD)
            t.copy_(inputs[self.rank])
            self.close_to(symm_mem.one_shot_all_reduce(t), total, dtype, f"one-shot {size_bytes} {dtype}")
            for engine in symm_mem.ENGINES:
                gathered = symm_mem.all_gather(t, engine=engine)
                self.expect(torch.equal(gathered.cpu(), torch.cat(inputs)), f"all-gather {size_bytes} {dtype} {engine}")
            self.close_to(symm_mem.two_shot_all_reduce_(t), total, dtype, f"two-shot {size_bytes} {dtype}")
            if size_bytes % (16 * self.ranks) == 0:
                t.copy_(inputs[self.rank])
                part = count // self.ranks
                own = slice(self.rank * part, (self.rank + 1) * part)
                for engine in symm_mem.ENGINES:
                    scattered = symm_mem.reduce_scatter(t, engine=engine)
                    self.close_to(scattered, total[own], dtype, f"reduce-scatter {size_bytes} {dtype} {engine}")
                    exchanged = symm_mem.all_to_all(t, engine=engine)
                    wanted = torch.cat([each[own] for each in inputs])
                    self.expect(torch.equal(exchanged.cpu(), wanted), f"all-to-all {size_bytes} {dtype} {engine}")
            torch.cuda.synchronize()
            dist.barrier()
            del t

    def races(self):
        """Many small and large all-reduces in one graph, with delays between the ranks."""
        count = 40000
        small = symm_mem.empty(512, device="cuda")
        large = symm_mem.empty(count, device="cuda")
        for tensor in (small, large):
            symm_mem.rendezvous(tensor, dist.group.WORLD)
        out = torch.empty(512, device="cuda")
        value = torch.zeros((), device="cuda")
        wrong = torch.zeros((), device="cuda")

        def step():
            value.add_(1)
            small.copy_(value.expand(512))
            large.copy_(value.expand(count))
            out.copy_(symm_mem.one_shot_all_reduce(small))
            symm_mem.two_shot_all_reduce_(large)
            wrong.add_((out != value * self.ranks).sum() + (large != value * self.ranks).sum())

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
            torch.cuda.synchronize()
            dist.barrier()
            if cycle % 2 == 0 or self.rank == 0:
                amem.pause("symmetric")
                self.expect(amem.stats()["tags"]["symmetric"]["resident_bytes"] == 0, "released")
                amem.resume("symmetric")
            dist.barrier()
        self.expect(int(wrong) == 0, f"{int(wrong)} wrong elements in {ROUNDS} rounds")

    def latency(self, what, step):
        step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(20):
                step()
        times = []
        for _ in range(10):
            torch.cuda.synchronize()
            dist.barrier()
            start = time.perf_counter()
            graph.replay()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) / 20)
        if self.rank == 0:
            print(f"result: {what}: {sorted(times)[5] * 1e6:.1f} us", flush=True)

    def compare(self):
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


def main():
    job = Job()
    job.example()
    for size_bytes in SIZES:
        job.collectives(size_bytes)
    job.races()
    print(f"result: rank {job.rank}: {job.compared} comparisons, {ROUNDS} rounds over {CYCLES} pauses", flush=True)
    job.compare()
    dist.barrier()
    os._exit(0)  # PyTorch frees symmetric memory after the driver has shut down


main()
