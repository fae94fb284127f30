# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Where `amem pause` can pause this process."""

from typing import Any, Callable

from . import remaking, torch_cache
from .calls import value_of
from .library import find_library

_SLICE_MS = 100  # of a wait, so that Python handles signals
_AGAIN, _WAS_PAUSED = 1, 2


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
    """The process is at a safe point: none of its threads uses GPU memory with a tag, or starts work that does, until the call
    returns.

    Every process of a job calls it equally often, for example once in each step after the collectives of the step. Where
    `amem pause` was called for the job, all of its processes wait in the same call, until `amem resume`: their memory leaves the
    GPUs and comes back with its contents, or the functions of on_resume() make these again. PyTorch's cache is emptied before.
    Otherwise the call takes less than 200 ns. Without amem it does nothing. `amem run --safe-point optimizer` calls it after each
    step of an optimizer of PyTorch.
    """
    if _count():
        _wait()


def _wait() -> None:
    torch_cache.empty_cache()
    outcome = _AGAIN
    while outcome == _AGAIN:
        outcome = value_of("amemWaitAtSafePoint", _SLICE_MS)
    if outcome == _WAS_PAUSED:
        remaking.note_paused(all_tags=True)
        remaking.remake(())


def after_optimizer_steps() -> None:
    """From now on, each step of an optimizer of PyTorch is followed by a safe point. Raises ImportError without PyTorch."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def hook(*_: Any) -> None:
        safe_point()

    register_optimizer_step_post_hook(hook)
