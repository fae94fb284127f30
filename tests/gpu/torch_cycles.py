# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Many cycles on one GPU: weights, a KV cache, a graph and symmetric memory come and go, and nothing grows.

torch_cycles.py [--cycles 500]. Then the times of 4 x 256 MiB of symmetric memory, and of a first pause of 15 GB with
host memory that was made ready ahead.
"""

import argparse
import ctypes
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import amem
import amem.symmetric as symm_mem

MIB = 1 << 20


class Alone:
    """A group of one rank."""

    rank, world_size = 0, 1

    def __init__(self, name: str) -> None:
        self.name = name

    def all_gather(self, mine: bytes) -> list[bytes]:
        return [mine]


def expect(condition: Any, what: str) -> None:
    if not condition:
        raise SystemExit(f"wrong: {what}")


def resources() -> Any:
    """Descriptors, threads, mappings, resident host bytes, free bytes of the GPU."""
    torch.cuda.synchronize()
    ctypes.CDLL(None).malloc_trim(0)  # the copies that check() has freed
    status = Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]
    mappings = len(Path("/proc/self/maps").read_text().splitlines())
    counts = [len(list(Path("/proc/self", name).iterdir())) for name in ("fd", "task")]
    return [*counts, mappings, int(status) * 1024, torch.cuda.mem_get_info()[0]]


class Job:
    def __init__(self) -> None:
        with amem.region("weights"):
            self.weights = [torch.randn(8 * MIB // 4, device="cuda") for _ in range(8)]
        with amem.region("kv_cache", backup=None):
            self.cache = [torch.zeros(16 * MIB, dtype=torch.uint8, device="cuda") for _ in range(4)]
        self.shared = symm_mem.empty(4 * MIB // 4, device="cuda")
        self.handle = symm_mem.rendezvous(self.shared, Alone("all"))
        self.shared.copy_(torch.randn_like(self.shared))
        self.copies = [each.cpu() for each in (*self.weights, self.shared)]
        self.out = torch.zeros((), device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with amem.cuda_graph(self.graph):
            self.out.copy_(sum(each.double().sum() for each in (*self.weights, self.shared)))
        self.graph.replay()
        self.sum = self.out.item()

    def cycle(self, number: int) -> None:
        tags = (["weights"], ["kv_cache", "symmetric"], ["cuda_graph", "weights", "symmetric"], [])[number % 4]
        amem.pause(*tags)
        expect(all(amem.stats()["tags"][tag]["resident_bytes"] == 0 for tag in tags), f"{tags} left")
        amem.resume(*tags)
        self.cache[number % 4].fill_(number % 256)
        self.graph.replay()
        expect(self.out.item() == self.sum, f"the graph's sum in cycle {number}")

    def check(self) -> None:
        found = [each.cpu() for each in (*self.weights, self.shared)]
        expect(all(torch.equal(a, b) for a, b in zip(found, self.copies)), "contents")


def many(cycles: int) -> None:
    job = Job()
    for number in range(40):
        job.cycle(number)
    job.check()
    before = resources()
    for number in range(cycles):
        job.cycle(number)
    job.check()
    growth = [after - start for after, start in zip(resources(), before)]
    print(f"result: {cycles} cycles; growth: descriptors, threads, mappings, host bytes, GPU bytes: {growth}")
    expect(growth[0] <= 0 and growth[1] <= 0 and growth[2] <= 8, f"growth {growth}")
    expect(growth[3] <= 32 * MIB and growth[4] >= 0, f"growth {growth}")


def milliseconds(call: Callable[[], Any]) -> float:
    time.sleep(0.5)  # allow: the driver clears memory that was released
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def symmetric_times() -> None:
    buffers = [symm_mem.empty(256 * MIB // 4, device="cuda") for _ in range(4)]
    for number, buffer in enumerate(buffers):
        buffer.copy_(torch.randn_like(buffer))
        symm_mem.rendezvous(buffer, Alone(f"time{number}"))
    copies = [buffer.cpu() for buffer in buffers]
    pauses, resumes = [], []
    for _ in range(8):
        pauses.append(milliseconds(lambda: amem.pause("symmetric")))
        resumes.append(milliseconds(lambda: amem.resume("symmetric")))
    expect(all(torch.equal(a.cpu(), b) for a, b in zip(buffers, copies)), "symmetric contents")
    steady = [statistics.median(times[1:]) for times in (pauses, resumes)]
    print(f"result: 4 x 256 MiB symmetric: pause {steady[0]:.1f} ms, resume {steady[1]:.1f} ms, first {pauses[0]:.0f} ms")


def first_pause() -> None:
    bytes_of_all = 300 * 50 * 1000 * 1000
    with amem.region("many"):
        tensors = [torch.randn(50 * 1000 * 1000 // 4, device="cuda") for _ in range(300)]
    made_ready = milliseconds(lambda: amem.prepare_host_memory(bytes_of_all + 64 * MIB))
    torch.cuda.synchronize()
    wait = time.monotonic() + 60
    while amem.stats()["times"]["host_capacity_bytes"] < bytes_of_all and time.monotonic() < wait:
        time.sleep(0.05)  # allow: host memory is pinned in the background
    took = milliseconds(lambda: amem.pause("many"))
    back = milliseconds(lambda: amem.resume("many"))
    print(f"result: 15 GB in 300 tensors, host memory ready: first pause {took:.0f} ms, resume {back:.0f} ms ({made_ready:.1f} ms call)")
    expect(len(tensors) == 300, "tensors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=100)
    options = parser.parse_args()
    torch.cuda.init()
    symmetric_times()
    many(options.cycles)
    first_pause()
    print(f"result: host memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")


main()
