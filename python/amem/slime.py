# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""For slime: trainers pause NCCL's memory where slime destroys their process groups, and resume it where slime recreates them.

    python3 train.py --offload-train --custom-megatron-init-path amem.slime.init ...

slime calls init() in each trainer after Megatron's initialization. Process groups, communicators and connections stay valid over
MegatronTrainRayActor.sleep(), wake_up() and update_weights(). Where amem is off, or refuses a pause, slime destroys and
recreates them as before. Written for slime 624b824a8; another slime is left alone, with a warning.
"""

import contextlib
import importlib
import logging
import sys
from typing import Any, Callable

from .errors import AmemError
from .session import enabled, pause, resume
from .trainers import has_all

_LOG = logging.getLogger("amem.slime")


class _Groups:
    """In place of slime's two functions, which are collective calls of the trainers."""

    def __init__(self, destroy: Callable[..., None], recreate: Callable[..., None], get_gloo_group: Callable[[], Any]) -> None:
        self._destroy, self._recreate, self._get_gloo_group = destroy, recreate, get_gloo_group
        self._are_destroyed = False

    def pause(self, *arguments: Any, **named: Any) -> None:
        try:
            report = pause("nccl", group=self._get_gloo_group())
        except AmemError as error:  # on all trainers
            _LOG.warning("slime destroys the process groups of its trainers: %s", error)
            resume("nccl")
            self._destroy(*arguments, **named)
            self._are_destroyed = True
        else:
            _LOG.info("amem released %.2f GiB of NCCL's memory.", report.released_bytes / 2**30)

    def resume(self, *arguments: Any, **named: Any) -> None:
        if self._are_destroyed:
            self._recreate(*arguments, **named)
            self._are_destroyed = False
        else:
            resume("nccl")


def init(args: Any) -> None:
    """In a trainer, before its first sleep (--custom-megatron-init-path). A function of your own there can call this one."""
    if not enabled():
        _LOG.warning("amem is off: slime destroys the process groups of its trainers and recreates them.")
        return
    actor: Any = sys.modules.get("slime.backends.megatron_utils.actor")
    utilities: Any = None
    with contextlib.suppress(ImportError):
        utilities = importlib.import_module("slime.utils.distributed_utils")
    names = "destroy_process_groups", "reload_process_groups"
    if not has_all(_LOG, "slime", actor, *names) or not has_all(_LOG, "slime", utilities, "get_gloo_group"):
        return
    groups = _Groups(actor.destroy_process_groups, actor.reload_process_groups, utilities.get_gloo_group)
    actor.destroy_process_groups, actor.reload_process_groups = groups.pause, groups.resume
