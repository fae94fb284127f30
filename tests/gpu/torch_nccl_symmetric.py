# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""PyTorch's symmetric memory with the NCCL backend: the memory of ncclMemAlloc() stays, everything else leaves.

For the ranks of a job on GPUs that reach each other by P2P.
"""

import os
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory

import amem

COUNT, SMALL = 8 << 20, 1024


class Job:
    def __init__(self) -> None:
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        symmetric_memory.set_backend("NCCL")
        dist.init_process_group("nccl", device_id=device)
        dist.all_reduce(torch.ones(4, device="cuda"))
        self.store = dist.distributed_c10d._get_default_store()
        self.tensor = symmetric_memory.empty(COUNT, dtype=torch.float32, device="cuda")
        handle = symmetric_memory.rendezvous(self.tensor, dist.group.WORLD.group_name)
        self.next = (self.rank + 1) % self.ranks
        self.of_next = handle.get_buffer(self.next, (COUNT,), torch.float32)

    def expect(self, condition: Any, what: str) -> None:
        if not condition:
            raise SystemExit(f"wrong: rank {self.rank}: {what}")

    def meet(self, name: str) -> None:
        self.store.add(name, 1)
        while int(self.store.add(name, 0)) < self.ranks:
            pass

    def use(self, value: Any) -> None:
        for count in (SMALL, COUNT):
            self.tensor.fill_(value + self.rank)
            dist.all_reduce(self.tensor[:count])
            total = sum(value + other for other in range(self.ranks))
            self.expect(bool((self.tensor[:count] == total).all()), f"all_reduce of {count}")
        self.tensor.fill_(value + self.rank)
        torch.cuda.synchronize()
        self.meet(f"filled {value}")
        self.expect(bool((self.of_next == value + self.next).all()), "the peer's buffer")
        self.meet(f"read {value}")


def main() -> None:
    job = Job()
    job.use(1)
    kept_bytes = job.tensor.numel() * job.tensor.element_size()
    for cycle, tags in enumerate([("nccl",), ("symmetric",), ()] * 2):
        job.meet(f"pause {cycle}")
        report = amem.pause(*tags)
        if "symmetric" not in tags:
            stayed = kept_bytes <= report.resident_bytes <= kept_bytes + (4 << 20)
            job.expect(stayed and report.released_bytes > 0, f"{report}")
        amem.resume(*tags)
        job.meet(f"resumed {cycle}")
        job.use(10 + cycle)
    print(f"result: rank {job.rank}: right after 6 pauses; {kept_bytes >> 20} MiB of ncclMemAlloc() stayed", flush=True)
    job.meet("end")
    os._exit(0)  # PyTorch frees symmetric memory after the driver has shut down


main()
