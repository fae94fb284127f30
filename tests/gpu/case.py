# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""One case of ./dev gpu: a program that needs GPUs."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

REPORT = "{report}"


@dataclass(frozen=True)
class Case:
    """A program that needs `gpus` GPUs. REPORT in its command stands for the file that `read_report` reads;
    without it, it reads the log."""

    name: str
    command: list[str]
    timeout_s: int
    gpus: int = 2
    variables: dict[str, str] = field(default_factory=dict)
    tests: Optional[tuple[str, ...]] = None  # of a GoogleTest program
    read_report: Optional[Callable[[Path], str]] = None
    lacks: str = ""  # what the machine does not have: the case is skipped, and says so
