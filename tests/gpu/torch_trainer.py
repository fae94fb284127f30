# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Trainers that only say when NCCL's memory may leave; their next NCCL call resumes it (amem.resume_on_call()).

amem run -- torchrun --nproc-per-node 2 tests/gpu/torch_trainer.py
"""

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from compared_training import expect
from releases import Releases
from torch_sleep import CapturedSum, digest, random_floats

STEPS = 6
WIDTH, LAYERS = 1024, 4
COUNT = 1 << 20  # floats of a tensor
LEAST_BYTES = 256 << 20  # of one communicator


class Trainer:
    def __init__(self, gloo_group: Any) -> None:
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.nccl = Releases(gloo_group, LEAST_BYTES)

    def losses(self, wrap: Any, releases: bool) -> Any:
        """Of training steps. With `releases` NCCL's memory leaves after each of them."""
        torch.manual_seed(1)
        layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(LAYERS)]
        model = wrap(nn.Sequential(*layers).cuda())
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        data = random_floats(64 * WIDTH, seed=self.rank).view(64, WIDTH)
        found = []
        for _ in range(STEPS):
            loss = (model(data) - data).square().mean()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
            optimizer.step()
            optimizer.zero_grad()
            found.append((loss.item(), norm.item()))
            self.nccl.expect_active("a training step")
            if releases:
                self.nccl.release()
        return found


def sharded(model: Any) -> Any:
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    return model


def replicated(model: Any) -> Any:
    return DistributedDataParallel(model, bucket_cap_mb=4)


def whole_numbers(seed: int) -> Any:
    """Their sum is exact in any order."""
    return (random_floats(COUNT, seed) * 1000).round()


class FirstCalls:
    """What a job may call first after a pause, each with its result."""

    def __init__(self, trainer: Any, captured: Any) -> None:
        rank, ranks = trainer.rank, trainer.ranks
        self.ranks, self.captured = ranks, captured
        self.peer, self.former = (rank + 1) % ranks, (rank - 1) % ranks
        self.own, self.of_peer = whole_numbers(rank), whole_numbers(self.peer)
        self.total = sum(whole_numbers(each) for each in range(ranks))
        self.replayed = captured.replay().clone()

    def all_reduce(self, group: Any = None) -> Any:
        data = self.own.clone()
        dist.all_reduce(data, group=group)
        return data

    def asynchronous(self) -> Any:
        data = self.own.clone()
        dist.all_reduce(data, async_op=True).wait()
        return data

    def in_other_stream(self) -> Any:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            data = self.all_reduce()
        torch.cuda.current_stream().wait_stream(stream)
        return data

    def sent(self) -> Any:
        data = torch.empty_like(self.own)
        calls = [dist.P2POp(dist.isend, self.own, self.former), dist.P2POp(dist.irecv, data, self.peer)]
        for work in dist.batch_isend_irecv(calls):
            work.wait()
        return data

    def gathered(self) -> Any:
        data = torch.empty(self.ranks * COUNT, device="cuda")
        dist.all_gather_into_tensor(data, self.own)
        return data.view(self.ranks, COUNT)[self.peer]

    def objects(self) -> Any:
        found = [None] * self.ranks
        dist.all_gather_object(found, self.own[:8].cpu())
        return found[self.peer].cuda()

    def in_new_group(self) -> Any:
        group = dist.new_group()
        data = self.all_reduce(group)
        dist.destroy_process_group(group)
        return data

    def after_barrier(self) -> Any:
        dist.barrier()
        return self.all_reduce()

    def all(self) -> Any:
        """Name, call, and the result as it must be."""
        return [
            ("all_reduce", self.all_reduce, self.total),
            ("asynchronous all_reduce", self.asynchronous, self.total),
            ("all_reduce in another stream", self.in_other_stream, self.total),
            ("send and receive", self.sent, self.of_peer),
            ("all_gather", self.gathered, self.of_peer),
            ("all_gather_object", self.objects, self.of_peer[:8]),
            ("all_reduce of a new group", self.in_new_group, self.total),
            ("barrier", self.after_barrier, self.total),
            ("replay of a captured all_reduce", self.captured.replay, self.replayed),
        ]


def main() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    trainer = Trainer(dist.new_group(backend="gloo"))
    for wrap in (sharded, replicated):
        without, with_releases = trainer.losses(wrap, False), trainer.losses(wrap, True)
        expect(without == with_releases, f"{wrap.__name__}: losses and norms {without}, with releases {with_releases}")
        expect(without[-1][0] < without[0][0], f"the model does not learn: {without}")
    captured = CapturedSum(dist.group.WORLD)
    checked = FirstCalls(trainer, captured).all()
    for name, call, wanted in checked:
        trainer.nccl.release()
        found = call()
        trainer.nccl.expect_active(name)
        expect(digest(found) == digest(wanted), name)
    print(
        f"result: {STEPS} losses of FSDP and DDP bit-exact, {len(checked)} first calls, "
        f"at least {trainer.nccl.least_freed >> 20} MiB left each time",
        flush=True,
    )
    captured.graph.reset()
    dist.destroy_process_group()


main()
