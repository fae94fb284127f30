# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""For OpenRLHF: trainers that share GPUs with rollouts release the memory of NCCL while the rollouts generate.

    ray job submit --runtime-env-json='{"worker_process_setup_hook": "amem.openrlhf.install", "env_vars": ...}' \
        -- python3 -m openrlhf.cli.train_ppo_ray --train.colocate_all ...

OpenRLHF has no option that names a module. Ray calls install() in each of its workers; it changes the trainer of the policy when
OpenRLHF is imported there. NCCL's memory is paused when the trainer is loaded, and after each update of the rollouts' weights: its
last NCCL calls before the rollouts generate. Its next NCCL call, in the forward pass, resumes it (amem.resume_on_call()). Written for
OpenRLHF 0.10.4 to 0.11.2.
"""

import functools
import importlib.machinery
import logging
import sys
from typing import Any

from .trainers import release_nccl, resume_nccl_on_call

_LOG = logging.getLogger("amem.openrlhf")
_MODULE = "openrlhf.trainer.ray.ppo_actor"


def _shares_gpus(trainer: Any) -> bool:
    """Otherwise rollouts and trainer work at the same time, and on other GPUs."""
    options = trainer.args.train
    return options.colocate_all and not options.async_enable and trainer.vllm_engines is not None


def _change(trainer: type) -> None:
    init, broadcast_to_vllm = trainer.__init__, trainer.broadcast_to_vllm

    @functools.wraps(init)
    def init_and_release(self, *arguments, **named):
        init(self, *arguments, **named)
        if _shares_gpus(self):
            import torch.distributed

            self.amem_ranks = torch.distributed.new_group(backend="gloo")
            resume_nccl_on_call(_LOG)
            release_nccl(self.amem_ranks, _LOG)

    @functools.wraps(broadcast_to_vllm)
    def broadcast_and_release(self):
        broadcast_to_vllm(self)
        if _shares_gpus(self):
            release_nccl(self.amem_ranks, _LOG)

    trainer.__init__, trainer.broadcast_to_vllm = init_and_release, broadcast_and_release


class _Finder:
    """Changes the trainer when its module is imported."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != _MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def execute_and_change(module):
            execute(module)
            _change(module.ActorPPOTrainer)

        spec.loader.exec_module = execute_and_change
        return spec


def install() -> None:
    """In each worker of Ray, before OpenRLHF is imported (Ray's worker_process_setup_hook)."""
    if _MODULE in sys.modules:
        _change(sys.modules[_MODULE].ActorPPOTrainer)
    else:
        sys.meta_path.insert(0, _Finder)
