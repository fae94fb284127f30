# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""All memory of a process as torch_memory_saver's TMS_INIT_ENABLE has it: PyTorch's free blocks are neither copied nor
used while it is paused.

AMEM_TMS=1 TMS_INIT_ENABLE=1 TMS_INIT_ENABLE_CPU_BACKUP=1 python tests/gpu/torch_saver_process.py
"""

import site
from pathlib import Path

# As Python does for an installed package: runs the line of amem_tms.pth.
site.addsitedir(str(Path(__file__).resolve().parents[2] / "python"))

import torch
from torch_memory_saver import torch_memory_saver as saver

import amem

MIB = 1 << 20
SIZE = 64 * MIB  # of the weights
CACHED = 1024 * MIB


def expect(condition, what):
    if not condition:
        raise SystemExit(f"wrong: {what}")


def random_bytes(size):
    return torch.randint(0, 256, (size,), dtype=torch.uint8, device="cuda")


def main():
    weights = random_bytes(SIZE)
    copy = weights.cpu()
    for cycle in range(3):
        cached = random_bytes(CACHED)  # free, with contents
        halves = [random_bytes(CACHED), random_bytes(4 * MIB)]
        del cached, halves[0]
        torch.cuda.synchronize()
        saver.pause()
        totals = amem.stats()["tags"]["default"]
        expect(totals["released_bytes"] >= SIZE + CACHED, f"cycle {cycle}: {totals} after a pause")
        expect(totals["saved_bytes"] <= SIZE + 64 * MIB, f"cycle {cycle}: free blocks were copied: {totals}")
        during = torch.full((CACHED,), cycle, dtype=torch.uint8, device="cuda")
        expect(bool((during == cycle).all()), f"cycle {cycle}: memory that was allocated in a pause")
        saver.resume()
        expect(bool((during == cycle).all()), f"cycle {cycle}: the same after the resume")
        del during
        expect(torch.equal(weights.cpu(), copy), f"cycle {cycle}: weights after a resume")
        weights.add_(1)
        copy = weights.cpu()
    print("result: free blocks were neither copied nor used", flush=True)


if __name__ == "__main__":
    main()
