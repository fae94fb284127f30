# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Process groups over two nodes and inside each, across pauses of all ranks, of one node and of one rank.

For the ranks of two_agents.py. While one rank is paused, the others call a collective over both nodes: those of its node
wait for it in amem, those of the other node in NCCL.
"""

import os
import time
from typing import Any

import torch
import torch.distributed as dist

import amem

COUNT, PATIENCE_S = 1 << 20, 60


class Rank:
    def __init__(self) -> None:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.store = dist.distributed_c10d._get_default_store()
        size = int(os.environ["LOCAL_WORLD_SIZE"])
        self.nodes = [list(range(first, first + size)) for first in range(0, self.ranks, size)]
        groups = [dist.new_group(node) for node in self.nodes]
        self.node = groups[self.rank // size]
        self.step = 0

    def expect(self, condition: Any, what: str) -> None:
        if not condition:
            raise SystemExit(f"wrong: rank {self.rank}: {what}")

    def meet(self, name: str, count: Any) -> None:
        """Waits on the host until `count` ranks have come: a barrier would be work on the GPU."""
        self.store.add(name, 1)
        self.wait_for(name, count)

    def wait_for(self, name: str, count: Any) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while int(self.store.add(name, 0)) < count:
            self.expect(time.monotonic() < deadline, f"{name}: the other ranks have not come")
            time.sleep(0.01)  # allow: between two looks, under a deadline

    def reduce(self, group: Any, members: Any) -> None:
        """Small whole numbers, so that sums are exact in any order."""
        self.step += 1
        values = torch.full((COUNT,), float(self.rank + self.step), device="cuda")
        dist.all_reduce(values, group=group)
        wanted = sum(member + self.step for member in members)
        found = [value.item() for value in torch.aminmax(values)]
        self.expect(found == [wanted, wanted], f"all_reduce of {members}: {found} instead of {wanted}")

    def gather(self) -> None:
        mine = torch.full((COUNT,), float(self.rank + self.step), device="cuda")
        every = [torch.empty_like(mine) for _ in range(self.ranks)]
        dist.all_gather(every, mine)
        for other, values in enumerate(every):
            self.expect(bool((values == other + self.step).all()), f"all_gather: values of rank {other}")

    def check(self) -> None:
        everyone = list(range(self.ranks))
        self.reduce(None, everyone)
        self.gather()
        self.reduce(self.node, next(node for node in self.nodes if self.rank in node))
        torch.cuda.synchronize()

    def pause(self) -> None:
        amem.pause()
        total = amem.stats()["total"]
        self.expect(total["released_bytes"] > 0, f"nothing was released: {total}")
        self.expect(total["resident_bytes"] == total["fixed_bytes"], f"memory stayed: {total}")

    def turn(self, number: int, paused: Any) -> None:
        """These ranks pause. If it is one, the others call it meanwhile."""
        name, everyone = f"turn{number}", list(range(self.ranks))
        torch.cuda.synchronize()
        self.meet(f"{name}.begin", self.ranks)
        if self.rank in paused:
            self.pause()
        self.meet(f"{name}.paused", self.ranks)
        if len(paused) == 1 and self.rank not in paused:
            self.store.add(f"{name}.calling", 1)
            self.reduce(None, everyone)
        elif self.rank in paused:
            if len(paused) == 1:
                self.wait_for(f"{name}.calling", self.ranks - 1)
                time.sleep(0.5)  # allow: the others are inside the call by then
            amem.resume()
            if len(paused) == 1:
                self.reduce(None, everyone)
        self.meet(f"{name}.resumed", self.ranks)
        self.check()


def main() -> None:
    rank = Rank()
    for _ in range(2):  # connects all
        rank.check()
    everyone = list(range(rank.ranks))
    turns = [everyone, *rank.nodes, *([member] for member in everyone)]
    for number, paused in enumerate(turns):
        rank.turn(number, paused)
    if rank.rank == 0:
        print(f"result: {len(rank.nodes)} nodes of {len(rank.nodes[0])}: pauses of {turns}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
