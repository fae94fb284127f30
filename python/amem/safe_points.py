# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Where `amem pause` can pause this process."""

import json
from typing import Any, Callable

from . import remaking, torch_cache
from .calls import value_of
from .library import find_library, require_library


def _count_first() -> int:
    """The first call; later calls are those of the library."""
    global _count
    library = find_library()
    if library is None:
        return 0
    function: Callable[[], int] = library.amemSafePoint
    _count = function
    return function()


_count: Callable[[], int] = _count_first


def safe_point() -> None:
    """The process is at a safe point: until the call returns, none of its threads uses GPU memory with a tag.

    Every process of a job calls it equally often, for example once in each step after the collectives of the step. Where
    `amem pause` was called for the job, all of its processes wait in the same call until `amem resume`: their memory leaves the
    GPUs and comes back. Contents that are not kept are gone, as after pause(), and functions of on_resume() make them again.
    Always in the same thread. PyTorch's cache is emptied before. Signals are handled after the wait. Otherwise the call takes
    less than 200 ns. Without amem it does nothing. `amem run --safe-point optimizer` calls it after each step of an optimizer
    of PyTorch.
    """
    if _count():
        _wait()


def _wait() -> None:
    torch_cache.empty_cache()
    if value_of("amemWaitAtSafePoint"):
        paused = json.loads(require_library().amemGetStatus())["remote"]["tags"]
        remaking.note_paused(paused)
        remaking.remake(paused)


def after_optimizer_steps() -> None:
    """From now on, each step of an optimizer of PyTorch is followed by a safe point. Raises ImportError without PyTorch."""
    import torch.cuda
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def hook(*_: Any) -> None:
        if not torch.cuda.is_current_stream_capturing():
            safe_point()

    register_optimizer_step_post_hook(hook)
