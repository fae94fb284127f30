# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""One case is one program: run with a time limit, its output in a file, nothing of it left behind."""

import ctypes
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from reports import Finding, Reader
from rows import FAIL, OK, SKIP, Row

_GRACE_S = 10
_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
_SAYS = "result: "


@dataclass(frozen=True)
class Case:
    """A program that needs `gpus` GPUs. Its exit code judges it, and its report if it writes one."""

    name: str
    command: list[str]
    timeout_s: int
    gpus: int = 2
    variables: dict[str, str] = field(default_factory=dict)
    report: Optional[Path] = None
    read_report: Optional[Reader] = None


def adopt_orphans() -> None:
    """From now on processes that lose their parent below this one become its children.

    torchrun starts its workers in sessions of their own, where no signal to a group reaches them.
    """
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("prctl(PR_SET_CHILD_SUBREAPER) failed")


def _children() -> list[int]:
    """The children of this process, adopted ones too, from the 4th field of proc(5)'s stat."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            stat = Path("/proc", entry, "stat").read_bytes() if entry.isdigit() else b""
        except OSError:
            continue  # it has ended
        if stat and int(stat.rpartition(b")")[2].split()[1]) == os.getpid():
            found.append(int(entry))
    return found


def end_children() -> None:
    """Kills every child of this process; what it had started is adopted and killed in turn."""
    while children := _children():
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _end(child: subprocess.Popen) -> None:
    """Asks the program's group to end, so that torchrun ends its workers; kills what does not."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGTERM)
        try:
            child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    end_children()


def _run_program(case: Case, variables: dict[str, str], log: Path) -> Optional[int]:
    """The exit code, negative for a signal; None when the time was over."""
    with open(log, "wb") as output:
        child = subprocess.Popen(
            case.command,
            env={**variables, **case.variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        return child.wait(case.timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end(child)


def _said(log: Path) -> str:
    """What the program has for the table: the last line that begins with "result: "."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line[len(_SAYS) :] for line in reversed(lines) if line.startswith(_SAYS)), "")


def _findings(case: Case, code: Optional[int], log: Path) -> list[Finding]:
    if code is None:
        return [(FAIL, f"not done after {case.timeout_s} s")]
    findings = [(OK, _said(log))] if code == 0 else []
    if case.report is not None and case.read_report is not None:
        try:
            findings = case.read_report(case.report)
        except (OSError, ValueError) as error:
            findings = [(FAIL, f"exit code {code}, no report: {error}")]
    if code != 0 and all(result != FAIL for result, _ in findings):
        how = f"exit code {code}" if code > 0 else f"ended by {signal.Signals(-code).name}"
        findings.append((FAIL, how))
    return findings


def run_case(case: Case, gpus: int, variables: dict[str, str], logs: Path) -> list[Row]:
    """The rows of one case on a machine with `gpus` GPUs; its output goes to logs/NAME.log.

    Call adopt_orphans() before. Ends every child of this process, so have no others.
    """
    if gpus < case.gpus:
        return [Row(case.name, SKIP, 0.0, f"needs {case.gpus} GPUs, there are {gpus}")]
    if case.report is not None:
        case.report.unlink(missing_ok=True)  # an old one is no result
    log = logs / f"{case.name}.log"
    start = time.monotonic()
    try:
        code = _run_program(case, variables, log)
    except OSError as error:
        return [Row(case.name, FAIL, 0.0, f"cannot be started: {error}")]
    seconds = time.monotonic() - start
    return [Row(case.name, result, seconds, detail) for result, detail in _findings(case, code, log)]
