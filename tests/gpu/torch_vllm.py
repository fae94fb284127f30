# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem's sleep-mode backend for vLLM with real communicators and a captured all_reduce. A stand-in has vLLM's part.

AMEM_ENABLE=1 torchrun --nproc-per-node 2 tests/gpu/torch_vllm.py
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from torch_sleep import CapturedSum, digest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests" / "vllm_stand_in"))

CYCLES = 5
MIB = 1 << 20


def free_bytes() -> int:
    torch.cuda.synchronize()
    return int(torch.cuda.mem_get_info()[0])


def main() -> None:
    import amem_vllm

    amem_vllm.register()  # as vLLM does in each process, before its communicators
    from vllm.device_allocator.sleep_mode_backend import SleepModeBackendFactory

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    cpu = dist.new_group(backend="gloo")
    dist.all_reduce(torch.zeros(1, device="cuda"))  # connects: NCCL may not do so during a capture
    captured = CapturedSum(dist.group.WORLD)
    before = digest(captured.replay())
    backend = SleepModeBackendFactory.get_backend_class("amem")()
    freed = []
    for cycle in range(CYCLES):
        dist.barrier(group=cpu)
        active = free_bytes()
        dist.barrier(group=cpu)
        backend.suspend(1 + cycle % 2)
        dist.barrier(group=cpu)
        freed.append((free_bytes() - active) // MIB)
        dist.barrier(group=cpu)
        backend.resume(["weights"])
        backend.resume(["kv_cache"])
        if digest(captured.replay()) != before:
            raise SystemExit(f"cycle {cycle}: other bits than before")
    if min(freed) <= 0:
        raise SystemExit(f"a sleep has released {freed} MiB")
    print(f"result: sleep released {min(freed)} MiB, the captured all_reduce is right", flush=True)
    captured.graph.reset()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
