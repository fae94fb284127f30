# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A training with PyTorch that knows nothing of amem, for two_jobs.sh: an MLP with Adam, on one GPU or with torchrun.

  train.py --losses FILE [--steps N] [--gib N] [--seed N]

Writes the loss of each step to the file, as exact hexadecimal numbers.
"""

import argparse
import os

import torch
import torch.distributed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--losses", required=True)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--gib", type=float, default=1, help="parameters, gradients and the state of Adam")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rank, ranks = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    torch.cuda.set_device(rank)
    torch.manual_seed(options.seed)
    width, parameters = 4096, options.gib * 2**30 / 16  # of 4 bytes: parameter, gradient, two moments
    with torch.device("cuda"):
        layers = [torch.nn.Linear(width, width) for _ in range(max(1, round(parameters / width**2)))]
    model: torch.nn.Module = torch.nn.Sequential(*(part for layer in layers for part in (layer, torch.nn.Tanh())))
    if ranks > 1:
        torch.distributed.init_process_group("nccl")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    torch.manual_seed(options.seed + 1 + rank)
    with open(f"{options.losses}.{rank}", "w", encoding="utf-8") as losses:
        for _ in range(options.steps):
            data = torch.randn(64, width, device="cuda")
            loss = (model(data) - data).square().mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            print(loss.item().hex(), file=losses, flush=True)
    if ranks > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
