# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Sleep mode of vLLM that also releases the memory of NCCL and symmetric memory: `--sleep-mode-backend amem`.

vLLM imports this module in a worker at its first sleep. Written for the interface of vLLM 0.33.0; amem_vllm.register() does not
offer it to a vLLM with another one.
"""

import importlib
import logging
import sys
from types import FrameType
from typing import Any, Optional, Tuple

from vllm.device_allocator.sleep_mode_backend import CuMemBackend

from .session import enabled, resume, state
from .statistics import stats
from .trainers import release

_LOG = logging.getLogger("vllm.amem")


def _runs_in_trainer() -> bool:
    """vLLM runs in a process of a torchrun job (distributed_executor_backend="external_launcher"), as in TRL and ms-swift.

    The ranks then go to sleep without waiting for each other, and the trainer needs NCCL at once: the pause of one rank would
    wait for a GPU on which a collective already waits for this rank. The worker that called suspend() knows: a backend is not
    told, and gc.get_objects() does not list the executor after vLLM's gc.freeze().
    """
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        config = getattr(frame.f_locals.get("self"), "parallel_config", None)
        launcher = getattr(config, "distributed_executor_backend", None)
        if launcher is not None:
            if isinstance(launcher, str) and "." in launcher:  # a path to import
                module, _, name = launcher.rpartition(".")
                launcher = getattr(importlib.import_module(module), name, "external_launcher")  # not known: leave NCCL alone
            names = [base.__name__ for base in launcher.__mro__] if isinstance(launcher, type) else [launcher]
            return "external_launcher" in names or "ExecutorWithExternalLauncher" in names
        frame = frame.f_back
    return False


class AmemBackend(CuMemBackend):
    """Weights and KV cache as vLLM's own backend; NCCL's memory and symmetric memory by amem. Communicators and CUDA graphs
    with collectives stay valid."""

    _paused: Tuple[str, ...] = ()  # tags
    _in_trainer: Optional[bool] = None  # not known before the first sleep

    def suspend(self, *arguments: Any, **named: Any) -> None:
        """Puts this worker to sleep. If amem refuses the pause, its memory stays on the GPU, with a warning.

        An NCCL call of a sleeping process resumes NCCL's memory. Trainers make such calls when they send weights to sleeping
        workers. If vLLM runs in its trainer's process, NCCL's and symmetric memory stay on the GPU.
        """
        super().suspend(*arguments, **named)
        if self._in_trainer is None:
            self._in_trainer = _runs_in_trainer()
            if self._in_trainer:
                _LOG.info("vLLM runs in its trainer's process: its sleep does not release NCCL's memory.")
        if self._in_trainer:
            return
        tags = ("nccl", "symmetric") if enabled() and "symmetric" in stats()["tags"] else ("nccl",)
        release(_LOG, *tags)
        self._paused = tuple(tag for tag in tags if state(tag) == "paused")

    def resume(self, *arguments: Any, **named: Any) -> None:
        """Any wake-up restores NCCL's memory first: weights are often updated by NCCL before the KV cache returns. Raises
        AmemError if there is no room; the wake-up can be repeated."""
        if self._paused:
            resume(*self._paused)
            self._paused = ()
        super().resume(*arguments, **named)

    @classmethod
    def preserves_graphs_with_communicators(cls) -> bool:
        return True
