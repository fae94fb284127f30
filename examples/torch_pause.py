# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Pauses the NCCL memory of a PyTorch job: the memory goes and comes back, the results stay.

amem run -- torchrun --nproc-per-node 2 examples/torch_pause.py [--groups N]
"""

import argparse
import os

import torch
import torch.distributed as dist

import amem

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--groups", type=int, default=1, metavar="N", help="process groups besides the default one")
extra_groups = parser.parse_args().groups

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank = dist.get_rank()
groups = [dist.group.WORLD] + [dist.new_group() for _ in range(extra_groups)]
values = torch.full((1 << 20,), rank + 0.1, device="cuda")


def reduce_in_all_groups():
    results = [values.clone() for _ in groups]
    for result, group in zip(results, groups):
        dist.all_reduce(result, group=group)
    torch.cuda.synchronize()
    return results


def report(moment):
    free, total = torch.cuda.mem_get_info()
    print(f"rank {rank} {moment:8}{(total - free) >> 20:8} MiB of the GPU in use", flush=True)


before = reduce_in_all_groups()
report("active")
amem.pause()
report("paused")
amem.resume()
report("resumed")
after = reduce_in_all_groups()

same = all(torch.equal(first, second) for first, second in zip(before, after))
print(f"rank {rank}: results of {len(groups)} communicators {'are equal' if same else 'DIFFER'}", flush=True)
dist.destroy_process_group()
raise SystemExit(0 if same else 1)
