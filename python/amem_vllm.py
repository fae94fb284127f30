# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The plugin for vLLM (entry point vllm.general_plugins): offers amem.vllm_backend as a sleep-mode backend.

A module of its own, because vLLM loads plugins whether they are used or not, and `import amem` enables amem.
"""

import contextlib
import copy
import importlib
import logging
from typing import Any

from amem_flags import flag, torch_memory_saver

_LOG = logging.getLogger("vllm.amem")


def _offload_cuda_graphs_as_cumem_does() -> None:
    """vLLM asks for the backend "cumem" by name before --sleep-mode-offload-cudagraph moves CUDA graphs to the memory that
    this backend puts to sleep too (config/vllm.py, use_cumem_cudagraph_pool@v0.33.0)."""
    try:
        from vllm.config import VllmConfig
    except ImportError:
        return  # a vLLM without the option

    of_cumem = getattr(VllmConfig, "use_cumem_cudagraph_pool", None)
    if not isinstance(of_cumem, property) or of_cumem.fget is None or of_cumem.fget.__module__ == __name__:
        return  # a vLLM without it, or this function was called before
    ask = of_cumem.fget

    def use_cumem_cudagraph_pool(self: Any) -> bool:
        config = copy.copy(self)
        config.model_config = copy.copy(config.model_config)  # None in some processes
        if getattr(config.model_config, "sleep_mode_backend", None) == "amem":
            config.model_config.sleep_mode_backend = "cumem"
        return bool(ask(config))

    VllmConfig.use_cumem_cudagraph_pool = property(use_cumem_cudagraph_pool)


def register() -> None:
    """vLLM calls this in each of its processes, before it creates communicators. Without AMEM_ENABLE=1, which `amem run`
    sets, it only adds a name. With AMEM_TMS=weights or kv_cache amem's backend takes the place of "cumem", the default."""
    try:
        from vllm.device_allocator.sleep_mode_backend import CuMemBackend, SleepModeBackendFactory

        if not callable(CuMemBackend.suspend) or not callable(CuMemBackend.resume):
            raise TypeError("its backend has another interface")
        with contextlib.suppress(ValueError):  # registered already
            SleepModeBackendFactory.register_backend("amem", "amem.vllm_backend", "AmemBackend")
    except (AttributeError, ImportError, TypeError) as error:
        if flag("AMEM_ENABLE") and torch_memory_saver()[1]:
            _LOG.warning(
                "This vLLM has no sleep-mode backends as 0.25.0 to 0.33.0 have: its sleep does not release NCCL's memory (%s).",
                error,
            )
        return
    if not flag("AMEM_ENABLE"):
        return
    _offload_cuda_graphs_as_cumem_does()
    if torch_memory_saver()[1] in ("weights", "kv_cache"):
        # vLLM 0.25 to 0.32 have backends, but no argument that selects one, and programs do not pass each argument on.
        registry = getattr(SleepModeBackendFactory, "_registry", {})
        if isinstance(registry, dict) and "amem" in registry:
            registry["cumem"] = registry["amem"]
    importlib.import_module("amem")
