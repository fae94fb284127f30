# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Everything of an RL job in one pause: weights, KV cache and the memory of NCCL.

  amem run -- torchrun --nproc-per-node 2 bench/job.py
  LD_PRELOAD=/path/libnccl.so.2 amem run -- python3 tests/gpu/one_gpu.py --shared bench/job.py --ranks-with-tensors 1

The second command needs one GPU, which two ranks share, and NCCL 2.30.3 or newer. All ranks call amem.pause() at the same
time, then amem.resume(). Weights are kept on the host, the KV cache is discarded, NCCL's memory is kept. Prints the median
of the slowest rank; the first pause also pins host memory.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

import amem

WEIGHTS, CACHE_TENSORS = 300, 60
GIGABYTE = 10**9


def allocate(gigabytes: float, tensors: int) -> list[Any]:
    return [torch.empty(int(gigabytes * GIGABYTE) // tensors // 8, dtype=torch.int64, device="cuda") for _ in range(tensors)]


def use(group: Any, step: int) -> None:
    """Six kinds of collectives, whose buffers then hold data, and a sum that is compared."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    data = torch.full((1 << 20,), float(rank + step), device="cuda")
    all_data = torch.empty(ranks << 20, device="cuda")
    dist.all_gather_into_tensor(all_data, data, group=group)
    dist.reduce_scatter_tensor(torch.empty_like(data), all_data, group=group)
    dist.all_to_all_single(torch.empty_like(all_data), all_data, group=group)
    dist.broadcast(torch.empty_like(data), 0, group=group)
    near = (
        dist.P2POp(dist.isend, data, (rank + 1) % ranks, group),
        dist.P2POp(dist.irecv, torch.empty_like(data), (rank - 1) % ranks, group),
    )
    for work in dist.batch_isend_irecv(list(near)):
        work.wait()
    dist.all_reduce(data, group=group)
    if not bool((data == sum(range(ranks)) + ranks * step).all()):
        raise SystemExit(f"rank {rank}, step {step}: the sum is wrong")


def slowest(call: Callable[[], Any], rest_s: float) -> float:
    """Seconds of the slowest rank."""
    torch.cuda.synchronize()
    time.sleep(rest_s)
    dist.barrier(group=GLOO)
    begin = time.perf_counter()
    call()
    took = torch.tensor([time.perf_counter() - begin])
    dist.all_reduce(took, dist.ReduceOp.MAX, group=GLOO)
    return float(took)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--weights", type=float, default=15, help="gigabytes")
parser.add_argument("--cache", type=float, default=60, help="gigabytes")
parser.add_argument("--communicators", type=int, default=9)
parser.add_argument("--cycles", type=int, default=5)
parser.add_argument("--rest", type=float, default=1, help="seconds before each call: a job computes between its calls")
parser.add_argument("--ranks-with-tensors", type=int, default=1 << 30, help="only the first ranks have weights and a cache")
options = parser.parse_args()

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
GLOO = dist.new_group(backend="gloo")
has_tensors = dist.get_rank() < options.ranks_with_tensors
groups = [dist.group.WORLD, *(dist.new_group() for _ in range(options.communicators - 1))]
for communicator in groups:
    use(communicator, 0)
weights, sums = [], []
if has_tensors:
    with amem.region("weights", backup="host"):
        weights = allocate(options.weights, WEIGHTS)
    with amem.region("kv_cache", backup=None):
        cache = allocate(options.cache, CACHE_TENSORS)
    for tensor in weights:
        tensor.random_()
    sums = [int(tensor.sum()) for tensor in weights]
seconds = {"first pause": [], "pause": [], "resume": []}
for cycle in range(options.cycles + 1):
    seconds["first pause" if cycle == 0 else "pause"].append(slowest(amem.pause, options.rest))
    tags = amem.stats()["tags"]
    seconds["resume"].append(slowest(amem.resume, options.rest))
    for communicator in groups:
        use(communicator, cycle + 1)
if [int(tensor.sum()) for tensor in weights] != sums:
    raise SystemExit("the weights are not those of before")
if dist.get_rank() == 0:
    released = ", ".join(f"{tag} {totals['released_bytes'] / GIGABYTE:.1f} GB" for tag, totals in tags.items())
    times = ", ".join(f"{name} {1e3 * statistics.median(all_of_it):.0f} ms" for name, all_of_it in seconds.items())
    print(f"result: {released}; {times}", flush=True)
dist.destroy_process_group()
