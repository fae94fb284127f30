# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Pauses and resumes GPU memory of this process: NCCL's, and memory that it allocates by tag.

    import amem     # before the first communicator is created; before or after `import torch`

    with amem.region("weights"):
        model = load_model()
    amem.pause()          # all of it leaves this process' GPUs
    amem.resume("nccl")   # NCCL's is back: same addresses, same contents, same communicators
    amem.resume()         # so is the rest

Pausing concerns this process alone: no other rank has to call anything, unless pause() is given a process group.

The import loads amem's library and enables it, unless AMEM_ENABLE is 0, false, no or off. The library is the one that
`amem run` has preloaded or, without that, the one that is installed with the `amem` command beside
this Python or on PATH. The import never raises: where there is no library, enabled() is False, and the
functions that need it raise AmemError, which says what to install or to set.

Processes that never import this package are started with `amem run -- command`, or with the variables of env().
"""

__version__ = "0.1.0"  # library.py compares it

from .attribution import GpuReport, MemoryOwner, report
from .calls import last_error
from .errors import AmemError, AmemTypeError, AmemValueError, OutOfMemory, Timeout
from .intercepted import interposition
from .launch import env, preload_path
from .library import State
from .library import enable as _enable
from .regions import Backup, backup, cuda_graph, disable, region, set_backup_directory
from .remaking import OnResume, on_resume
from .safe_points import safe_point
from .session import (
    Report,
    enabled,
    pause,
    paused,
    prepare_host_memory,
    resume,
    resume_on_call,
    set_group,
    state,
    switch,
    trim_host_memory,
)
from .statistics import Stats, stats

__all__ = [
    "AmemError",
    "AmemTypeError",
    "AmemValueError",
    "Backup",
    "GpuReport",
    "MemoryOwner",
    "OnResume",
    "OutOfMemory",
    "Report",
    "State",
    "Stats",
    "Timeout",
    "backup",
    "cuda_graph",
    "disable",
    "enabled",
    "env",
    "interposition",
    "last_error",
    "on_resume",
    "pause",
    "paused",
    "preload_path",
    "prepare_host_memory",
    "region",
    "report",
    "resume",
    "resume_on_call",
    "safe_point",
    "set_backup_directory",
    "set_group",
    "state",
    "stats",
    "switch",
    "trim_host_memory",
]

_enable()
