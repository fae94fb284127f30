# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What amem.verl and amem.openrlhf do in the trainers. Where amem refuses, the job goes on with NCCL's memory on the GPU."""

import logging
from typing import Any

from .errors import AmemError
from .session import pause, resume_on_call, state


def release_nccl(ranks: Any, log: logging.Logger) -> None:
    """A collective call of these trainers, a process group with Gloo: rollouts may have GPUs of several of them."""
    try:
        report = pause("nccl", group=ranks)
    except AmemError as error:
        what = "A part of NCCL's memory" if state() == "paused" else "The memory of NCCL"
        log.warning("%s stays on the GPU: %s", what, error)
    else:
        log.info("amem released %.2f GiB of NCCL's memory.", report.released_bytes / 2**30)


def resume_nccl_on_call(log: logging.Logger) -> None:
    """From now on the next NCCL call of a trainer resumes NCCL's memory."""
    try:
        resume_on_call()
    except AmemError as error:
        log.warning("The memory of NCCL stays on the GPU: %s", error)
