# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What amem.verl, amem.openrlhf and amem.slime do in the trainers, and amem.vllm_backend in rollouts."""

import contextlib
import functools
import logging
from typing import Any, Callable

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


def call_after(owner: Any, name: str, function: Callable[..., object]) -> None:
    """From now on, calls of this function of the framework are followed by function(), with their positional arguments."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def with_call(*arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        function(*arguments)
        return result

    setattr(owner, name, with_call)


def release(log: logging.Logger, *tags: str, group: Any = None) -> None:
    """Pauses NCCL's memory, and that with other tags. The next NCCL call resumes NCCL's. If amem refuses, the job goes on.

    `group`: a process group with Gloo, for a collective call: rollouts may have GPUs of several trainers.
    """
    with contextlib.suppress(AmemError):  # the pause says why
        resume_on_call()
    try:
        report = pause(*tags, group=group)
    except AmemError as error:
        # A pause that cannot restore what it has released leaves its tags paused.
        what = "A part of NCCL's memory" if any(state(tag) == "paused" for tag in tags) else "The memory of NCCL"
        log.warning("%s stays on the GPU: %s", what, error)
    else:
        log.info("amem released %.2f GiB of %s.", report.released_bytes / 2**30, " and ".join(tags))
