# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Region tensors that NCCL has registered leave and return while all ranks have other NCCL work in flight all the time.

torch_registered_busy.py graph|register|window: registered in a captured graph, by ncclCommRegister(), or as a window. For
the ranks of a job on GPUs that reach each other by P2P.
"""

import ctypes
import os
import sys
import threading
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import amem

COUNT = 8 << 20
BUSY_COUNTS = (1024, 1 << 20, 4 << 20)
CHECKED_EVERY = 8  # rounds
REGISTER = {"register": ("ncclCommRegister", []), "window": ("ncclCommWindowRegister", [1])}  # NCCL_WIN_COLL_SYMMETRIC
DEREGISTER = {"register": "ncclCommDeregister", "window": "ncclCommWindowDeregister"}


def loaded_nccl() -> Any:
    paths = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libnccl" in line}
    return ctypes.CDLL(next(path for path in paths if not path.endswith("libamem_nccl.so")))


class Busy(threading.Thread):
    """Collectives of a group of its own, on memory without a tag. The GPU always has some of them queued."""

    def __init__(self, rank: int, ranks: int) -> None:
        super().__init__()
        self.rank, self.ranks, self.group = rank, ranks, dist.new_group()
        self.device, self.stream = torch.cuda.current_device(), torch.cuda.Stream()
        self.rounds, self.wrong, self.stopping = 0, 0, False
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            torch.cuda.set_device(self.device)
            with torch.cuda.stream(self.stream):
                self.work()
        except Exception as error:  # the main thread reports it
            self.error = error

    def work(self) -> None:
        data = [torch.empty(count, device="cuda") for count in BUSY_COUNTS]
        wrong = torch.zeros((), dtype=torch.int64, device="cuda")
        stop = torch.zeros(1, device="cuda")
        while True:
            value = self.rounds % 1000 + 1
            for tensor in data:
                tensor.fill_(value + self.rank)
                dist.all_reduce(tensor, group=self.group)
                wrong += (tensor != self.ranks * value + self.ranks * (self.ranks - 1) // 2).sum()
            self.rounds += 1
            if self.rounds % CHECKED_EVERY != 0:
                continue
            stop.fill_(float(self.stopping))
            dist.all_reduce(stop, group=self.group)  # all ranks end in the same round
            self.wrong = int(wrong)
            if self.wrong or float(stop):
                return

    def advance(self, rounds: int = 2 * CHECKED_EVERY) -> None:
        """Returns when the work of some more rounds has been done."""
        wanted = self.rounds + rounds
        while self.rounds < wanted and self.is_alive():
            pass


class Job:
    def __init__(self, way: str) -> None:
        self.rank, self.ranks, self.way = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), way
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
        self.store = dist.distributed_c10d._get_default_store()
        self.busy = Busy(self.rank, self.ranks)
        with amem.region("weights"):
            self.shard = torch.zeros(COUNT, device="cuda")
            self.whole = torch.zeros(COUNT * self.ranks, device="cuda")
            self.summed = torch.zeros(COUNT, device="cuda")
        for group in (None, self.busy.group):
            dist.all_reduce(torch.ones(4, device="cuda"), group=group)
        self.registered, self.graph = [], None
        if way == "graph":
            self.capture()
        else:
            self.nccl = loaded_nccl()
            self.communicator = ctypes.c_void_p(dist.group.WORLD._get_backend(device)._comm_ptr())
            self.registered = [self.register(tensor) for tensor in (self.shard, self.whole, self.summed)]
        torch.cuda.synchronize()

    def expect(self, condition: Any, what: str) -> None:
        if not condition:
            raise SystemExit(f"wrong: rank {self.rank}: {what}")

    def collectives(self) -> None:
        dist.all_gather_into_tensor(self.whole, self.shard)
        dist.all_reduce(self.summed)

    def capture(self) -> None:
        self.collectives()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.collectives()

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
            self.expect(self.busy.error is None, f"the work in flight failed: {self.busy.error}")

    def launch(self, value: Any, times: Any = 1) -> None:
        for _ in range(times):
            self.shard.fill_(value + self.rank)
            self.summed.fill_(value + self.rank)
            self.whole.zero_()
            if self.graph is not None:
                self.graph.replay()
            else:
                self.collectives()

    def check(self, value: Any) -> None:
        """The registered tensors, bit for bit. Waits for its own stream only."""
        total = sum(value + other for other in range(self.ranks))
        for other in range(self.ranks):
            part = self.whole[other * COUNT : (other + 1) * COUNT]
            self.expect(bool((part == value + other).all()), f"all_gather, rank {other}, value {value}")
        self.expect(bool((self.summed == total).all()), f"all_reduce, value {value}")

    def cycle(self, number: int, owners: Any) -> None:
        """The owners pause the tag while its last work is queued. No rank starts more work on it before all have it
        again, and all ranks go on with their other work."""
        self.launch(10 * number + 1, times=20)
        self.meet(f"launched {number}")
        if self.rank in owners:
            amem.pause("weights")
            resident = amem.stats()["tags"]["weights"]["resident_bytes"]
            self.expect(resident == 0, f"{resident} bytes stayed")
            self.busy.advance()
            amem.resume("weights")
            self.busy.advance()
        self.meet(f"resumed {number}")
        self.check(10 * number + 1)
        self.launch(10 * number + 2)
        self.check(10 * number + 2)

    def run(self) -> None:
        self.launch(1)
        self.check(1)
        self.busy.start()
        everyone = list(range(self.ranks))
        for number in range(6 * self.ranks):
            self.cycle(number, everyone if number % (self.ranks + 1) == self.ranks else [number % (self.ranks + 1)])
        self.busy.stopping = True
        self.busy.join()
        self.expect(self.busy.error is None, f"the work in flight failed: {self.busy.error}")
        self.expect(self.busy.wrong == 0, f"{self.busy.wrong} elements of the work in flight")
        self.expect(self.busy.rounds >= 6 * self.ranks, f"only {self.busy.rounds} rounds of other work")
        print(f"result: rank {self.rank}: {self.way}: right, {self.busy.rounds} rounds of other work, {amem.stats()['imports']}")

    def end(self) -> None:
        torch.cuda.synchronize()
        if self.graph is not None:
            self.graph.reset()  # NCCL does not end a communicator that a graph still uses
        for handle in self.registered:
            getattr(self.nccl, DEREGISTER[self.way])(self.communicator, handle)
        dist.destroy_process_group()


def main() -> None:
    job = Job(sys.argv[1])
    job.run()
    job.end()


main()
