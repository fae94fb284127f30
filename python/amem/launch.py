# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What a process that starts others needs. Works without amem in this process.

The `amem` command decides what has to be set; it is asked here, so that there is one answer.
"""

import json
import os
import subprocess
from typing import Dict, List, Literal, Optional, Union

from .errors import AmemError, AmemValueError
from .installation import find_command

_TIMEOUT_S = 30


def _ask(arguments: List[str], variables: Dict[str, str]) -> Dict[str, str]:
    command = [find_command(), "env", "--json", *arguments]
    try:
        done = subprocess.run(
            command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AmemError(f"{' '.join(command)} failed: {error}") from error
    if done.returncode != 0:
        text = done.stderr.strip() or f"{' '.join(command)}: exit code {done.returncode}"
        raise AmemValueError(text) if done.returncode == 2 else AmemError(text)
    found: Dict[str, str] = json.loads(done.stdout)["env_vars"]
    return found


def env(
    *,
    cumem: Optional[Literal["force", "respect"]] = None,
    group: Union[str, int, None] = None,
    log: Optional[int] = None,
    timeout_ms: Optional[int] = None,
    tensors: Optional[str] = None,
) -> Dict[str, str]:
    """The variables that a process has to be started with, as `amem env` prints them, and those of amem that are set.

        ray.init(runtime_env={"env_vars": amem.env()})
        subprocess.run(command, env={**os.environ, **amem.env(log=4)})

    The arguments are the options of `amem run`. The LD_PRELOAD of this process is kept and added
    to. Raises AmemError when an argument is out of range or amem is not installed.
    """
    options = {"--cumem": cumem, "--group": group, "--log": log, "--timeout-ms": timeout_ms, "--tensors": tensors}
    arguments = [f"{name}={value}" for name, value in options.items() if value is not None]
    return _ask(arguments, dict(os.environ))


def preload_path() -> str:
    """amem's library, for LD_PRELOAD. Raises AmemError when amem is not installed."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("AMEM_")}
    return _ask([], {**others, "LD_PRELOAD": ""})["LD_PRELOAD"]
