# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What a process that starts others needs."""

import json
import os
import subprocess
import sys
from pathlib import Path

from conftest import TIMEOUT_S, Build


def _path(build: Build) -> str:
    return f"{build.command.parent}{os.pathsep}{os.environ['PATH']}"


def test_preload_path_is_amems_library(build: Build) -> None:
    found = build.python("import amem; print(amem.preload_path())", PATH=_path(build))

    assert found == build.preload


def test_preload_path_is_known_where_amem_is_loaded(build: Build) -> None:
    # Neither on PATH nor beside Python: the loaded library leads to it.
    assert build.job("import amem; print(amem.preload_path())") == build.preload


def test_preload_path_does_not_depend_on_what_is_preloaded(build: Build) -> None:
    other = build.simulator / "libcuda.so.1"

    found = build.python("import amem; print(amem.preload_path())", PATH=_path(build), LD_PRELOAD=str(other))

    assert found == build.preload


def test_env_is_what_the_command_prints(build: Build) -> None:
    code = "import amem, json; print(json.dumps(amem.env(group=2, log=4, cumem='respect', timeout_ms=9)))"

    found = json.loads(build.python(code, PATH=_path(build)))

    options = ["--group=2", "--log=4", "--cumem=respect", "--timeout-ms=9"]
    printed = subprocess.run(
        [build.command, "env", "--json", *options], env=build.variables(), capture_output=True, timeout=TIMEOUT_S, check=True
    )
    assert json.loads(printed.stdout) == {"env_vars": found}
    assert found["AMEM_GROUP"] == "2"


def test_env_starts_a_job_with_amem(build: Build) -> None:
    code = """
import os, subprocess, sys
import amem
job = [sys.executable, "-c", "import amem; amem.pause(); print(amem.state())"]
subprocess.run(job, env={**os.environ, **amem.env()}, timeout=60, check=True)
"""
    assert build.python(code, PATH=_path(build)) == "paused"


def test_env_refuses_what_is_out_of_range(build: Build) -> None:
    code = """
import amem
try:
    amem.env(log=9)
except amem.AmemError as error:
    print(error)
"""
    assert "--log 9 is not" in build.python(code, PATH=_path(build))


def test_says_that_the_command_is_missing(build: Build, tmp_path: Path) -> None:
    code = """
import amem
try:
    amem.preload_path()
except amem.AmemError as error:
    print(error)
"""
    assert "install amem" in build.python(code, PATH=str(tmp_path))


def test_versions_agree(build: Build) -> None:
    printed = subprocess.run([build.command, "--version"], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)

    assert printed.stdout.strip() == "amem " + build.python("import amem; print(amem.__version__)")


def test_the_package_is_the_command(build: Build) -> None:
    def run(*words: str | Path, **settings: str) -> tuple[int, str, str]:
        variables = build.variables(**settings)
        done = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        return done.returncode, done.stdout, done.stderr

    module = (sys.executable, "-m", "amem")
    for arguments in (["version"], ["env", "--json"], ["run", "--log=9", "true"]):
        assert run(*module, *arguments, PATH=_path(build)) == run(build.command, *arguments, PATH=_path(build))
    code, printed, text = run(*module, "version", PATH="/nonexistent")
    assert (code, printed) == (1, "") and text.startswith("amem: the amem command is neither beside this Python nor on PATH")
