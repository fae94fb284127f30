# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""For OpenRLHF: trainers that share GPUs with rollouts release the memory of NCCL while the rollouts generate.

    ray job submit --runtime-env-json='{"worker_process_setup_hook": "amem.openrlhf.install", "env_vars": ...}' \
        -- python3 -m openrlhf.cli.train_ppo_ray --train.colocate_all ...

OpenRLHF has no option that names a module. Ray calls install() in each of its workers; it changes the trainer of the policy
when OpenRLHF is imported there. NCCL's memory is paused when the trainer is loaded, and after each update of the rollouts'
weights. Its next NCCL call, in the forward pass or in a checkpoint, resumes it (amem.resume_on_call()). Written for OpenRLHF
0.10.4 to 0.11.2; another OpenRLHF is left alone, with a warning.
"""

import importlib.machinery
import logging
import sys
from types import ModuleType
from typing import Any, Optional, Sequence

from .trainers import call_after, has_all, release

_LOG = logging.getLogger("amem.openrlhf")
_MODULE = "openrlhf.trainer.ray.ppo_actor"


def _shares_gpus(trainer: Any) -> bool:
    """Otherwise rollouts and trainer work at the same time, and on other GPUs."""
    options = trainer.args.train
    return bool(options.colocate_all and not options.async_enable and trainer.vllm_engines is not None)


def _release_when_loaded(trainer: Any, *_: Any) -> None:
    """Once, when the trainer is loaded. A collective call of the trainers."""
    import torch.distributed

    trainer.amem_group = None
    try:
        if _shares_gpus(trainer):
            trainer.amem_group = torch.distributed.new_group(backend="gloo")
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        _LOG.warning("The memory of NCCL stays on the GPU: %s", error)
    _release(trainer)


def _release(trainer: Any, *_: Any) -> None:
    if getattr(trainer, "amem_group", None) is not None:
        release(_LOG, "nccl", group=trainer.amem_group)


def _change_trainer(module: Any) -> None:
    trainer: Any = getattr(module, "ActorPPOTrainer", None)
    if not has_all(_LOG, "OpenRLHF", module, "ActorPPOTrainer") or not has_all(_LOG, "OpenRLHF", trainer, "broadcast_to_vllm"):
        return
    call_after(trainer, "__init__", _release_when_loaded)
    call_after(trainer, "broadcast_to_vllm", _release)


class _Finder:
    """Changes the trainer when its module is imported."""

    @staticmethod
    def find_spec(
        name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if name != _MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        call_after(spec.loader, "exec_module", _change_trainer)
        return spec


def install() -> None:
    """In each worker of Ray, before it makes a trainer (Ray's worker_process_setup_hook)."""
    if _MODULE in sys.modules:
        _change_trainer(sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, _Finder)
