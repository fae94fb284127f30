# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""All memory of a process as torch_memory_saver's TMS_INIT_ENABLE has it: memory of disable() is used while it is paused,
and memory that empty_cache() has returned is not copied.

AMEM_TMS=1 TMS_INIT_ENABLE=1 TMS_INIT_ENABLE_CPU_BACKUP=1 python tests/gpu/torch_saver_init.py
"""

import site
from pathlib import Path
from typing import Any

# As Python does for an installed package: runs the line of amem_tms.pth.
site.addsitedir(str(Path(__file__).resolve().parents[2] / "python"))

import torch
from torch_memory_saver import torch_memory_saver as saver

import amem

MIB = 1 << 20
SIZE = 64 * MIB  # of the weights
CACHED = 1024 * MIB


def expect(condition: Any, what: str) -> None:
    if not condition:
        raise SystemExit(f"wrong: {what}")


def random_bytes(size: int) -> Any:
    return torch.randint(0, 256, (size,), dtype=torch.uint8, device="cuda")


def freed_after_work_of_another_stream() -> None:
    """A block that is not free before that work has ended."""
    tensor, other = random_bytes(CACHED // 2), torch.cuda.Stream()
    with torch.cuda.stream(other):
        torch.cuda._sleep(100_000_000)
        tensor.add_(1)
    tensor.record_stream(other)


def main() -> None:
    weights = random_bytes(SIZE)
    copy = weights.cpu()
    for cycle in range(3):
        cached = random_bytes(CACHED)  # free during the pause, with contents
        pair = [random_bytes(6 * MIB), random_bytes(6 * MIB)]  # in one segment, of which a half is free
        del cached, pair[0]
        freed_after_work_of_another_stream()
        torch.cuda.empty_cache()
        saver.pause()
        totals = amem.stats()["tags"]["default"]
        expect(totals["released_bytes"] >= SIZE and totals["resident_bytes"] == 0, f"cycle {cycle}: {totals} after a pause")
        expect(totals["saved_bytes"] <= SIZE + 64 * MIB, f"cycle {cycle}: free blocks were copied: {totals}")
        with saver.disable():
            during = [torch.full((size,), cycle, dtype=torch.uint8, device="cuda") for size in (CACHED, CACHED // 2, 6 * MIB)]
            expect(all(bool((one == cycle).all()) for one in during), f"cycle {cycle}: memory that was allocated in a pause")
        saver.resume()
        expect(all(bool((one == cycle).all()) for one in during), f"cycle {cycle}: the same after the resume")
        del during
        expect(torch.equal(weights.cpu(), copy), f"cycle {cycle}: weights after a resume")
        weights.add_(1)
        copy = weights.cpu()
    print("result: memory of disable() is used in a pause, and freed memory is not copied", flush=True)


if __name__ == "__main__":
    main()
