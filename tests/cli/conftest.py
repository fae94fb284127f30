# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The built command, in an environment without a trace of amem."""

import os
import subprocess
from pathlib import Path

import pytest

TIMEOUT_S = 60


class Amem:
    """The command of the build folder that AMEM_TEST_BUILD names."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder).resolve()
        self.command = str(self.folder / "bin" / "amem")
        self.preload = str(self.folder / "lib" / "libamem_nccl.so")

    def variables(self, **settings: str) -> dict[str, str]:
        ours = ("AMEM_", "GMM_", "LD_")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return {**clean, **settings}

    def __call__(self, *arguments: object, command: str | Path | None = None, cwd: str | Path | None = None, **settings: str) -> subprocess.CompletedProcess[str]:
        """Runs the command; the result has returncode, stdout and stderr."""
        return subprocess.run(
            [command or self.command, *map(str, arguments)],
            env=self.variables(**settings),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            cwd=cwd,
            timeout=TIMEOUT_S,
            check=False,
        )

    def job_variables(self, *options: str, **settings: str) -> dict[str, str]:
        """The environment that a job of `amem run` gets."""
        done = self("run", *options, "--", "env", "-0", **settings)
        assert done.returncode == 0, done.stderr
        return dict(row.split("=", 1) for row in done.stdout.split("\0") if row)


@pytest.fixture
def amem() -> Amem:
    return Amem(os.environ["AMEM_TEST_BUILD"])


def assert_sentence(done: subprocess.CompletedProcess[str], exit_code: int, *words: str) -> None:
    """The command said one line, with these words, and nothing else."""
    assert (done.returncode, done.stdout) == (exit_code, "")
    assert done.stderr.startswith("amem: ") and done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr
