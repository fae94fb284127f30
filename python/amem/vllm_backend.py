# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Sleep mode of vLLM that also releases the memory of NCCL and symmetric memory: `--sleep-mode-backend amem`.

vLLM imports this module in a worker at its first sleep. Written for the interface of vLLM 0.33.0.
"""

import logging
import os
from typing import List, Optional, Tuple

from vllm.device_allocator.sleep_mode_backend import CuMemBackend

from .errors import AmemError
from .session import pause, resume, resume_on_call, state
from .statistics import stats

_LOG = logging.getLogger("vllm.amem")


def _runs_in_trainer() -> bool:
    """vLLM runs in a process of a torchrun job (distributed_executor_backend="external_launcher"), as in TRL and ms-swift.

    The ranks then go to sleep without waiting for each other, and the trainer needs NCCL at once: the pause of one rank would
    wait for a GPU on which a collective already waits for this rank.
    """
    is_in_process = os.environ.get("VLLM_ENABLE_V1_MULTIPROCESSING") == "0"  # set by vllm/config/parallel.py:1051@v0.33.0
    return is_in_process and "RANK" in os.environ and "LOCAL_RANK" in os.environ


class AmemBackend(CuMemBackend):
    """Weights and KV cache as vLLM's own backend; NCCL's memory and symmetric memory by amem. Communicators and CUDA graphs
    with collectives stay valid."""

    _paused: Tuple[str, ...] = ()  # tags

    def suspend(self, level: int = 1) -> None:
        """Puts this worker to sleep. If amem refuses the pause, its memory stays on the GPU, with a warning.

        An NCCL call of the sleeping process restores NCCL's memory: without amem, such calls work. Trainers that send weights
        to workers that sleep make them. In a trainer's own process NCCL's memory stays.
        """
        super().suspend(level)
        if _runs_in_trainer():
            _LOG.info("The memory of NCCL stays on the GPU: vLLM runs in its trainer's process.")
            return
        tags: Tuple[str, ...] = ("nccl",)
        try:
            tags += tuple(tag for tag in stats()["tags"] if tag == "symmetric")
            resume_on_call()
            report = pause(*tags)
        except AmemError as error:
            # A pause that cannot restore what it has released leaves its tags paused.
            self._paused = tuple(tag for tag in tags if state(tag) == "paused")
            if self._paused:
                _LOG.warning("A part of NCCL's memory stays on the GPU: %s", error)
            else:
                _LOG.warning("The memory of NCCL stays on the GPU: %s", error)
            return
        self._paused = tags
        _LOG.info("amem released %.2f GiB of NCCL and symmetric memory.", report.released_bytes / 2**30)

    def resume(self, tags: Optional[List[str]] = None) -> None:
        """Any wake-up restores NCCL's memory first: weights are often updated by NCCL before the KV cache returns. Raises
        AmemError if there is no room; the wake-up can be repeated."""
        if self._paused:
            resume(*self._paused)
            self._paused = ()
        super().resume(tags)

    @classmethod
    def preserves_graphs_with_communicators(cls) -> bool:
        return True
