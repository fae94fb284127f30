# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""For slime: trainers pause NCCL's memory where slime destroys their process groups, and resume it where slime recreates them.

    python3 train.py --offload-train --custom-megatron-init-path amem.slime.init ...

slime calls init() in each trainer after Megatron's initialization. Process groups, communicators and connections stay valid over
MegatronTrainRayActor.sleep(), wake_up() and update_weights(). Where amem is off, or refuses a pause, slime destroys and
recreates them as before. Written for slime 624b824a8.
"""

import logging
import sys
from typing import Any, Callable

from .errors import AmemError
from .session import enabled, pause, resume

_LOG = logging.getLogger("amem.slime")


class _Groups:
    """In place of slime's two functions, which are collective calls of the trainers."""

    def __init__(self, destroy: Callable[[], None], recreate: Callable[[], None]) -> None:
        self._destroy, self._recreate = destroy, recreate
        self._are_destroyed = False

    def pause(self) -> None:
        from slime.utils.distributed_utils import get_gloo_group

        try:
            report = pause("nccl", group=get_gloo_group())
        except AmemError as error:  # on all trainers
            _LOG.warning("slime destroys the process groups of its trainers: %s", error)
            resume("nccl")
            self._destroy()
            self._are_destroyed = True
        else:
            _LOG.info("amem released %.2f GiB of NCCL's memory.", report.released_bytes / 2**30)

    def resume(self) -> None:
        if self._are_destroyed:
            self._recreate()
            self._are_destroyed = False
        else:
            resume("nccl")


def init(args: Any) -> None:
    """In a trainer, before its first sleep (--custom-megatron-init-path). A function of your own there can call this one."""
    if not enabled():
        _LOG.warning("amem is off: slime destroys the process groups of its trainers and recreates them.")
        return
    actor = sys.modules["slime.backends.megatron_utils.actor"]
    groups = _Groups(actor.destroy_process_groups, actor.reload_process_groups)
    actor.destroy_process_groups, actor.reload_process_groups = groups.pause, groups.resume
