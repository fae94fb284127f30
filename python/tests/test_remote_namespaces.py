# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem status, why, pause and resume of processes of another user and of other namespaces, as with containers."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from conftest import TIMEOUT_S, Build

OTHER = 65534  # no user of this machine runs amem with it
JOB = """
import ctypes, os, amem
library, cuda, context, p = ctypes.CDLL("libamem_nccl.so"), ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert library.amemMalloc(ctypes.byref(p), ctypes.c_size_t(4 << 20), b"weights", 0) == 0
print("ready", flush=True)
while True:
    amem.safe_point()
"""


class Others:
    """A job that `prefix` starts, and commands that another prefix starts. PID in an argument is that of the job here."""

    def __init__(self, build: Build, folder: Path) -> None:
        self.build = build
        self.jobs: list[subprocess.Popen[str]] = []
        self.group = f"others.{os.getpid()}"
        folder.chmod(0o777)
        self.variables = build.runtime_variables(AMEM_GROUP=self.group, AMEM_LOG="1", AMEM_SIM_DIR=str(folder / "machine"))

    def start(self, *prefix: str) -> None:
        command = [*prefix, str(self.build.command), "run", "--", sys.executable, "-c", JOB]
        self.jobs.append(subprocess.Popen(command, env=self.variables, stdout=subprocess.PIPE, text=True))
        assert self.jobs[-1].stdout.readline() == "ready\n"

    def pid(self) -> int:
        """Of the last job, as this process sees it: a launcher such as unshare --fork has it as its child."""
        pid = self.jobs[-1].pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else pid

    def amem(self, *arguments: object, prefix: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        command = [*prefix, str(self.build.command), *map(str, arguments)]
        return subprocess.run(command, env=self.variables, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    def says(self, *arguments: object, prefix: Sequence[str] = ()) -> str:
        done = self.amem(*arguments, prefix=prefix)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def refuses(self, *arguments: object, prefix: Sequence[str] = ()) -> str:
        done = self.amem(*arguments, prefix=prefix)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
        return done.stderr

    def end(self) -> None:
        for job in self.jobs:
            for pid in [*map(int, Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()), job.pid]:
                os.kill(pid, signal.SIGKILL)
            job.communicate()


@pytest.fixture
def others(build: Build) -> Iterator[Others]:
    with tempfile.TemporaryDirectory() as folder:  # pytest's may be entered by its user only
        made = Others(build, Path(folder))
        yield made
        made.end()


def as_user(user: int) -> list[str]:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]


def namespaces(*options: str) -> list[str]:
    prefix = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-current-user"]), *options]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user cannot make such namespaces")
    return prefix


def check_pause_and_resume(others: Others, *which: object) -> None:
    assert others.says("pause", *which).startswith(f"process {others.pid()}: 4 MiB released in ")
    assert "paused by amem pause" in others.says("status", *which)
    assert others.says("resume", *which).startswith(f"process {others.pid()}: 4 MiB restored in ")


def test_processes_of_another_user(others: Others) -> None:
    others.start(*as_user(OTHER))
    pid = others.pid()
    sentence = f"amem: process {pid} is of user {OTHER}: root sees it with --user {OTHER}\n"
    for stranger in ((), as_user(OTHER - 1)):
        for arguments in (("status", "--pid", pid), ("pause", "--pid", pid), ("resume", "--pid", pid), ("why", pid)):
            assert others.refuses(*arguments, prefix=stranger) == sentence
        assert others.refuses("pause", "--group", others.group, prefix=stranger) == f"amem: there is no process of group {others.group}\n"
    for user in (OTHER, "nobody"):
        check_pause_and_resume(others, "--pid", pid, "--user", user)
        assert "weights" in others.says("why", pid, "--user", user)
        said = others.refuses("pause", "--pid", pid, "--user", user, prefix=as_user(OTHER - 1))
        assert said == f"amem: the processes of user {user} cannot be seen: only root can\n"


def test_root_of_a_user_namespace_is_not_root(others: Others) -> None:
    others.start()
    inside = [*as_user(OTHER), "unshare", "--user", "--map-root-user"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("the kernel lets users make no namespaces")
    for arguments in (("status",), ("pause", "--all"), ("why",), ("pause", "--pid", others.pid())):
        said = others.refuses(*arguments, prefix=inside)
        assert said.startswith("amem: /dev/shm/amem-0 is not a directory that only user 0 may enter; remove it: "), said
    said = others.refuses("pause", "--all", "--user", OTHER - 1, prefix=inside)
    assert said.startswith(f"amem: the processes of user {OTHER - 1} cannot be seen: "), said


def test_job_in_a_pid_namespace_of_its_own(others: Others) -> None:
    others.start(*namespaces("--pid", "--fork", "--mount-proc"))
    check_pause_and_resume(others, "--pid", others.pid())
    assert "weights" in others.says("why", others.pid())


def test_command_in_another_pid_namespace_than_the_job(others: Others) -> None:
    others.start(*namespaces("--pid", "--fork", "--mount-proc"))
    inside = namespaces("--pid", "--fork", "--mount-proc")
    name = "a process of another pid namespace"
    assert others.says("pause", "--group", others.group, prefix=inside).startswith(f"{name}: 4 MiB released in ")
    assert "paused by amem pause" in others.says("status", "--pid", others.pid())
    assert "weights" in others.says("status", prefix=inside)
    assert others.says("resume", "--group", others.group, prefix=inside).startswith(f"{name}: 4 MiB restored in ")
    assert others.refuses("pause", "--pid", others.pid(), prefix=inside) == f"amem: there is no process {others.pid()}\n"
