# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Trainers with slime's own process groups, which it destroys and recreates around each sleep; with amem.slime they stay.

Losses and weights are the same to the last bit as without sleeps. Nothing of Megatron: this module makes the calls that
slime's MegatronTrainRayActor makes at its start, when it goes to sleep and when it wakes up.

amem run -- torchrun --nproc-per-node 2 tests/gpu/slime_groups.py
torchrun --nproc-per-node 2 tests/gpu/slime_groups.py --without-amem      slime alone, to compare
"""

import argparse
import os
import statistics
import sys
import time
import types
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from slime.utils import reloadable_process_group as slime_groups
from slime.utils.distributed_utils import get_gloo_group, init_gloo_group

from compared_training import digest, expect

GROUPS = 5  # as those of Megatron's tensor, pipeline, data, context and expert parallelism; one for each layer
WIDTH, BATCH = 1024, 64
STEPS = 6
LEAST_BYTES = 512 << 20


def begin(with_amem: bool) -> Any:
    """The actor that slime would have, after its init()."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    slime_groups.monkey_patch_torch_dist()
    dist.init_process_group("nccl")
    init_gloo_group()
    slime_groups.register_default_process_group(timeout=timedelta(minutes=2))
    actor: Any = types.ModuleType("slime.backends.megatron_utils.actor")
    actor.destroy_process_groups = slime_groups.destroy_process_groups
    actor.reload_process_groups = slime_groups.reload_process_groups
    sys.modules[actor.__name__] = actor
    if with_amem:
        import amem.slime

        amem.slime.init(None)
    return actor


class Training:
    """The gradients of each layer are added over the ranks in a group of its own."""

    def __init__(self, groups: Any) -> None:
        torch.manual_seed(1)
        self.groups = groups
        self.layers = [torch.nn.Linear(WIDTH, WIDTH).cuda() for _ in groups]
        self.weights = [weight for layer in self.layers for weight in layer.parameters()]
        self.optimizer = torch.optim.AdamW(self.weights, lr=1e-3)
        self.data = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(dist.get_rank())).cuda()

    def step(self) -> Any:
        found = self.data
        for layer in self.layers:
            found = torch.tanh(layer(found))
        loss = (found - self.data).square().mean()
        loss.backward()
        for layer, group in zip(self.layers, self.groups):
            for weight in layer.parameters():
                dist.all_reduce(weight.grad, group=group)
        self.optimizer.step()
        self.optimizer.zero_grad()
        total = loss.detach()
        dist.all_reduce(total)
        return total.item()


class Sleeps:
    def __init__(self, actor: Any) -> None:
        self.actor, self.freed, self.asleep_s, self.awake_s = actor, [], [], []

    def sleep_and_step(self, step: Any) -> Any:
        """The next step belongs to the wake-up: communicators come with their first call."""
        torch.cuda.synchronize()
        before, begin_s = torch.cuda.mem_get_info()[0], time.perf_counter()
        self.actor.destroy_process_groups()
        self.asleep_s.append(time.perf_counter() - begin_s)
        dist.barrier(group=get_gloo_group())
        self.freed.append(torch.cuda.mem_get_info()[0] - before)
        expect(self.freed[-1] > LEAST_BYTES, f"only {self.freed[-1]} bytes left the GPU")
        dist.barrier(group=get_gloo_group())
        begin_s = time.perf_counter()
        self.actor.reload_process_groups()
        loss = step()
        self.awake_s.append(time.perf_counter() - begin_s)
        return loss


def train(groups: Any, sleeps: Any = None) -> Any:
    training = Training(groups)
    losses = [training.step()]
    for _ in range(STEPS):
        losses.append(sleeps.sleep_and_step(training.step) if sleeps else training.step())
    return losses, digest(training.weights)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-amem", action="store_true")
    options = parser.parse_args()
    actor = begin(with_amem=not options.without_amem)
    groups = [dist.new_group(list(range(dist.get_world_size()))) for _ in range(GROUPS)]
    wanted = train(groups)
    expect(wanted[0][-1] < wanted[0][0], f"the model does not learn: {wanted[0]}")
    sleeps = Sleeps(actor)
    found = train(groups, sleeps)
    expect(found == wanted, f"losses {found[0]}, without sleeps {wanted[0]}")
    if not options.without_amem:
        expect(slime_groups.default_process_group_states[os.getpid()].generation == 0, "slime has destroyed its groups")
    if dist.get_rank() == 0:
        print(
            f"result: {STEPS} sleeps, {min(sleeps.freed) >> 20} MiB left each time, a sleep takes "
            f"{statistics.median(sleeps.asleep_s):.3f} s, a wake-up and the next step {statistics.median(sleeps.awake_s):.3f} s",
            flush=True,
        )
    dist.destroy_process_group()


main()
