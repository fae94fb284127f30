# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""For verl: trainers that share GPUs with rollouts release the memory of NCCL while the rollouts generate.

    AMEM_TMS=weights amem run python3 -m verl.trainer.main_ppo ... actor_rollout_ref.model.external_lib=amem.verl

A worker of verl imports this module when it begins to load its model (HFModelConfig.__post_init__), as do other processes
of verl, where it has no effect. If the worker has a rollout, it pauses NCCL's memory when its models are loaded, so that
the rollout's engine, which starts then, can plan with that memory, and in each update of weights, before rollouts get their
KV cache back. Its next NCCL call resumes it (amem.resume_on_call()). Written for verl 0.8.0 to 0.9.1; another verl is left
alone, with a warning.
"""

import asyncio
import functools
import inspect
import logging
import sys
from typing import Any, Callable

from .trainers import call_after, has_all, release

_LOG = logging.getLogger("amem.verl")


def _release() -> None:
    import torch.distributed

    release(_LOG, "nccl", group=torch.distributed.group.WORLD)  # which has Gloo for tensors of the CPU


def _release_before_kv_cache(update_weights: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(update_weights)
    async def with_release(self: Any, *arguments: Any, **named: Any) -> Any:
        rollout: Any = getattr(self, "rollout", None)  # None: it runs elsewhere
        resume = getattr(rollout, "resume", None)
        if not inspect.iscoroutinefunction(resume):
            return await update_weights(self, *arguments, **named)

        async def resume_rollout(*of_resume: Any, **named_of_resume: Any) -> Any:
            tags = named_of_resume.get("tags", of_resume[0] if of_resume else None)
            if tags is None or "kv_cache" in str(tags):
                await asyncio.to_thread(_release)
            return await resume(*of_resume, **named_of_resume)

        try:
            rollout.resume = resume_rollout
        except (AttributeError, TypeError) as error:
            _LOG.warning("The memory of NCCL stays on the GPU: the rollout of this verl cannot be changed: %s", error)
            return await update_weights(self, *arguments, **named)
        try:
            return await update_weights(self, *arguments, **named)
        finally:
            vars(rollout).pop("resume", None)

    return with_release


def _release_when_loaded(workers: Any) -> None:
    """init_model() gets the class of its rollout, if it has one, and ends with aggressive_empty_cache()."""
    empty_cache = workers.aggressive_empty_cache

    def release_once(*_: Any) -> None:
        workers.aggressive_empty_cache = empty_cache
        _release()

    def release_after_loading(*_: Any) -> None:
        workers.aggressive_empty_cache = empty_cache
        call_after(workers, "aggressive_empty_cache", release_once)

    call_after(workers, "get_rollout_class", release_after_loading)


def _install() -> None:
    workers = sys.modules.get("verl.workers.engine_workers")
    if workers is None:
        others = [name for name in list(sys.modules) if name.startswith("verl.workers.") and name.endswith("_workers")]
        if others:  # otherwise this is not a worker
            _LOG.warning("The memory of NCCL stays on the GPU: this verl has its workers in %s.", ", ".join(others))
        return
    if not has_all(_LOG, "verl", workers, "ActorRolloutRefWorker", "get_rollout_class", "aggressive_empty_cache"):
        return
    worker = workers.ActorRolloutRefWorker
    if not has_all(_LOG, "verl", worker, "update_weights"):
        return
    if not inspect.iscoroutinefunction(worker.update_weights):
        _LOG.warning("The memory of NCCL stays on the GPU: update_weights() of this verl is no coroutine.")
        return
    worker.update_weights = _release_before_kv_cache(worker.update_weights)
    _release_when_loaded(workers)


_install()
