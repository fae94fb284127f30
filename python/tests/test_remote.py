# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem pause and amem resume, of jobs on the simulated GPU."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import TIMEOUT_S, Build

HERE = Path(__file__).parent


class Job:
    """Ranks of stepping_job.py, in a logical group of their own."""

    def __init__(
        self, build: Build, folder: Path, *, ranks: int = 2, points: tuple[int, ...] = (1, 1), mib: int = 0, only: dict[int, list[str]] | None = None,
        **settings: str
    ) -> None:
        self.build, self.folder = build, folder
        folder.mkdir(exist_ok=True)
        self.group = f"{folder.name}.{os.getpid()}"  # of no other test
        settings = {"AMEM_GROUP": self.group, "AMEM_SIM_MEMORY_MB": "2048", **settings}
        self.variables = build.runtime_variables(**settings)
        self.ranks = [
            subprocess.Popen(
                [build.command, "run", "--", "env", *(only or {}).get(i, []), sys.executable, HERE / "stepping_job.py",
                 *map(str, (i, ranks, folder, points[i], mib))],
                env=self.variables, stdout=subprocess.PIPE, text=True,
            )
            for i in range(ranks)
        ]
        self.pids = [int(rank.stdout.readline()) for rank in self.ranks]

    def amem(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.build.command), *arguments]
        return subprocess.run(command, env=self.variables, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    def status(self, pid: int) -> Any:
        return json.loads(self.amem("status", "--json", "--pid", str(pid)).stdout)["processes"][0]

    def steps(self) -> list[int]:
        files = [self.folder / f"steps.{i}" for i in range(len(self.ranks))]
        return [int(file.read_text() or 0) if file.exists() else 0 for file in files]

    def goes_on(self) -> bool:
        """All ranks make steps."""
        before, deadline = self.steps(), time.monotonic() + TIMEOUT_S
        while any(now < then + 2 for now, then in zip(self.steps(), before)):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)  # allow: between two looks, under a deadline
        return True

    def stop(self) -> None:
        """All ranks wait outside calls of NCCL, until the file is removed."""
        (self.folder / "still.new").write_text(str(max(self.steps()) + 20))
        (self.folder / "still.new").rename(self.folder / "still")
        deadline = time.monotonic() + TIMEOUT_S
        while any(steps != int((self.folder / "still").read_text()) for steps in self.steps()):
            assert time.monotonic() < deadline
            time.sleep(0.01)  # allow: between two looks, under a deadline

    def end(self) -> list[str]:
        """What the ranks print: the number of steps that were wrong, and whether the last contents are right."""
        (self.folder / "end").touch()
        return [rank.communicate(timeout=TIMEOUT_S)[0].strip() for rank in self.ranks]

    def kill(self) -> None:
        for rank in self.ranks:
            rank.kill()
            rank.communicate()


Start = Callable[..., Job]
RIGHT = ["0 True", "0 True"]


@pytest.fixture
def start(build: Build, tmp_path: Path) -> Iterator[Start]:
    jobs = []

    def start_one(name: str = "train", **options: Any) -> Job:
        jobs.append(Job(build, tmp_path / name, AMEM_LOG="1", **options))
        return jobs[-1]

    yield start_one
    for job in jobs:
        job.kill()


def test_all_ranks_stop_at_one_safe_point_and_go_on(start: Start) -> None:
    job = start()
    for _ in range(5):
        done = job.amem("pause", "--group", job.group)
        assert done.returncode == 0, done.stderr
        assert [line.split(":")[0] for line in done.stdout.splitlines()] == [f"process {pid}" for pid in sorted(job.pids)]
        assert "MiB released in" in done.stdout
        stopped = job.steps()
        assert stopped[0] == stopped[1]
        again = job.amem("pause", "--group", job.group)
        assert again.returncode == 1 and "has paused it already: amem resume\n" in again.stderr
        for pid in job.pids:
            found = job.status(pid)
            assert found["state"] == "paused" and found["resident_bytes"] == found["fixed_bytes"]
            assert found["remote"]["state"] == "paused" and found["remote"]["pid"] > 0 and found["remote"]["safe_points"] == stopped[0]
            assert set(found["remote"]["tags"]) >= {"nccl", "weights"}
        said = job.amem("status", "--pid", str(job.pids[0])).stdout
        assert f"pid {job.pids[0]}: paused by amem pause (process " in said and ": nccl, weights\n" in said, said
        time.sleep(0.3)  # allow: it shows that nothing happens
        assert job.steps() == stopped
        assert job.amem("resume", "--pid", str(job.pids[1])).returncode == 0
        assert job.goes_on()
    assert job.end() == RIGHT


def test_memory_of_nccl_is_paused_at_any_time_and_calls_resume_it(start: Start) -> None:
    job = start()
    for _ in range(10):
        done = job.amem("pause", "--group", job.group, "--tag", "nccl")
        assert done.returncode == 0, done.stderr
        assert job.goes_on()
    assert job.status(job.pids[0])["counters"]["pauses"] >= 5
    assert job.end() == RIGHT


def test_a_rank_that_calls_a_collective_later_does_so_between_two_tries(start: Start) -> None:
    """Its call waits for the pause, which waits for the collective: most tries are short."""
    job = start()
    (job.folder / "late").touch()
    deadline = time.monotonic() + TIMEOUT_S
    before = None
    while before != (before := job.steps()):
        time.sleep(0.3)  # allow: it shows that nothing happens
    command = [str(job.build.command), "pause", "--group", job.group, "--tag", "nccl", "--wait", "4"]
    pause = subprocess.Popen(command, env=job.variables, stderr=subprocess.PIPE, text=True)
    while pause.poll() is None and job.status(job.pids[0])["counters"]["failed_pauses"] < 5:
        assert time.monotonic() < deadline
        time.sleep(0.05)  # allow: between two looks, under a deadline
    (job.folder / "late").unlink()
    assert pause.wait(TIMEOUT_S) == 0, pause.communicate()[1]
    assert job.goes_on()
    assert job.end() == RIGHT


def test_copies_take_longer_than_a_try_waits(start: Start) -> None:
    job = start(AMEM_SIM_DELAY_US="cuMemcpyDtoHAsync=300000")
    assert job.goes_on()
    job.stop()
    began = time.monotonic()
    done = job.amem("pause", "--group", job.group, "--tag", "nccl")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began > 1
    # The first try, on an idle machine. One in which the copies end too would be the eighth.
    assert all(job.status(pid)["counters"]["failed_pauses"] < 4 for pid in job.pids)
    (job.folder / "still").unlink()
    assert job.goes_on()
    assert job.end() == RIGHT


def test_a_job_of_which_one_rank_refuses_goes_on(start: Start, build: Build) -> None:
    job = start(points=(1, 0))  # the second has no safe points
    done = job.amem("pause", "--group", job.group, "--wait", "0.5")
    assert done.returncode == 1 and "the job is not paused: the processes of the job do not meet at safe point" in done.stderr
    assert f"process {job.pids[1]} has reached 0" in done.stderr and "amem.safe_point()" in done.stderr
    assert job.goes_on()
    assert job.end() == RIGHT


def test_ranks_whose_counters_part_are_refused(start: Start) -> None:
    job = start(points=(1, 3))
    assert job.goes_on()
    done = job.amem("pause", "--group", job.group, "--wait", "3")
    assert done.returncode == 1 and "the job is not paused" in done.stderr
    assert job.goes_on()
    assert job.end() == RIGHT


def test_a_process_can_refuse(start: Start) -> None:
    job = start(AMEM_REMOTE="0")
    for arguments in ((), ("--tag", "nccl"), ("--tag", "weights")):
        done = job.amem("pause", "--group", job.group, *arguments)
        assert done.returncode == 1 and "AMEM_REMOTE=0" in done.stderr, done.stderr
    assert job.goes_on()
    assert job.end() == RIGHT


def test_a_command_that_is_killed_leaves_no_process_held(start: Start) -> None:
    job = start(points=(1, 0))  # never complete
    command = [str(job.build.command), "pause", "--group", job.group, "--wait", "60"]
    holding = subprocess.Popen(command, env=job.variables)
    deadline = time.monotonic() + TIMEOUT_S
    while job.status(job.pids[0])["remote"]["state"] != "held":
        assert time.monotonic() < deadline
    holding.send_signal(signal.SIGKILL)
    holding.wait()
    assert job.goes_on()
    assert job.end() == RIGHT


def test_two_jobs_take_turns_on_gpus_that_hold_one(start: Start) -> None:
    one = start("one")
    assert one.amem("pause", "--group", one.group).returncode == 0
    other = start("other")
    for _ in range(3):
        assert other.amem("pause", "--group", other.group).returncode == 0
        assert one.amem("resume", "--group", one.group).returncode == 0
        assert one.goes_on()
        assert one.amem("pause", "--group", one.group).returncode == 0
        assert other.amem("resume", "--group", other.group).returncode == 0
        assert other.goes_on()
    other.amem("pause", "--group", other.group)
    one.amem("resume", "--group", one.group)
    assert one.end() == RIGHT
    other.amem("resume", "--group", other.group)
    assert other.end() == RIGHT


def test_one_process_of_nccl_alone(start: Start) -> None:
    job = start()
    done = job.amem("pause", "--pid", str(job.pids[0]), "--tag", "nccl")
    assert done.returncode == 0 and done.stdout.startswith(f"process {job.pids[0]}:") and done.stdout.count("\n") == 1
    assert job.goes_on()
    assert job.end() == RIGHT


def test_wrong_arguments_are_one_sentence(build: Build) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        command = [str(build.command), *arguments]
        done = subprocess.run(command, env=build.variables(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        said = [line for line in done.stderr.splitlines() if "is left out" not in line]  # processes of other tests
        assert done.stdout == "" and len(said) == 1
        return done.returncode, said[0]

    assert run("pause")[0] == 2
    assert run("pause", "--pid", "0")[0] == run("pause", "--pid", "x")[0] == run("resume", "--all", "--pid", "3")[0] == 2
    assert run("pause", "--all", "--tag", "no tag")[0] == run("pause", "--all", "--wait", "-1")[0] == 2
    code, text = run("pause", "--pid", str(os.getpid()))
    assert code == 1 and f"process {os.getpid()} does not run amem: start it with amem run" in text
    code, text = run("resume", "--pid", str(1 << 30))
    assert code == 1 and f"there is no process {1 << 30}" in text
    code, text = run("resume", "--group", "nobody")
    assert code == 1 and "there is no process of group nobody" in text


def test_a_safe_point_without_amem_does_nothing(build: Build) -> None:
    assert build.python("import amem; amem.safe_point(); print('done')", AMEM_ENABLE="0") == "done"


def test_functions_of_on_resume_run_after_a_safe_point(build: Build, tmp_path: Path) -> None:
    code = """
import ctypes, os, time, amem
library, cuda, context, p = ctypes.CDLL("libamem_nccl.so"), ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert library.amemMalloc(ctypes.byref(p), ctypes.c_size_t(4 << 20), b"masters", 1) == 0
calls = []
amem.on_resume("masters", lambda: calls.append(amem.state("masters")))
amem.on_resume("other", lambda: calls.append("other was not paused"))
print(os.getpid(), flush=True)
while not calls:
    amem.safe_point()
print(calls, flush=True)
"""
    group = f"alone.{os.getpid()}"
    settings = build.runtime_variables(AMEM_GROUP=group)
    child = subprocess.Popen([build.command, "run", "--", sys.executable, "-c", code], env=settings, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline().strip() == str(child.pid)
    for action in ("pause", "resume"):
        done = subprocess.run([build.command, action, "--group", group], env=settings, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr
    assert child.communicate(timeout=TIMEOUT_S)[0] == "['active']\n"


def test_functions_of_on_resume_run_after_a_pause_that_fails(build: Build) -> None:
    code = """
import ctypes, os, amem
from runtime_user import MIB, fill, read, user
def allocate(tag, backup):
    with amem.region(tag, backup=backup):
        pointer = user.user_malloc(4 * MIB)
    fill(pointer, 7, 4 * MIB)
    return pointer
made, kept = allocate("made", None), allocate("kept", "host")
amem.on_resume("made", lambda: fill(made, 5, 4 * MIB))
ctypes.CDLL("libcuda.so.1").amemSimSetFault(b"cuMemcpyDtoHAsync:1..=999")
print(os.getpid(), flush=True)
while read(made) == {7}:
    amem.safe_point()
print(read(made), read(kept), flush=True)
"""
    settings = build.runtime_variables(AMEM_GROUP=f"fails.{os.getpid()}")
    child = subprocess.Popen([build.command, "run", "--", sys.executable, "-c", code], env=settings, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline().strip() == str(child.pid)
    done = subprocess.run([build.command, "pause", "--pid", str(child.pid)], env=settings, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1 and "CUDA_ERROR_UNKNOWN" in done.stderr
    assert child.communicate(timeout=TIMEOUT_S)[0] == "{5} {7}\n"


def test_pause_of_the_program_stays_its_own(build: Build, tmp_path: Path) -> None:
    code = """
import ctypes, os, pathlib, sys, amem
library, cuda, context, p = ctypes.CDLL("libamem_nccl.so"), ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert library.amemMalloc(ctypes.byref(p), ctypes.c_size_t(4 << 20), b"weights", 0) == 0
amem.pause()
print(os.getpid(), flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    amem.safe_point()
print(amem.state("weights"), flush=True)
"""
    settings = build.runtime_variables(AMEM_GROUP=f"own.{os.getpid()}")
    child = subprocess.Popen([build.command, "run", "--", sys.executable, "-c", code, tmp_path / "end"], env=settings, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline().strip() == str(child.pid)

    def says(*arguments: str) -> str:
        command = [str(build.command), *arguments, "--pid", str(child.pid)]
        done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    for tag in ("nccl", "weights"):
        assert says("pause", "--tag", tag).startswith(f"process {child.pid}: 0 MiB released in ")
        assert ("0 MiB restored" if tag == "weights" else "not paused by amem pause") in says("resume")
    (tmp_path / "end").touch()
    assert child.communicate(timeout=TIMEOUT_S)[0] == "paused\n"


def test_an_interrupt_waits_for_the_resume(build: Build) -> None:
    code = """
import ctypes, os, signal, amem
library, cuda, context, p = ctypes.CDLL("libamem_nccl.so"), ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert library.amemMalloc(ctypes.byref(p), ctypes.c_size_t(4 << 20), b"weights", 0) == 0
print(os.getpid(), flush=True)
try:
    while True:
        amem.safe_point()
except KeyboardInterrupt:
    print(amem.state("weights"), flush=True)
"""
    group = f"interrupted.{os.getpid()}"
    settings = build.runtime_variables(AMEM_GROUP=group)

    def amem(action: str) -> None:
        command = [str(build.command), action, "--group", group]
        done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr

    with subprocess.Popen([str(build.command), "run", "--", sys.executable, "-c", code], env=settings, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline().strip() == str(child.pid)
        amem("pause")
        child.send_signal(signal.SIGINT)
        time.sleep(0.2)  # allow: it shows that nothing happens
        amem("resume")
        assert child.stdout.readline() == "active\n"
