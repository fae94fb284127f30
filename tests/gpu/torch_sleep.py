# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What a PyTorch job leaves on its GPU while it sleeps, what that costs, and that six collectives of every communicator,
and a graph of each with an all_reduce, give the same bits after every pause.

amem run -- torchrun --nproc-per-node 2 tests/gpu/torch_sleep.py [--communicators N] [--cycles N] [--graph] [--json FILE]
"""

import argparse
import hashlib
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import pynvml
import torch
import torch.distributed as dist

import amem

COUNTS = (17, 16384, 1 << 20)  # floats
MIB = 1 << 20
IDLE_S = 0.02
FREED_AT_LEAST = 0.99


def own_bytes() -> int:
    """What this process has on its GPU, as the driver tells it."""
    device = pynvml.nvmlDeviceGetHandleByIndex(torch.cuda.current_device())
    mine = [p for p in pynvml.nvmlDeviceGetComputeRunningProcesses(device) if p.pid == os.getpid()]
    return int(mine[0].usedGpuMemory or 0) if mine else 0


def gpu_bytes() -> int:
    """What all processes have on the GPU."""
    free, total = torch.cuda.mem_get_info()
    return int(total - free)


def digest(tensor: torch.Tensor) -> str:
    return hashlib.sha256(tensor.cpu().view(torch.uint8).numpy().tobytes()).hexdigest()


def random_floats(count: int, seed: int) -> torch.Tensor:
    return torch.randn(count, device="cuda", generator=torch.Generator("cuda").manual_seed(seed))


def collectives(group: dist.ProcessGroup, data: torch.Tensor) -> dict[str, torch.Tensor]:
    """What this rank has after each of six collectives on `data`; results start as NaN."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    everything = torch.cat([data * (1 + number) for number in range(ranks)])
    summed, sent = data.clone(), data.clone()
    gathered, exchanged = torch.full_like(everything, torch.nan), torch.full_like(everything, torch.nan)
    scattered, received = torch.full_like(data, torch.nan), torch.full_like(data, torch.nan)
    dist.all_reduce(summed, group=group)
    dist.broadcast(sent, src=ranks - 1, group=group)
    dist.all_gather_into_tensor(gathered, data, group=group)
    dist.reduce_scatter_tensor(scattered, everything, group=group)
    dist.all_to_all_single(exchanged, everything, group=group)
    ring = [
        dist.P2POp(dist.isend, data, (rank + 1) % ranks, group),
        dist.P2POp(dist.irecv, received, (rank - 1) % ranks, group),
    ]
    for work in dist.batch_isend_irecv(ring):
        work.wait()
    names = ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "send_recv")
    return dict(zip(names, (summed, sent, gathered, scattered, exchanged, received)))


class CapturedSum:
    """output = sum over the ranks of input, as a graph."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.input = torch.zeros(COUNTS[-1], device="cuda")
        self.output = torch.zeros(COUNTS[-1], device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        # Other threads of PyTorch may call the driver meanwhile.
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.output.copy_(self.input)
            dist.all_reduce(self.output, group=group)

    def replay(self) -> torch.Tensor:
        self.input.copy_(random_floats(COUNTS[-1], 100 + dist.get_rank()))
        self.output.fill_(torch.nan)
        self.graph.replay()
        return self.output


class SleepingJob:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.cpu = dist.new_group(backend="gloo")
        self.groups = [dist.group.WORLD] + [dist.new_group() for _ in range(options.communicators - 1)]
        self.wait_for_all()
        self.graphs: list[CapturedSum] = []
        self.before = self.results()  # connects: NCCL may not do so during a capture
        if options.graph:
            self.graphs = [CapturedSum(group) for group in self.groups]
            self.before = self.results()
        if self.results() != self.before:
            raise SystemExit("results differ without a pause")

    def wait_for_all(self) -> None:
        torch.cuda.synchronize()
        dist.barrier(group=self.cpu)

    def results(self) -> dict[str, str]:
        """Digests of everything."""
        found = {}
        for count in COUNTS:
            data = random_floats(count, dist.get_rank())
            for number, group in enumerate(self.groups):
                for name, result in collectives(group, data).items():
                    found[f"{number} {name} {count}"] = digest(result)
        for number, graph in enumerate(self.graphs):
            found[f"{number} graph"] = digest(graph.replay())
        self.wait_for_all()
        return found

    def pause_and_resume(self) -> dict[str, Any]:
        torch.cuda.empty_cache()
        self.wait_for_all()
        seen: dict[str, Any] = {"active": own_bytes(), "gpu_active": gpu_bytes()}
        self.wait_for_all()
        seen.update(self.timed_pause())
        self.wait_for_all()
        seen.update(paused=own_bytes(), gpu_paused=gpu_bytes())
        total = amem.stats()["total"]
        self.wait_for_all()
        seen.update(self.timed_resume())
        if total["released_bytes"] < FREED_AT_LEAST * total["allocated_bytes"]:
            raise SystemExit(f"not all was released: {total}")
        seen.update(released=total["released_bytes"], saved=total["saved_bytes"], times=amem.stats()["times"])
        self.wait_for_all()
        return seen

    @staticmethod
    def timed_pause() -> dict[str, float]:
        begun = time.perf_counter()
        amem.pause()
        return {"pause_ms": (time.perf_counter() - begun) * 1e3}

    @staticmethod
    def timed_resume() -> dict[str, float]:
        begun = time.perf_counter()
        amem.resume()
        return {"resume_ms": (time.perf_counter() - begun) * 1e3}

    def check(self, cycle: int) -> None:
        now = self.results()
        wrong = [name for name in self.before if now[name] != self.before[name]]
        if wrong:
            raise SystemExit(f"rank {dist.get_rank()}: cycle {cycle}: other bits than before: {wrong}")

    def cycles(self) -> list[dict[str, Any]]:
        """All ranks at once, and everything checked after each cycle."""
        seen = []
        for cycle in range(self.options.cycles):
            seen.append(self.pause_and_resume())
            self.check(cycle)
        return seen

    def alone(self) -> list[dict[str, Any]]:
        """One rank after the other, so that no other process calls the driver."""
        seen = []
        for turn in range(dist.get_world_size()):
            self.wait_for_all()
            for _ in range(self.options.cycles if turn == dist.get_rank() else 0):
                time.sleep(IDLE_S)  # allow: a quiet GPU is what is measured
                cycle: dict[str, Any] = dict(self.timed_pause())
                time.sleep(IDLE_S)  # allow: a quiet GPU is what is measured
                cycle.update(self.timed_resume(), times=amem.stats()["times"])
                seen.append(cycle)
            self.wait_for_all()
        self.check(-1)
        return seen


def summary(cycles: list[dict[str, Any]]) -> dict[str, float]:
    """Medians over the cycles after the first; bytes as MiB."""
    steady = cycles[1:] or cycles
    found = {}
    for name in steady[0]:
        if name == "times":
            for part in steady[0]["times"]:
                value = statistics.median(cycle["times"][part] for cycle in steady)
                found[f"times.{part}"] = value / MIB if part.endswith("bytes") else value
            continue
        values = [cycle[name] for cycle in steady]
        value = statistics.median(values)
        found[name] = value if name.endswith("_ms") else value / MIB
        if name.endswith("_ms"):
            found[f"{name}.least"], found[f"{name}.most"], found[f"{name}.first"] = min(values), max(values), cycles[0][name]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--communicators", type=int, default=9)
    parser.add_argument("--cycles", type=int, default=3)
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    pynvml.nvmlInit()
    dist.init_process_group("nccl")
    job = SleepingJob(options)
    figures = {"at_once": job.cycles(), "alone": job.alone(), "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    figures["reserved"] = torch.cuda.memory_reserved()
    everybody: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, figures, group=job.cpu)
    if dist.get_rank() == 0:
        if options.json:
            options.json.write_text(json.dumps(everybody), encoding="utf-8")
        for rank, one in enumerate(everybody):
            for way in ("at_once", "alone"):
                rounded = {name: round(value, 2) for name, value in summary(one[way]).items()}
                print(f"rank {rank} {way} {json.dumps(rounded)}", flush=True)
        ranks = [summary(one["at_once"]) for one in everybody]
        left, freed = max(rank["paused"] for rank in ranks), min(rank["active"] - rank["paused"] for rank in ranks)
        pause, resume = max(rank["pause_ms"] for rank in ranks), max(rank["resume_ms"] for rank in ranks)
        print(f"result: freed {freed:.0f} MiB, {left:.0f} MiB left, pause {pause:.1f} ms, resume {resume:.1f} ms", flush=True)
    for captured in job.graphs:
        captured.graph.reset()  # NCCL does not end a communicator that a graph still uses
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
