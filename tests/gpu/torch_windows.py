# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Region tensors that are registered with NCCL, by ncclCommRegister() or as windows, over pauses of their tag and of NCCL.

torch_windows.py register|window. For the ranks of a job on GPUs that reach each other by P2P.
"""

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import amem

COUNT, SMALL = 8 << 20, 1024
SYMMETRIC = 1  # NCCL_WIN_COLL_SYMMETRIC
REGISTER = {"register": ("ncclCommRegister", []), "window": ("ncclCommWindowRegister", [SYMMETRIC])}
DEREGISTER = {"register": "ncclCommDeregister", "window": "ncclCommWindowDeregister"}


def loaded_nccl() -> Any:
    paths = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libnccl" in line}
    return ctypes.CDLL(next(path for path in paths if not path.endswith("libamem_nccl.so")))


class Job:
    def __init__(self, way: str) -> None:
        self.rank, self.ranks, self.way = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), way
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
        self.store = dist.distributed_c10d._get_default_store()
        self.nccl = loaded_nccl()
        self.communicator = ctypes.c_void_p(dist.group.WORLD._get_backend(device)._comm_ptr())
        dist.all_reduce(torch.ones(4, device="cuda"))
        with amem.region("weights"):
            self.shard = torch.zeros(COUNT, device="cuda")
            self.whole = torch.zeros(COUNT * self.ranks, device="cuda")
        torch.cuda.synchronize()
        self.registered = [self.register(tensor) for tensor in (self.shard, self.whole)]

    def expect(self, condition: Any, what: str) -> None:
        if not condition:
            raise SystemExit(f"wrong: rank {self.rank}: {what}")

    def register(self, tensor: Any) -> Any:
        name, options = REGISTER[self.way]
        handle, size_bytes = ctypes.c_void_p(), ctypes.c_size_t(tensor.numel() * tensor.element_size())
        address = ctypes.c_void_p(tensor.data_ptr())
        result = getattr(self.nccl, name)(self.communicator, address, size_bytes, ctypes.byref(handle), *options)
        self.expect(result == 0 and handle.value, f"{name} returned {result}")
        return handle

    def meet(self, name: str) -> None:
        self.store.add(name, 1)
        while int(self.store.add(name, 0)) < self.ranks:
            pass

    def use(self, value: Any) -> None:
        for count in (SMALL, COUNT):
            self.shard.fill_(value + self.rank)
            self.whole.zero_()
            dist.all_gather_into_tensor(self.whole[: count * self.ranks], self.shard[:count])
            for other in range(self.ranks):
                part = self.whole[other * count : (other + 1) * count]
                self.expect(bool((part == value + other).all()), f"all_gather of {count}, rank {other}")
            dist.all_reduce(self.shard[:count])
            total = sum(value + other for other in range(self.ranks))
            self.expect(bool((self.shard[:count] == total).all()), f"all_reduce of {count}")
        torch.cuda.synchronize()

    def pause_and_resume(self, cycle: int, tags: Any) -> None:
        self.meet(f"pause {cycle}")
        amem.pause(*tags)
        for tag in tags:
            resident = amem.stats()["tags"][tag]["resident_bytes"]
            self.expect(resident == 0, f"{tag}: {resident} bytes stayed")
        amem.resume(*tags)
        self.meet(f"resumed {cycle}")

    def end(self) -> None:
        self.meet("end")
        for handle in self.registered:
            result = getattr(self.nccl, DEREGISTER[self.way])(self.communicator, handle)
            self.expect(result == 0, f"{DEREGISTER[self.way]} returned {result}")
        dist.destroy_process_group()


def main() -> None:
    job = Job(sys.argv[1])
    job.use(1)
    selections = [("weights",), ("nccl",), ("weights", "nccl"), ()] * 2
    for cycle, tags in enumerate(selections):
        job.pause_and_resume(cycle, tags)
        job.use(10 + cycle)
    job.end()
    print(f"result: rank {job.rank}: {job.way}: right after {len(selections)} pauses")


main()
