# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""PyTorch jobs take turns on a GPU that has room for one of them.

  python3 examples/phase_switch.py [--gigabytes 15] [--jobs 2] [--turns 6] [--seconds 2] [--library amem]
                                   [--picture turns.png]

Each job has a model in a region. It resumes the model with a wait, computes, and pauses: the other job gets the GPU while this
one pauses, and nothing else connects them. With --library torch_memory_saver a lock passes the turn on, because its resume
cannot wait. The parent samples the memory of the GPU and of the host, and draws both if matplotlib is installed. Exit
code 0 only if every job has computed the same in each of its turns.
"""

import argparse
import contextlib
import fcntl
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, List, Tuple


def take_turns(options: argparse.Namespace) -> None:
    import torch

    if options.library == "amem":
        import amem

        region = amem.region("model")

        def resume() -> None:
            amem.resume("model", wait=600)

        def pause() -> None:
            amem.pause("model")
    else:
        from torch_memory_saver import torch_memory_saver

        region = torch_memory_saver.region("model", enable_cpu_backup=True)
        lock = open(options.lock, "w")  # noqa: SIM115

        def resume() -> None:
            fcntl.flock(lock, fcntl.LOCK_EX)
            torch_memory_saver.resume("model")

        def pause() -> None:
            torch_memory_saver.pause("model")
            fcntl.flock(lock, fcntl.LOCK_UN)

    torch.manual_seed(options.job)
    size = 4096
    count = max(int(options.gigabytes * 1e9) // (2 * size * size), 1)
    x = torch.randn(64, size, device="cuda", dtype=torch.bfloat16)
    x @ x.T  # what a first matmul allocates
    with region:
        layers = [torch.randn(size, size, device="cuda", dtype=torch.bfloat16) / size**0.5 for _ in range(count)]
    has_turn = options.job == options.jobs  # the last one that starts
    if has_turn and options.library != "amem":
        fcntl.flock(lock, fcntl.LOCK_EX)
    if not has_turn:
        pause()
    print("ready", flush=True)
    sys.stdin.readline()
    results = set()
    for turn in range(options.turns):
        began = time.monotonic()
        if not has_turn:
            resume()
        has_turn = False
        waited = time.monotonic() - began
        computes_until = time.monotonic() + options.seconds
        while True:
            y = x
            for layer in layers:
                y = y @ layer
            results.add(float(y.float().abs().sum()))
            if time.monotonic() >= computes_until:
                break
        pause()
        print(f"job {options.job}: turn {turn + 1} of {options.turns} after {waited:.2f} s", flush=True)
    if len(results) != 1:
        raise SystemExit(f"job {options.job}: NOT the same in each turn: {results}")


def preload(library: str) -> Any:
    """torch_memory_saver needs its library preloaded."""
    if library == "amem":
        return contextlib.nullcontext()
    from torch_memory_saver import configure_subprocess

    return configure_subprocess()


def available_host_mib() -> float:
    with open("/proc/meminfo", encoding="ascii") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("MemAvailable"))


def draw(samples: List[Tuple[float, float, float]], path: str, title: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 3.5))
    seconds = [sample[0] for sample in samples]
    axes.plot(seconds, [sample[1] / 1024 for sample in samples], label="GPU memory in use")
    axes.plot(seconds, [sample[2] / 1024 for sample in samples], label="host memory in use by the jobs")
    axes.set(xlabel="seconds", ylabel="GiB", title=title)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=15, help="of each job")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=2, help="that a job computes in its turn")
    parser.add_argument("--library", choices=("amem", "torch_memory_saver"), default="amem")
    parser.add_argument("--spare-gigabytes", type=float, default=4, help="free beside one model: room for the contexts")
    parser.add_argument("--picture", help="file for a picture of the memory over time")
    parser.add_argument("--job", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--lock", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job is not None:
        take_turns(options)
        return
    import torch

    room = int((options.gigabytes + options.spare_gigabytes) * 1e9)
    free = torch.cuda.mem_get_info()[0]  # the rest of the GPU belongs to somebody else
    ballast = torch.empty(max(free - room, 1), dtype=torch.uint8, device="cuda")
    free, host = torch.cuda.mem_get_info()[0], available_host_mib()
    samples: List[Tuple[float, float, float]] = []
    with tempfile.NamedTemporaryFile() as lock:
        jobs: List[Any] = []
        for number in range(1, options.jobs + 1):
            command = [sys.executable, __file__, *sys.argv[1:], "--job", str(number), "--lock", lock.name]
            with preload(options.library):
                environment = dict(os.environ, AMEM_GROUP=f"job{number}")
                jobs.append(subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            if jobs[-1].stdout.readline() != "ready\n":
                raise SystemExit(f"job {number} has ended")
        began = time.monotonic()
        for job in jobs:
            job.stdin.write("go\n")
            job.stdin.flush()
            time.sleep(0.5)  # the first one waits before the other pauses
        while any(job.poll() is None for job in jobs):
            used = (free - torch.cuda.mem_get_info()[0]) / 2**20
            samples.append((time.monotonic() - began, used, host - available_host_mib()))
            time.sleep(0.01)
        print("".join(job.stdout.read() for job in jobs), end="")
    del ballast
    most_gpu, most_host = max(sample[1] for sample in samples), max(sample[2] for sample in samples)
    print(f"{options.library}: at most {most_gpu / 1024:.1f} GiB of the GPU and {most_host / 1024:.1f} GiB of the host")
    if options.picture:
        draw(samples, options.picture, f"{options.jobs} jobs of {options.gigabytes:g} GB, {options.library}")
    raise SystemExit(max(job.returncode for job in jobs))


main()
