# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What amem.verl, amem.openrlhf and amem.slime do in the trainers."""

import contextlib
import logging
from typing import Any

from .errors import AmemError
from .session import pause, resume_on_call, state


def has_all(log: logging.Logger, framework: str, owner: Any, *names: str) -> bool:
    """Whether a module or class of the framework has these functions. If not, this version of it is not known: a warning, and
    amem leaves it alone."""
    missing = [name for name in names if not callable(getattr(owner, name, None))]
    if missing:
        where = getattr(owner, "__name__", "module")
        log.warning("The memory of NCCL stays on the GPU: the %s of this %s has no %s.", where, framework, ", ".join(missing))
    return not missing


def release_nccl(group: Any, log: logging.Logger) -> None:
    """Pauses NCCL's memory on all trainers: rollouts may have GPUs of several of them. The next NCCL call of a
    trainer resumes it. If amem refuses, the job goes on.

    A collective call. `group`: a process group of the trainers with Gloo.
    """
    with contextlib.suppress(AmemError):  # the pause says why
        resume_on_call()
    try:
        report = pause("nccl", group=group)
    except AmemError as error:
        what = "A part of the trainers' NCCL memory" if state() == "paused" else "The memory of NCCL"
        log.warning("%s stays on the GPU: %s", what, error)
    else:
        log.info("amem released %.2f GiB of NCCL's memory.", report.released_bytes / 2**30)
