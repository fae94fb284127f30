# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Pauses and resumes the GPU memory that NCCL holds in this process.

The job is started with `amem run -- command`, or with the variables of `amem env`. Then:

    import amem

    amem.pause()    # NCCL's memory leaves this process' GPUs
    amem.resume()   # it is back: same addresses, same contents, same communicators

Pausing concerns this process alone: no other rank has to call anything.
"""

from .errors import AmemError
from .launch import environment, preload_path
from .session import enabled, last_error, pause, paused, resume, set_group, state, trim_host_memory
from .statistics import stats

__version__ = "0.1.0"

__all__ = [
    "AmemError",
    "enabled",
    "environment",
    "last_error",
    "pause",
    "paused",
    "preload_path",
    "resume",
    "set_group",
    "state",
    "stats",
    "trim_host_memory",
]
