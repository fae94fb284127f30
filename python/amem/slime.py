# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""For slime: trainers pause NCCL's memory where slime destroys their process groups, and resume it where slime recreates them.

    python3 train.py --offload-train --custom-megatron-init-path amem.slime.init ...

slime calls init() in each trainer after Megatron's initialization. Process groups, communicators and connections stay valid over
MegatronTrainRayActor.sleep(), wake_up() and update_weights(). Where amem is off, slime destroys and recreates them as before.
Written for slime 624b824a8.
"""

import logging
import sys
from typing import Any

from .session import enabled, resume
from .trainers import release_nccl, resume_nccl_on_call

_LOG = logging.getLogger("amem.slime")


def _pause() -> None:
    """In place of destroy_process_groups(), which is a collective call of the trainers too."""
    from slime.utils.distributed_utils import get_gloo_group

    release_nccl(get_gloo_group(), _LOG)


def _resume() -> None:
    """In place of reload_process_groups(). Calls of other trainers wait until this one has resumed."""
    resume("nccl")


def init(args: Any) -> None:
    """In a trainer, before its first sleep (--custom-megatron-init-path). A function of your own there can call this one."""
    if not enabled():
        _LOG.warning("amem is off: slime destroys the process groups of its trainers and recreates them.")
        return
    resume_nccl_on_call(_LOG)
    actor = sys.modules["slime.backends.megatron_utils.actor"]
    actor.destroy_process_groups, actor.reload_process_groups = _pause, _resume
