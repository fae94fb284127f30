# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""One call pauses the NCCL memory of all process groups of a PyTorch job.

torchrun --nproc-per-node 2 examples/torch_pause.py [number of extra groups]
"""

import os
import sys
from typing import Any

import torch
import torch.distributed as dist

import amem


def all_reduce_everywhere() -> Any:
    results = [torch.full((1 << 20,), dist.get_rank() + 0.1, device="cuda") for _ in groups]
    for result, group in zip(results, groups):
        dist.all_reduce(result, group=group)
    free, total = torch.cuda.mem_get_info()
    return torch.stack(results).cpu(), (total - free) >> 20


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
groups = [dist.group.WORLD] + [dist.new_group() for _ in range(int(sys.argv[1]) if sys.argv[1:] else 1)]
before, active_mib = all_reduce_everywhere()

amem.pause()
free, total = torch.cuda.mem_get_info()  # here the GPU is the other phase's
amem.resume()

after, _ = all_reduce_everywhere()
paused_mib, same = (total - free) >> 20, torch.equal(before, after)
print(f"rank {dist.get_rank()}: {active_mib} MiB active, {paused_mib} MiB paused, results equal: {same}", flush=True)
dist.destroy_process_group()
sys.exit(not same)
