# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A training of several ranks that knows nothing of amem.

  trainer.py KIND FOLDER STEPS

KIND: ddp, fsdp2, scaler (GradScaler, which skips steps), optimizers (two, of which one makes a step in every second iteration),
accumulation (a step in every third iteration). Writes to FOLDER, for each rank and iteration, what copies have brought to the GPU,
since kernels of the simulated GPU change nothing: the sums of the batch and of the weights. Then whether the weights are what they
were, and the steps of the optimizers.
"""

import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

WIDTH = 512


class SkippingScaler(torch.amp.GradScaler):
    """Finds infinite gradients in every third iteration: the kernel that looks for them does nothing on the simulated GPU."""

    iterations = 0

    def _unscale_grads_(self, *_: Any) -> dict[torch.device, torch.Tensor]:
        self.iterations += 1
        return {torch.device("cuda", torch.cuda.current_device()): torch.tensor(float(self.iterations % 3 == 0)).cuda()}

    def update(self, *_: Any) -> None:
        self._per_optimizer_states.clear()


class Training:
    def __init__(self, kind: str) -> None:
        torch.manual_seed(1)
        layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(4)]
        self.kind, self.scaler = kind, SkippingScaler() if kind == "scaler" else None
        self.expected = [parameter.detach().clone() for layer in layers for parameter in layer.parameters()]
        self.model: torch.nn.Module = torch.nn.Sequential(*layers).cuda()
        if kind == "fsdp2":
            for layer in self.model.children():
                fully_shard(layer)
            fully_shard(self.model)
        self.parameters = list(self.model.parameters())
        halves = [self.parameters[:2], self.parameters[2:]] if kind == "optimizers" else [self.parameters]
        self.optimizers = [torch.optim.AdamW(half) for half in halves]
        if kind != "fsdp2":
            self.model = DistributedDataParallel(self.model, init_sync=False)  # it would flatten them by a kernel

    def step(self, iteration: int) -> torch.Tensor:
        """Returns the batch."""
        data = torch.randn(8, WIDTH).cuda()
        loss = (self.model(data) - data).square().mean()
        if self.scaler is None:
            loss.backward()
        else:
            self.scaler.scale(loss).backward()
        for i, optimizer in enumerate(self.optimizers):
            if iteration % {"accumulation": 3, "optimizers": 1 + i}.get(self.kind, 1) != 0:
                continue
            if self.scaler is None:
                optimizer.step()
            else:
                self.scaler.step(optimizer)
                self.scaler.update()
            optimizer.zero_grad()
        loss.item()
        return data

    def shards(self) -> list[torch.Tensor]:
        return [each.to_local() if isinstance(each, DTensor) else each for each in self.parameters]

    def is_intact(self) -> bool:
        whole = [each.full_tensor() if isinstance(each, DTensor) else each for each in self.parameters]
        return all(torch.equal(each.detach().cpu(), expected) for each, expected in zip(whole, self.expected))

    def steps(self) -> list[int]:
        return [max((int(state["step"]) for state in each.state.values()), default=0) for each in self.optimizers]


def main() -> None:
    kind, folder, steps = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl")
    training = Training(kind)
    torch.manual_seed(2 + rank)
    with open(folder / f"losses.{rank}", "w", encoding="utf-8") as losses:
        for iteration in range(1, steps + 1):
            held = [training.step(iteration), *training.shards()]
            print(*(float(each.detach().cpu().double().sum()).hex() for each in held), file=losses, flush=True)
        print(training.is_intact(), training.steps(), file=losses)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
