# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A job that knows nothing of amem: prints a digest of what each collective gives.

torchrun --nproc-per-node 2 tests/gpu/torch_results.py
"""

import hashlib
import os

import torch
import torch.distributed as dist

COUNTS = (1, 1000, 1 << 20)
TYPES = (torch.float32, torch.bfloat16, torch.int64)


def results(data: torch.Tensor, rank: int, ranks: int) -> dict[str, torch.Tensor]:
    """What this rank has after each collective on `data`, whose size all ranks share."""
    everything = torch.cat([data] * ranks)
    summed, sent = data.clone(), data.clone()
    gathered, scattered, exchanged = torch.empty_like(everything), torch.empty_like(data), torch.empty_like(everything)
    dist.all_reduce(summed)
    dist.broadcast(sent, src=ranks - 1)
    dist.all_gather_into_tensor(gathered, data)
    dist.reduce_scatter_tensor(scattered, everything)
    dist.all_to_all_single(exchanged, everything + rank)
    names = ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all")
    return dict(zip(names, (summed, sent, gathered, scattered, exchanged)))


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    lines = []
    for kind in TYPES:
        for count in COUNTS:
            data = (torch.arange(count, device="cuda") % 13 + rank).to(kind)
            for name, tensor in results(data, rank, ranks).items():
                digest = hashlib.sha256(tensor.cpu().view(torch.uint8).numpy().tobytes()).hexdigest()
                lines.append(f"{name} {kind} {count} rank {rank} {digest}")
    everybody: list[list[str]] = [[]] * ranks
    dist.all_gather_object(everybody, lines)
    if rank == 0:
        print("\n".join(line for one in everybody for line in one), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
