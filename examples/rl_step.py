# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""One step of reinforcement learning on two GPUs that trainers and rollout share.

  amem run -- python3 examples/rl_step.py

            GPU 0         GPU 1
  trainers  t0 = rank 0   t1 = rank 1   a communicator of their own: [0, 1]
  rollout   r0 = rank 2   r1 = rank 3   a communicator of their own: [2, 3]

Weights go over two more communicators, [t0, r1] and [t1, r0]: NCCL refuses one that has two ranks
on the same GPU (unless NCCL_MULTI_RANK_GPU_ENABLE=1, from 2.30.3 on). While one side is paused the
other works without a break, although both are members of the weight communicators. Exit code 0 only
when every value was right.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import time
from datetime import timedelta
from typing import Any, List

import torch
import torch.distributed as dist

import amem

TRAINERS, ROLLOUT = (0, 1), (2, 3)
JOINT = ((0, 3), (1, 2))  # trainer and rollout rank; the trainer sends
WORLD = 4
COUNT = 1 << 22  # floats of a tensor
STEPS_WHILE_PAUSED, STEPS_WHILE_RESUMING = 100, 50
TIMEOUT_S, JOB_TIMEOUT_S = 120, 600


class Actor:
    """One of the four processes."""

    def __init__(self, rank: int, port: int) -> None:
        self.rank = rank
        self.ranks = TRAINERS if rank in TRAINERS else ROLLOUT
        torch.cuda.set_device(rank % 2)
        limit = timedelta(seconds=TIMEOUT_S)
        self.store = dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False, timeout=limit)
        # The default group is the controller's: barriers on the CPU, whoever is paused.
        dist.init_process_group("gloo", store=self.store, rank=rank, world_size=WORLD, timeout=limit)
        # Every process takes part in making every group, in the same order.
        groups = {ranks: dist.new_group(ranks, backend="nccl", timeout=limit) for ranks in (TRAINERS, ROLLOUT) + JOINT}
        self.own = groups[self.ranks]
        self.joint_ranks = next(ranks for ranks in JOINT if rank in ranks)
        self.joint = groups[self.joint_ranks]
        self.memory = []

    def expect(self, tensor: Any, value: float, what: str) -> None:
        if not bool((tensor == value).all()):
            raise RuntimeError(f"rank {self.rank}: {what}: expected {value}, found {tensor.unique()[:8].tolist()}")

    def work(self, stop: bool = False) -> bool:
        """One all_reduce of this side; returns whether its first rank wanted to stop."""
        data = torch.full((COUNT,), float(self.rank + 1), device="cuda")
        data[0] = float(stop)
        dist.all_reduce(data, group=self.own)
        self.expect(data[1:], float(sum(rank + 1 for rank in self.ranks)), "all_reduce")
        return bool(data[0].item())

    def work_until_paused(self, name: str) -> int:
        """Works from before the others pause until long after; returns the number of steps."""
        steps, left = 0, STEPS_WHILE_PAUSED
        while True:
            leads = self.rank == self.ranks[0]
            if leads and self.store.add(name, 0) == len(self.ranks):
                left -= 1
            steps += 1
            if self.work(stop=leads and left == 0):
                return steps

    def send_weights(self, value: float) -> None:
        """The trainers' weights, which are all `value`, over the joint communicators."""
        trainer = self.joint_ranks[0]
        weights = torch.full((COUNT,), value if self.rank == trainer else -1.0, device="cuda")
        dist.broadcast(weights, src=trainer, group=self.joint)
        self.expect(weights, value, "weights")

    def end_phase(self, name: str, note: str = "") -> None:
        """Waits for everybody and writes down the memory in use on both GPUs."""
        dist.barrier()
        free, total = torch.cuda.mem_get_info()
        mine = {"state": amem.state(), "used": total - free, "note": note}
        everybody = [mine] * WORLD
        dist.all_gather_object(everybody, mine)
        notes = sorted({one["note"] for one in everybody if one["note"]})
        self.memory.append((name, [one["used"] for one in everybody[:2]], [one["state"] for one in everybody]))
        if self.rank == 0:
            print(f"{name}: {'; '.join(notes) or 'every value right'}", flush=True)

    def one_side_works(self, name: str, sleepers: Any) -> None:
        """`sleepers` pause while the other side works, and come back while it still works."""
        if self.rank in sleepers:
            amem.pause()
            self.store.add(name, 1)
            self.end_phase(name)
            amem.resume()
        else:
            steps = self.work_until_paused(name)
            self.end_phase(name, f"{steps} all_reduces without a break, {STEPS_WHILE_PAUSED} of them while all slept")
            for _ in range(STEPS_WHILE_RESUMING):
                self.work()

    def connect(self, weights: float) -> None:
        """Uses every communicator of this process."""
        self.work()
        self.send_weights(weights)

    def run(self) -> None:
        self.connect(1.0)
        self.end_phase("all active")
        self.one_side_works("rollout works, trainers paused", TRAINERS)
        self.send_weights(2.0)
        self.end_phase("weights to rollout")
        self.one_side_works("trainers train, rollout paused", ROLLOUT)
        self.connect(3.0)
        self.end_phase("all active again")
        if self.rank == 0:
            self.print_table()
        dist.barrier()
        dist.destroy_process_group()

    def print_table(self) -> None:
        print(f"\n{'phase':32} {'GPU 0 MiB':>10} {'GPU 1 MiB':>10}  t0, t1, r0, r1")
        for name, used, states in self.memory:
            print(f"{name:32} {used[0] / 2**20:10.0f} {used[1] / 2**20:10.0f}  {', '.join(states)}", flush=True)


def start(rank: int, port: int) -> Any:
    """A process of its own, not a fork: CUDA does not survive one."""
    variables = dict(os.environ, AMEM_GROUP="train" if rank in TRAINERS else "rollout")
    variables.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all on this host
    command = [sys.executable, os.path.abspath(__file__), "--rank", str(rank), "--port", str(port)]
    return subprocess.Popen(command, env=variables)


def wait_for(children: "List[subprocess.Popen[bytes]]") -> int:
    """The first exit code that is not 0, or 0; one failure or the time ends all."""
    deadline = time.monotonic() + JOB_TIMEOUT_S
    try:
        while True:
            codes = [child.poll() for child in children]
            failed = [code for code in codes if code not in (None, 0)]
            if failed or None not in codes:
                return failed[0] if failed else 0
            if time.monotonic() > deadline:
                print(f"not done after {JOB_TIMEOUT_S} s", flush=True)
                return 1
            with contextlib.suppress(subprocess.TimeoutExpired):
                children[codes.index(None)].wait(0.2)
    finally:
        for child in children:
            child.kill()
            child.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank is not None:
        Actor(arguments.rank, arguments.port).run()
        return 0
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    code = wait_for([start(rank, store.port) for rank in range(WORLD)])
    print("ok" if code == 0 else f"failed: a process ended with {code}", flush=True)
    return 0 if code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
