# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A job leaves a GPU and another one comes: one after the other, and at the same time, while there is room for one of them only.

  python3 bench/phase_switch.py [--gigabytes 15] [--tensors 300] [--cycles 3] [--spare-mib 1024] [--expandable MIB]

Needs one GPU, and amem in this Python (pip, or PYTHONPATH with `amem` on PATH). First with two processes, then with two tags of
one process. Another process holds the rest of the GPU. Figures are medians of the cycles, in milliseconds; contents are
compared in each. With --expandable, two processes as `amem run --tensors weights` starts them, with PyTorch's expandable segments
of objects of so many MiB.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

MIB = 1 << 20


class Model:
    """Tensors with a tag, and what they hold."""

    def __init__(self, tag: str, size_bytes: int, tensors: int) -> None:
        import torch

        import amem

        with contextlib.nullcontext() if "AMEM_TENSORS" in os.environ else amem.region(tag):
            self.tensors = [torch.empty(size_bytes // tensors // 8, dtype=torch.int64, device="cuda") for _ in range(tensors)]
        for tensor in self.tensors:
            tensor.random_()
        self.sums = self.sum()

    def sum(self) -> list[int]:
        return [int(tensor.sum()) for tensor in self.tensors]

    def check(self) -> None:
        if self.sum() != self.sums:
            raise SystemExit("contents are wrong")


def worker(size_bytes: int, tensors: int) -> None:
    """Serves commands, one a line: the name of a call and its arguments, as JSON. Answers with the begin and end of the call."""
    import torch

    import amem

    models: dict[str, Model] = {}
    ballast: list[Any] = []

    def allocate(tag: str) -> None:
        models[tag] = Model(tag, size_bytes, tensors)

    def fill(spare_bytes: int) -> None:
        torch.cuda.init()
        ballast.append(torch.empty(1, device="cuda"))
        free = torch.cuda.mem_get_info()[0] - spare_bytes
        ballast.append(torch.empty(max(free, 1), dtype=torch.uint8, device="cuda"))

    def switch(out: str, into: str, wait: float) -> None:
        amem.switch(pause=[out], resume=[into], wait=wait)

    def switch_in_turn(out: str, into: str) -> None:
        amem.pause(out)
        amem.resume(into)

    calls: dict[str, Callable[..., Any]] = {
        "allocate": allocate,
        "fill": fill,
        "pause": amem.pause,
        "resume": lambda tag, wait: amem.resume(tag, wait=wait),
        "switch": switch,
        "switch_in_turn": switch_in_turn,
        "check": lambda tag: models[tag].check(),
    }
    print("ready", flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        torch.cuda.synchronize()
        begin = time.monotonic()
        calls[name](*arguments)
        print(json.dumps([begin, time.monotonic()]), flush=True)


class Process:
    def __init__(self, options: argparse.Namespace) -> None:
        command = [sys.executable, __file__, "--worker", "--gigabytes", str(options.gigabytes), "--tensors", str(options.tensors)]
        environment = dict(os.environ, AMEM_GROUP=f"job_{id(self)}")
        if options.expandable:
            command = ["amem", "run", "--tensors", "weights", "--", *command]
            environment["PYTORCH_CUDA_ALLOC_CONF"] = f"expandable_segments:True,large_segment_size_mb:{options.expandable}"
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.read()

    def read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a process has ended")
        return None if line == "ready\n" else json.loads(line)

    def start(self, *call: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(call) + "\n")
        self.process.stdin.flush()

    def run(self, *call: Any) -> Any:
        self.start(*call)
        return self.read()

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def length(*spans: tuple[float, float]) -> float:
    return 1e3 * (max(end for _, end in spans) - min(begin for begin, _ in spans))


def two_processes(options: argparse.Namespace, rest_s: float) -> dict[str, float]:
    jobs = [Process(options), Process(options)]
    holder = Process(options)
    jobs[0].run("allocate", "weights")
    jobs[0].run("pause", "weights")
    jobs[1].run("allocate", "weights")
    holder.run("fill", options.spare_mib * MIB)
    times: dict[str, list[float]] = {"pause": [], "resume": [], "one after the other": [], "at the same time": []}
    for cycle in range(4 * (options.cycles + 1)):
        into, out = jobs if cycle % 2 == 0 else jobs[::-1]
        time.sleep(rest_s)
        if cycle // 2 % 2 == 0:
            pause, resume = out.run("pause", "weights"), into.run("resume", "weights", 0)
            spans = {"pause": length(pause), "resume": length(resume), "one after the other": length(pause) + length(resume)}
        else:
            into.start("resume", "weights", 60)
            out.start("pause", "weights")
            spans = {"at the same time": length(out.read(), into.read())}
        into.run("check", "weights")
        if cycle >= 4:
            for name, milliseconds in spans.items():
                times[name].append(milliseconds)
    for process in [*jobs, holder]:
        process.end()
    return {name: statistics.median(values) for name, values in times.items()}


def one_process(options: argparse.Namespace, rest_s: float) -> dict[str, float]:
    job, holder = Process(options), Process(options)
    job.run("allocate", "a")
    job.run("pause", "a")
    job.run("allocate", "b")
    holder.run("fill", options.spare_mib * MIB)
    times: dict[str, list[float]] = {"one after the other": [], "at the same time": []}
    for cycle in range(4 * (options.cycles + 1)):
        into, out = ("a", "b") if cycle % 2 == 0 else ("b", "a")
        time.sleep(rest_s)
        if cycle // 2 % 2 == 0:
            name, span = "one after the other", job.run("switch_in_turn", out, into)
        else:
            name, span = "at the same time", job.run("switch", out, into, 60)
        job.run("check", into)
        if cycle >= 4:
            times[name].append(length(span))
    job.end()
    holder.end()
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=15)
    parser.add_argument("--tensors", type=int, default=300)
    parser.add_argument("--cycles", type=int, default=3, help="two switches in turn and two at the same time each")
    parser.add_argument("--rest", type=float, default=0.5, help="seconds before each switch")
    parser.add_argument("--spare-mib", type=int, default=1024, help="what is free beside one job")
    parser.add_argument("--expandable", type=int, help="memory with a process-wide tag in expandable segments of such objects")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(int(options.gigabytes * 1e9), options.tensors)
        return
    ways = {"two processes": two_processes, "one process": one_process}
    if options.expandable:
        del ways["one process"]  # has one tag
    for title, measure in ways.items():
        times = measure(options, options.rest)
        ratio = times["at the same time"] / times["one after the other"]
        figures = ", ".join(f"{name} {milliseconds:.0f} ms" for name, milliseconds in times.items())
        print(f"{title}: {figures}; ratio {ratio:.2f}", flush=True)


main()
