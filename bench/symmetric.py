# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Collectives, barriers, pauses and an overlapped all-gather on symmetric memory: amem, PyTorch and NCCL in one run.

  ./dev bench --what symmetric [--ranks 2] [--share-gpu] [--picture build/symmetric.png]

Needs PyTorch and a GPU for each rank; with --share-gpu all ranks use the first GPU, where times mean nothing. bf16, in CUDA
graphs. Writes one JSON object for each line to build/symmetric.jsonl (--json) and prints tables.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KIB, MIB = 1 << 10, 1 << 20
SIZES = (2 * KIB, 8 * KIB, 32 * KIB, 128 * KIB, 512 * KIB, 2 * MIB, 8 * MIB, 32 * MIB, 128 * MIB)
LIBRARIES = ("NCCL", "torch symm_mem", "amem")
GATHERED_BYTES, PAUSED_BUFFERS, PAUSED_BYTES = 128 * MIB, 4, 256 * MIB
ROUNDS = 5
SLEEP_CYCLES = 2_000_000  # about a millisecond


def calls_in_a_graph(size_bytes: int) -> int:
    return 100 if size_bytes <= MIB else 10


class Rank:
    """One process of the measurement."""

    def __init__(self, most_bytes: int) -> None:
        import torch
        import torch.distributed as dist
        import torch.distributed._symmetric_memory as torch_symmetric

        import amem
        import amem.symmetric as own_symmetric

        self.torch, self.dist, self.amem = torch, dist, amem
        self.modules = {"torch symm_mem": torch_symmetric, "amem": own_symmetric}
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        self.host_group = dist.new_group(backend="gloo")
        self.rank, self.ranks, self.most_bytes = dist.get_rank(), dist.get_world_size(), most_bytes
        self.lines, self.kept, self.start = [], [], torch.zeros(1, device="cuda")
        self.is_shared = len(set(self.devices())) < self.ranks
        self.say(figures="facts", gpu=torch.cuda.get_device_name(), ranks=self.ranks, torch=torch.__version__,
                 nccl=".".join(map(str, torch.cuda.nccl.version())), shared=self.is_shared)

    def devices(self) -> Any:
        found = [None] * self.ranks
        uuid = str(self.torch.cuda.get_device_properties(self.torch.cuda.current_device()).uuid)
        self.dist.all_gather_object(found, uuid, group=self.host_group)
        return found

    def say(self, **line: Any) -> None:
        self.lines.append(line)

    def slowest(self, seconds: float) -> float:
        took = self.torch.tensor([seconds], dtype=self.torch.float64)
        self.dist.all_reduce(took, self.dist.ReduceOp.MAX, group=self.host_group)
        return float(took)

    def graph_of(self, step: Callable[[], Any], calls: int) -> Any:
        step()
        self.torch.cuda.synchronize()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(calls):
                step()
        return graph

    def in_graph_us(self, step: Callable[[], Any], calls: int) -> float:
        """Microseconds of one call: the median round of the slowest rank."""
        calls = calls // 10 if self.is_shared else calls
        graph = self.graph_of(step, calls)
        times = []
        for _ in range(ROUNDS + 1):
            begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.dist.barrier(group=self.host_group)
            # The GPUs start together, when all is queued.
            self.torch.cuda._sleep(SLEEP_CYCLES)
            self.dist.all_reduce(self.start)
            begin.record()
            graph.replay()
            end.record()
            self.torch.cuda.synchronize()
            times.append(self.slowest(begin.elapsed_time(end) * 1e3 / calls))
        return statistics.median(times[1:])

    def symmetric_tensor(self, module: Any, count: int) -> Any:
        tensor = module.empty(count, dtype=self.torch.bfloat16, device="cuda")
        world = self.dist.group.WORLD
        handle = module.rendezvous(tensor, world if module is self.modules["amem"] else world.group_name)
        self.kept.append(tensor)  # graphs use it
        return tensor, handle

    def torch_all_reduce(self, tensor: Any, size_bytes: int) -> Callable[[], Any]:
        """The faster of PyTorch's two algorithms without multicast."""
        ops, name = self.torch.ops.symm_mem, self.dist.group.WORLD.group_name
        if size_bytes <= 256 * KIB:
            return lambda: ops.one_shot_all_reduce(tensor, "sum", name)
        return lambda: ops.two_shot_all_reduce_(tensor, "sum", name)

    def all_reduces(self) -> None:
        own = self.modules["amem"]
        for size_bytes in (size for size in SIZES if size <= self.most_bytes):
            count, calls = size_bytes // 2, calls_in_a_graph(size_bytes)
            plain = self.torch.zeros(count, dtype=self.torch.bfloat16, device="cuda")
            tensors = {name: self.symmetric_tensor(module, count)[0] for name, module in self.modules.items()}
            handle = own.rendezvous(tensors["amem"], self.dist.group.WORLD)  # the same again
            steps = {
                "NCCL": lambda: self.dist.all_reduce(plain),
                "torch symm_mem": self.torch_all_reduce(tensors["torch symm_mem"], size_bytes),
                "amem": lambda: handle.all_reduce(tensors["amem"].data_ptr(), 0, count, "bfloat16"),
            }
            for library in LIBRARIES:
                us = self.in_graph_us(steps[library], calls)
                self.say(figures="all_reduce", library=library, bytes=size_bytes, us=us)

    def barriers(self) -> None:
        for name, module in self.modules.items():
            _, handle = self.symmetric_tensor(module, 4096)
            self.say(figures="barrier", library=name, us=self.in_graph_us(lambda: handle.barrier(channel=0), 100))

    def overlapped_gather(self) -> None:
        """How much an all-gather on copy engines slows down matmuls on another stream."""
        torch = self.torch
        left, right = (torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda") for _ in range(2))
        product, side = torch.empty_like(left), torch.cuda.Stream()
        size_bytes = min(GATHERED_BYTES, self.most_bytes)
        name = self.dist.group.WORLD.group_name
        steps: dict[str, Callable[[], Any]] = {"nothing": lambda: None}
        own_tensor, _ = self.symmetric_tensor(self.modules["amem"], size_bytes // 2 // self.ranks)
        steps["amem"] = lambda: self.modules["amem"].all_gather(own_tensor, engine="copy_engines")
        torch_tensor, _ = self.symmetric_tensor(self.modules["torch symm_mem"], size_bytes // 2 // self.ranks)
        wait = torch.ops._c10d_functional.wait_tensor
        steps["torch symm_mem"] = lambda: wait(torch.ops.symm_mem._low_contention_all_gather(torch_tensor, name))
        for library, step in steps.items():
            times = []
            for _ in range(ROUNDS + 1):
                self.dist.barrier(group=self.host_group)
                torch.cuda.synchronize()
                with torch.cuda.stream(side):
                    for _ in range(4):
                        step()
                begin = time.perf_counter()
                for _ in range(4):
                    torch.mm(left, right, out=product)
                torch.cuda.current_stream().synchronize()
                times.append(self.slowest(time.perf_counter() - begin))
                torch.cuda.synchronize()
            self.say(figures="matmul", library=library, ms=statistics.median(times[1:]) * 1e3)

    def pauses(self) -> None:
        """All ranks pause and resume buffers whose contents are kept."""
        size_bytes = min(PAUSED_BYTES, 2 * self.most_bytes)
        kept = [self.symmetric_tensor(self.modules["amem"], size_bytes // 2) for _ in range(PAUSED_BUFFERS)]
        for tensor, _ in kept:
            tensor.normal_()
        sums = [float(tensor.double().sum()) for tensor, _ in kept]
        times = {"pause": [], "resume": []}
        for _ in range(ROUNDS + 1):
            for name, call in (("pause", self.amem.pause), ("resume", self.amem.resume)):
                self.torch.cuda.synchronize()
                time.sleep(0.5)
                self.dist.barrier(group=self.host_group)
                begin = time.perf_counter()
                call("symmetric")
                times[name].append(self.slowest(time.perf_counter() - begin))
        if [float(tensor.double().sum()) for tensor, _ in kept] != sums:
            raise SystemExit(f"rank {self.rank}: contents were lost")
        self.kept.clear()
        for name, seconds in times.items():
            self.say(figures=name, library="amem", bytes=PAUSED_BUFFERS * size_bytes, ms=statistics.median(seconds[1:]) * 1e3)


def measure(options: argparse.Namespace) -> None:
    rank = Rank(options.most_mib * MIB)
    rank.pauses()  # first, while there is no other symmetric memory
    rank.all_reduces()
    rank.barriers()
    rank.overlapped_gather()
    if rank.rank == 0:
        Path(options.json).write_text("".join(json.dumps(line) + "\n" for line in rank.lines), encoding="utf-8")
    rank.dist.destroy_process_group()


def size_text(size_bytes: int) -> str:
    return f"{size_bytes // MIB} MiB" if size_bytes >= MIB else f"{size_bytes // KIB} KiB"


def print_tables(lines: Any) -> None:
    facts = lines[0]
    print(f"{facts['ranks']} ranks, {facts['gpu']}, PyTorch {facts['torch']}, NCCL {facts['nccl']}"
          + (", which share a GPU: times mean nothing" if facts["shared"] else ""))
    times = {(line["bytes"], line["library"]): line["us"] for line in lines if line["figures"] == "all_reduce"}
    print("\n| all-reduce, µs | " + " | ".join(LIBRARIES) + " |\n|---|" + "---|" * len(LIBRARIES))
    for size_bytes in sorted({size for size, _ in times}):
        print(f"| {size_text(size_bytes)} | " + " | ".join(f"{times[size_bytes, name]:.1f}" for name in LIBRARIES) + " |")
    print("\n| | |\n|---|---|")
    for line in lines:
        if line["figures"] == "barrier":
            print(f"| barrier, {line['library']} | {line['us']:.1f} µs |")
        elif line["figures"] == "matmul":
            print(f"| 4 matmuls beside all-gathers of {line['library']} | {line['ms']:.2f} ms |")
        elif line["figures"] in ("pause", "resume"):
            print(f"| {line['figures']} of {size_text(line['bytes'])} | {line['ms']:.1f} ms |")


def draw(lines: Any, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5))
    for library in LIBRARIES:
        points = [(line["bytes"], line["us"]) for line in lines
                  if line["figures"] == "all_reduce" and line["library"] == library]
        axes.plot(*zip(*points), marker="o", label=library)
    axes.set(xscale="log", yscale="log", xlabel="bytes of each rank", ylabel="µs",
             title=f"all-reduce, bf16, {lines[0]['ranks']} ranks, {lines[0]['gpu']}")
    axes.legend()
    figure.savefig(path, dpi=120)
    print(f"\nwritten: {path}")


def start_ranks(options: argparse.Namespace) -> None:
    """This program once for each rank, under `amem run`."""
    port = 29500 + os.getpid() % 1000
    ranks = []
    for rank in range(options.ranks):
        device = 0 if options.share_gpu else rank
        variables = {"RANK": rank, "WORLD_SIZE": options.ranks, "LOCAL_RANK": device,
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCH_SYMM_MEM_DISABLE_MULTICAST": 1}
        if options.share_gpu:
            # NCCL refuses ranks of one host on one GPU, older ones than 2.30.3 always.
            variables.update({"NCCL_HOSTID": f"host{rank}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket",
                              "TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES": 1})
        environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
        command = [options.amem, "run", "--", sys.executable, __file__, *sys.argv[1:]]
        ranks.append(subprocess.Popen(command, env=environment))
    codes = [rank.wait() for rank in ranks]
    if any(codes):
        raise SystemExit(f"exit codes of the ranks: {codes}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--share-gpu", action="store_true")
    parser.add_argument("--most-mib", type=int, default=128, help="the largest all-reduce")
    parser.add_argument("--json", default=str(ROOT / "build" / "symmetric.jsonl"))
    parser.add_argument("--picture", help="draws the all-reduces; needs matplotlib")
    parser.add_argument("--amem", default="amem", help="the command")
    options = parser.parse_args()
    if "RANK" in os.environ:
        measure(options)
        return
    Path(options.json).parent.mkdir(exist_ok=True)
    start_ranks(options)
    lines = [json.loads(line) for line in Path(options.json).read_text(encoding="utf-8").splitlines()]
    print_tables(lines)
    if options.picture:
        draw(lines, options.picture)


if __name__ == "__main__":
    main()
