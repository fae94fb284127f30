# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Pauses of trainers that only say when NCCL's memory may leave; their next NCCL call resumes it."""

from typing import Any

import torch
import torch.distributed as dist

import amem
from compared_training import expect


class Releases:
    def __init__(self, gloo_group: Any, least_bytes: int) -> None:
        """`gloo_group`: a group of Gloo with all ranks. `least_bytes`: what each pause must release."""
        self.gloo_group, self.least_bytes = gloo_group, least_bytes
        self.least_freed, self.count = 0, 0
        amem.resume_on_call()

    def meet(self) -> None:
        dist.barrier(group=self.gloo_group)

    def release(self) -> None:
        """NCCL's memory leaves, and half as much of other memory is written while it is away."""
        torch.cuda.empty_cache()
        self.meet()
        before, _ = torch.cuda.mem_get_info()
        report = amem.pause("nccl", group=self.gloo_group)
        freed = torch.cuda.mem_get_info()[0] - before
        expect(amem.state("nccl") == "paused", "NCCL's memory did not leave")
        expect(report.released_bytes > self.least_bytes, f"only {report.released_bytes} bytes were released")
        expect(freed >= report.released_bytes // 2, f"{freed} bytes are free, {report.released_bytes} were released")
        self.least_freed, self.count = min(freed, self.least_freed or freed), self.count + 1
        torch.full((freed // 2,), 0xA5, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        self.meet()

    def expect_active(self, what: str) -> None:
        expect(amem.state("nccl") == "active", f"{what} left NCCL's memory away")
