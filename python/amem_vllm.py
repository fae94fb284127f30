# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The plugin for vLLM (entry point vllm.general_plugins): offers amem.vllm_backend as a sleep-mode backend.

A module of its own, because vLLM loads plugins whether they are used or not, and `import amem` enables amem.
"""

import contextlib
import importlib
import os


def register() -> None:
    """vLLM calls this in each of its processes, before it creates communicators. With AMEM_ENABLE=1, as `amem run` sets it,
    amem is enabled there."""
    try:
        from vllm.device_allocator.sleep_mode_backend import SleepModeBackendFactory
    except ImportError:  # a vLLM without such backends
        return
    with contextlib.suppress(ValueError):  # registered already
        SleepModeBackendFactory.register_backend("amem", "amem.vllm_backend", "AmemBackend")
    if os.environ.get("AMEM_ENABLE") == "1":
        importlib.import_module("amem")
