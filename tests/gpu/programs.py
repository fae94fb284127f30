# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Runs one program with a time limit, its output in a file. Ends all processes that it has started."""

import contextlib
import ctypes
import os
import signal
import subprocess
from pathlib import Path

_GRACE_S = 10
_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


def adopt_orphans() -> None:
    """From now on processes that lose their parent below this one become its children.

    torchrun starts its workers in sessions of their own, where no signal to a group reaches them.
    """
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("prctl(PR_SET_CHILD_SUBREAPER) failed")


def _children() -> list[int]:
    """The children of this process, adopted ones too, from the 4th field of proc(5)'s stat."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            if int(stat.read_bytes().rpartition(b")")[2].split()[1]) == os.getpid():
                found.append(int(stat.parent.name))
    return found


def _end(child: subprocess.Popen[bytes] | None) -> None:
    """Asks the program's group to end, so that torchrun ends its workers; kills what does not."""
    if child is not None and child.poll() is None:
        os.killpg(child.pid, signal.SIGTERM)
        try:
            child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    # What a child had started is adopted and killed in turn.
    while children := _children():
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def run_program(command: list[str], variables: dict[str, str], timeout_s: float, log: Path) -> str | None:
    """What went wrong, None when it ended with 0. Its output goes to `log`.

    Call adopt_orphans() before. Ends every child of this process, so have no others.
    """
    child = None  # a signal may come while it is started
    try:
        with open(log, "wb") as output:
            child = subprocess.Popen(
                command,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        code = child.wait(timeout_s)
    except OSError as error:
        return f"cannot be started: {error}"
    except subprocess.TimeoutExpired:
        return f"not done after {timeout_s:g} s"
    finally:
        _end(child)
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return f"exit code {code}" if code else None
