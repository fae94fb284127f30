# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Jobs for the tests: real processes with the built libraries, on the simulated GPU."""

import contextlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent
TIMEOUT_S = 60 if platform.machine() == "x86_64" else 240  # of a slow processor: in emulation


class Build:
    """The build folder that AMEM_TEST_BUILD names."""

    def __init__(self, folder: str, machine: Path) -> None:
        self.folder = Path(folder).resolve()
        self.command = self.folder / "bin" / "amem"
        self.preload = str(self.folder / "lib" / "libamem_nccl.so")
        self.symmetric = str(self.folder / "lib" / "libamem_symmetric.so")
        self.simulator = self.folder / "sim"
        self.machine = machine

    def variables(self, **settings: str) -> dict[str, str]:
        """The environment of a job on a simulated machine of its own, without amem."""
        ours = ("AMEM_", "GMM_", "LD_", "NCCL_")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        clean.update(
            PYTHONPATH=str(PACKAGE),
            PYTHONDONTWRITEBYTECODE="1",
            LD_LIBRARY_PATH=str(self.simulator),
            AMEM_SIM_DIR=str(self.machine),
            AMEM_SIM_DEVICES="2",
            AMEM_SIM_MEMORY_MB="512",
        )
        clean.update(settings)
        return clean

    def python(self, code: str, *, prefix: Sequence[str | Path] = (), **settings: str) -> str:
        """Runs Python code in a process of its own and returns what it printed."""
        done = subprocess.run(
            [*map(str, prefix), sys.executable, "-c", code],
            env=self.variables(**settings),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def job(self, code: str, *, prefix: Sequence[str] = (), **settings: str) -> str:
        """The same under `amem run`."""
        return self.python(code, prefix=(*prefix, self.command, "run", "--"), **settings)

    def runtime_job(self, code: str, *, prefix: Sequence[str] = (), **settings: str) -> str:
        """The same, for code that imports runtime_user.py."""
        return self.job(code, prefix=prefix, **self.runtime_variables(**settings))

    def runtime_variables(self, **settings: str) -> dict[str, str]:
        libraries = self.folder / "tests" / "interpose" / "programs"
        path = f"{PACKAGE}:{Path(__file__).parent}"
        return self.variables(TEST_LIBRARIES=str(libraries), **{"PYTHONPATH": path, **settings})


def in_mounts(script: str) -> list[str]:
    """A prefix that runs the script where it may mount, and then the command."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--mount", "sh", "-c", script + ' && exec "$@"', "sh"]


# A prefix: no other process of the user lends its host memory.
ALONE = in_mounts("mount -t tmpfs none /dev/shm")


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    machine = tmp_path / "machine"
    yield Build(os.environ["AMEM_TEST_BUILD"], machine)
    shutil.rmtree(machine, ignore_errors=True)  # simulated GPU memory: pytest keeps tmp_path


class Actor:
    """A process that evaluates the expressions that a test sends."""

    SERVE = """
import sys
for line in sys.stdin:
    try:
        print(repr(eval(line)), flush=True)
    except Exception as error:
        print("error:", error, flush=True)
"""

    def __init__(self, build: Build, code: str, prefix: Sequence[str | Path] = ("run", "--"), **settings: str) -> None:
        command = [*([build.command, *prefix] if prefix else ()), sys.executable, "-c", code + self.SERVE]
        self.process = subprocess.Popen(
            [*map(str, command)],
            env=build.runtime_variables(**settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, expression: str) -> str:
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self) -> int:
        self.process.stdin.close()
        return self.process.wait(TIMEOUT_S)


@pytest.fixture
def actor(build: Build) -> Iterator[Callable[..., Actor]]:
    """Starts actors, and ends them after the test."""
    started = []

    def start(code: str, **settings: str) -> Actor:
        started.append(Actor(build, code, **settings))
        return started[-1]

    yield start
    for each in started:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            each.close()
        each.process.kill()
