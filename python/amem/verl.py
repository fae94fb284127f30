# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""For verl: trainers that share GPUs with rollouts release the memory of NCCL while the rollouts generate.

    AMEM_RESUME_ON_CALL=1 amem run python3 -m verl.trainer.main_ppo ... actor_rollout_ref.model.external_lib=amem.verl

verl imports this module in each worker, when the worker begins to load its model (HFModelConfig.__post_init__). From then on
the worker pauses NCCL's memory when the model is loaded, so that a rollout that starts then can plan with it, and after
each update of weights, before rollouts get their KV cache back. Its next NCCL call resumes it. Written for verl 0.8.0 to 0.9.1.
"""

import asyncio
import functools
import logging
import os
import sys

from .errors import AmemError
from .session import pause

_LOG = logging.getLogger("amem.verl")


def _release() -> None:
    try:
        report = pause("nccl")
    except AmemError as error:
        _LOG.warning("The memory of NCCL stays on the GPU: %s", error)
    else:
        _LOG.info("amem released %.2f GiB of NCCL's memory.", report.released_bytes / 2**30)


def _release_on_all() -> None:
    """A rollout may have GPUs of several trainers: it gets its KV cache back when all of them have released."""
    import torch
    import torch.distributed

    _release()
    torch.distributed.all_reduce(torch.zeros(1))  # by gloo: verl's process groups have it for tensors of the CPU


def _release_before_kv_cache(update_weights):
    @functools.wraps(update_weights)
    async def with_release(self, *arguments, **named):
        resume = self.rollout.resume

        async def resume_rollout(tags):
            if "kv_cache" in tags:
                await asyncio.to_thread(_release_on_all)
            await resume(tags=tags)

        self.rollout.resume = resume_rollout
        try:
            return await update_weights(self, *arguments, **named)
        finally:
            self.rollout.resume = resume

    return with_release


def _release_after_the_first_call(of, name) -> None:
    real = getattr(of, name)

    @functools.wraps(real)
    def once(*arguments, **named):
        setattr(of, name, real)
        real(*arguments, **named)
        _release()

    setattr(of, name, once)


def _install() -> None:
    if os.environ.get("AMEM_RESUME_ON_CALL") != "1":
        raise AmemError("amem.verl needs AMEM_RESUME_ON_CALL=1 in the environment of all workers: trainers do not resume")
    workers = sys.modules.get("verl.workers.engine_workers")
    if workers is None:
        return  # a process without trainers, such as a rollout's server
    worker = workers.ActorRolloutRefWorker
    worker.update_weights = _release_before_kv_cache(worker.update_weights)
    # The worker calls it at the end of init_model(), which is running now.
    _release_after_the_first_call(workers, "aggressive_empty_cache")


_install()
