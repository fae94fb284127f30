# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Training steps, generated tokens, and launches of kernels and graphs take as long after a pause and a resume as before.

amem run -- torchrun --nproc-per-node 2 tests/gpu/torch_step_time.py
torchrun --nproc-per-node 2 tests/gpu/torch_step_time.py --no-pauses      also without amem

bench/step_time.py compares the second with and without amem.
"""

import argparse
import json
import os
import statistics
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from compared_training import expect

WARM_UP, COUNT, CYCLES = 20, 60, 5
WIDTH, LAYERS, WORDS = 1024, 8, 32768
MOST = {"p10": 1.25, "median": 1.5}  # times as long


class Training:
    """DistributedDataParallel reduces the gradients in several collectives."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH)) for _ in range(LAYERS)]
        self.model = DistributedDataParallel(nn.Sequential(*layers).cuda(), bucket_cap_mb=4)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.data = torch.randn(64, WIDTH, device="cuda")

    def step(self) -> None:
        (self.model(self.data) - self.data).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


class Generation:
    """A token of a model with tensor parallelism: two all-reduces for each layer, then sampling, whose kernels use local memory."""

    def __init__(self) -> None:
        torch.manual_seed(2)
        self.weights = [torch.randn(WIDTH, WIDTH, device="cuda") / WIDTH for _ in range(2 * LAYERS)]
        self.output = torch.randn(WIDTH, WORDS, device="cuda")

    @torch.no_grad()
    def step(self) -> Any:
        data = torch.ones(8, WIDTH, device="cuda")
        for weight in self.weights:
            data = torch.tanh(data @ weight)
            dist.all_reduce(data)
        ordered, places = (data @ self.output).sort(dim=-1, descending=True)
        chosen = ordered.softmax(dim=-1)[:, :64].multinomial(1)
        return places.gather(-1, chosen)


class Launches:
    """The time of the host: the kernels are small."""

    COUNT = 200

    def __init__(self) -> None:
        self.data = torch.zeros(64, device="cuda")

    def step(self) -> None:
        for _ in range(self.COUNT):
            self.data.add_(1)


class Replays(Launches):
    """Of a graph of ten small kernels."""

    COUNT = 100

    def __init__(self) -> None:
        super().__init__()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for _ in range(10):
                self.data.add_(1)

    def step(self) -> None:
        for _ in range(self.COUNT):
            self.graph.replay()


def times_ms(work: Any) -> list[float]:
    """Of COUNT steps."""
    found = []
    for _ in range(COUNT):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work.step()
        torch.cuda.synchronize()
        found.append((time.perf_counter() - begin) * 1e3)
    return found


def summary(times: Any) -> dict[str, float]:
    """The 10th percentile too: other processes of the host delay single steps."""
    return {"p10": statistics.quantiles(times, n=10)[0], "median": statistics.median(times)}


def slowest(value: Any, gloo_group: Any) -> float:
    """Of all ranks."""
    tensor = torch.tensor([value])
    dist.all_reduce(tensor, dist.ReduceOp.MAX, group=gloo_group)
    return float(tensor[0])


def measure(work: Any, pauses: bool, gloo_group: Any) -> Any:
    """Milliseconds of a step before and after pauses, of the slowest rank, and of the first step after one."""
    for _ in range(WARM_UP):
        work.step()
    before, after, first = times_ms(work), [], []
    for _ in range(CYCLES if pauses else 0):
        import amem

        amem.pause(group=gloo_group)  # with the local memory of the context
        amem.resume()
        found = times_ms(work)
        first.append(found[0])
        after += found[1:]
    dist.barrier(group=gloo_group)
    times = {"before": before, "after": after, "first": first} if pauses else {"before": before}
    return {when: {name: round(slowest(ms, gloo_group), 3) for name, ms in summary(each).items()} for when, each in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-pauses", action="store_true")
    pauses = not parser.parse_args().no_pauses
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    gloo_group = dist.new_group(backend="gloo")
    results = {type(work).__name__: measure(work, pauses, gloo_group) for work in (Training(), Generation(), Launches(), Replays())}
    if dist.get_rank() == 0:
        print(f"result: {json.dumps(results)}", flush=True)
    for name, each in results.items() if pauses else ():
        for what, most in MOST.items():
            before, after = each["before"][what], each["after"][what]
            expect(after < most * before, f"{name}: a step takes {after} ms after a pause and {before} ms before ({what})")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
