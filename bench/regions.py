# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Pause and resume of tagged tensors under PyTorch, beside torch_memory_saver if it is installed.

  python3 bench/regions.py [--gigabytes-of-weights 15] [--gigabytes-of-cache 60] [--cycles 5]

Needs one GPU and amem in this Python (pip, or PYTHONPATH with `amem` on PATH). Each library runs in a process of its
own. The first pause also pins host memory; the other figures are medians of the later cycles.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

MIB = 1 << 20
WEIGHTS, CACHE_TENSORS = 300, 60
ROUNDS, ROUND = 11, 50  # of 50 tensors each


def timed(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def of_amem() -> tuple[Any, ...]:
    import amem

    def region(tag: str, keeps: bool) -> contextlib.AbstractContextManager[None]:
        return amem.region(tag, backup="host" if keeps else None)

    return region, amem.pause, amem.resume


def of_torch_memory_saver() -> tuple[Any, ...]:
    from torch_memory_saver import torch_memory_saver

    def region(tag: str, keeps: bool) -> Any:
        return torch_memory_saver.region(tag, enable_cpu_backup=keeps)

    return region, torch_memory_saver.pause, torch_memory_saver.resume


LIBRARIES = {"amem": of_amem, "torch_memory_saver": of_torch_memory_saver}


def allocation_times(torch: Any, region: Callable[[str, bool], Any], size_bytes: int) -> dict[str, float]:
    """Milliseconds to allocate a tensor and to return its memory to the driver, in a region and outside: medians of rounds.

    PyTorch returns no memory of a pool that exists, and torch_memory_saver keeps the pools of its regions.
    """
    milliseconds, returns = {}, "amem" in sys.modules
    for _ in range(ROUNDS):
        for where in ("region", "plain") if returns or not milliseconds else ("plain",):
            tensors = []
            with region("round", True) if where == "region" else contextlib.nullcontext():
                seconds = timed(
                    lambda: tensors.extend(torch.empty(size_bytes, dtype=torch.uint8, device="cuda") for _ in range(ROUND))
                )
            milliseconds.setdefault(f"allocate_{where}_ms", []).append(1e3 * seconds / ROUND)
            tensors.clear()
            if where == "region" and not returns:
                continue
            torch.cuda.synchronize()
            free_bytes = torch.cuda.mem_get_info()[0]
            seconds = timed(torch.cuda.empty_cache)
            if torch.cuda.mem_get_info()[0] - free_bytes < 0.99 * ROUND * size_bytes:
                raise SystemExit(f"{where}: PyTorch has not returned the memory")
            milliseconds.setdefault(f"free_{where}_ms", []).append(1e3 * seconds / ROUND)
    return {name: statistics.median(values) for name, values in milliseconds.items()}


def measure(library: str, weights_bytes: int, cache_bytes: int, cycles: int, rest_s: float) -> Any:
    import torch

    region, pause, resume = LIBRARIES[library]()
    torch.cuda.init()
    torch.empty(1, device="cuda")
    facts = allocation_times(torch, region, weights_bytes // WEIGHTS)

    def allocate(tag: str, keeps: bool, size_bytes: int) -> list[Any]:
        with region(tag, keeps):
            count = WEIGHTS if keeps else CACHE_TENSORS
            return [torch.empty(size_bytes // count // 8, dtype=torch.int64, device="cuda") for _ in range(count)]

    weights = allocate("weights", True, weights_bytes)
    for number in range(len(weights)):
        weights[number].random_()
    sums = [int(tensor.sum()) for tensor in weights]
    _cache = allocate("kv_cache", False, cache_bytes)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = {}
    for cycle in range(cycles + 1):
        for tag in ("weights", "kv_cache"):
            torch.cuda.synchronize()
            time.sleep(rest_s)
            key = f"first_{tag}" if cycle == 0 else tag
            seconds.setdefault(f"pause_{key}", []).append(timed(lambda: pause(tag)))
        for tag in ("weights", "kv_cache"):
            time.sleep(rest_s)
            key = f"first_{tag}" if cycle == 0 else tag
            seconds.setdefault(f"resume_{key}", []).append(timed(lambda: resume(tag)))
    facts["host_bytes_for_each_kept"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - rss) * 1024 / weights_bytes
    facts["right"] = [int(tensor.sum()) for tensor in weights] == sums
    for name, values in seconds.items():
        facts[f"{name}_ms"] = 1e3 * statistics.median(values)
    return facts


def touch_host_memory(size_bytes: int) -> None:
    """A virtual machine may get its memory from its host at the first use; that is not what is measured."""
    code = f"b = bytearray({size_bytes}); b[::4096] = bytes(len(range(0, {size_bytes}, 4096)))"
    subprocess.run([sys.executable, "-c", code], check=True)


def preload(library: str) -> Any:
    """torch_memory_saver's default mode needs its library preloaded."""
    if library != "torch_memory_saver":
        return contextlib.nullcontext()
    from torch_memory_saver import configure_subprocess

    return configure_subprocess()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes-of-weights", type=float, default=15)
    parser.add_argument("--gigabytes-of-cache", type=float, default=60)
    parser.add_argument("--cycles", type=int, default=5)
    parser.add_argument("--rest", type=float, default=1, help="seconds before each call: a job computes between its calls")
    parser.add_argument("--library", choices=LIBRARIES, help="measure this one, in this process, and print JSON")
    options = parser.parse_args()
    sizes = (int(options.gigabytes_of_weights * 1e9), int(options.gigabytes_of_cache * 1e9))
    if options.library:
        print(json.dumps(measure(options.library, *sizes, options.cycles, options.rest)))
        return
    touch_host_memory(2 * sizes[0])
    found = [name for name in LIBRARIES if importlib.util.find_spec(name) is not None]
    results = {}
    for library in found:
        with preload(library):
            command = [sys.executable, __file__, *sys.argv[1:], "--library", library]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=dict(os.environ))
        results[library] = json.loads(done.stdout)
    rows = list(dict.fromkeys(name for facts in results.values() for name in facts))
    print("| | " + " | ".join(found) + " |\n|---|" + "---|" * len(found))
    for name in rows:
        values = [results[library].get(name) for library in found]
        print(f"| {name} | " + " | ".join(f"{v:.2f}" if isinstance(v, float) else str(v) for v in values) + " |")


main()
