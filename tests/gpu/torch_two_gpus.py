# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Regions of one process on two GPUs: a pause of a tag frees memory on both, and peer access works after a resume."""

from typing import Any

import torch

import amem

MIB = 1 << 20
DEVICES = ("cuda:0", "cuda:1")


def expect(condition: Any, what: str) -> None:
    if not condition:
        raise SystemExit(f"wrong: {what}")


def free_bytes() -> list[Any]:
    for device in DEVICES:
        torch.cuda.synchronize(device)
    return [torch.cuda.mem_get_info(device)[0] for device in DEVICES]


class Job:
    def __init__(self) -> None:
        with amem.region("weights"):
            self.weights = [torch.randint(0, 2**31, (64 * MIB,), device=device) for device in DEVICES]
            with amem.region("kv_cache", backup=None):
                self.caches = [torch.zeros(64 * MIB, device=device) for device in DEVICES]
        self.sums = [int(each.sum()) for each in self.weights]
        self.addresses = [each.data_ptr() for each in self.weights + self.caches]

    def check(self) -> None:
        expect([int(each.sum()) for each in self.weights] == self.sums, "contents of the weights")
        expect([each.data_ptr() for each in self.weights + self.caches] == self.addresses, "addresses")
        # PyTorch enables peer access at the first copy between two GPUs.
        for device, cache in enumerate(self.caches):
            copied = cache.view(torch.int64)
            copied.copy_(self.weights[1 - device][: copied.numel()])
            same = torch.equal(copied.cpu(), self.weights[1 - device][: copied.numel()].cpu())
            expect(same, f"a copy to GPU {device} from GPU {1 - device}")

    def pause(self, tags: Any, sizes: Any) -> None:
        before = free_bytes()
        amem.pause(*tags)
        gains = [after - least for after, least in zip(free_bytes(), before)]
        expect(all(gain >= 0.99 * sizes for gain in gains), f"a pause of {tags} freed {gains}")


def main() -> None:
    job = Job()
    job.check()
    for _ in range(3):
        # Document 003: weights first, an update, then the cache.
        job.pause(("weights", "kv_cache"), (512 + 256) * MIB)
        amem.resume("weights")
        for weights in job.weights:
            weights.add_(1)
        job.sums = [int(each.sum()) for each in job.weights]
        amem.resume("kv_cache")
        job.check()
        job.pause(("kv_cache",), 256 * MIB)
        amem.resume()
        job.check()
    print("result: two GPUs, peer copies, 6 pauses")


main()
