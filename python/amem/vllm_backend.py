# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Sleep mode of vLLM that also releases the memory of NCCL and symmetric memory: `--sleep-mode-backend amem`.

vLLM imports this module in a worker at its first sleep. Written for the interface of vLLM 0.33.0.
"""

import logging
from typing import List, Optional, Tuple

from vllm.device_allocator.sleep_mode_backend import CuMemBackend

from .errors import AmemError
from .session import pause, resume, resume_on_call, state
from .statistics import stats

_LOG = logging.getLogger("vllm.amem")


class AmemBackend(CuMemBackend):
    """Weights and KV cache as vLLM's own backend; NCCL's memory and symmetric memory by amem. Communicators and CUDA graphs
    with collectives stay valid."""

    _paused: Tuple[str, ...] = ()  # tags

    def suspend(self, level: int = 1) -> None:
        """Puts this worker to sleep. If amem refuses the pause, its memory stays on the GPU, with a warning.

        An NCCL call of the sleeping process restores NCCL's memory: without amem, such calls work. Trainers make them that
        run vLLM in their own process, and those that send weights to workers that sleep.
        """
        super().suspend(level)
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
