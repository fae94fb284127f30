# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""One case of ./dev gpu: a program that needs GPUs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

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
    tests: tuple[str, ...] | None = None  # of a GoogleTest program
    read_report: Callable[[Path], str] | None = None
    lacks: str = ""  # what the machine does not have: the case is skipped, and says so
