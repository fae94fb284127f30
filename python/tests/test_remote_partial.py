# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem pause and amem resume of a job of which a rank is stopped, has no room or several threads: all ranks or none."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import test_remote
from conftest import TIMEOUT_S, Build
from test_remote import RIGHT, Job, Start

start = test_remote.start


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)  # allow: between two looks, under a deadline


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def state(job: Job, rank: int) -> str:
    return str(job.status(job.pids[rank])["remote"]["state"])


def continue_rank(job: Job, rank: int) -> None:
    os.kill(job.pids[rank], signal.SIGCONT)


@pytest.mark.parametrize("tag", [(), ("--tag", "nccl")])
def test_job_with_a_stopped_rank_is_not_paused(start: Start, tag: tuple[str, ...]) -> None:
    job = start()
    os.kill(job.pids[1], signal.SIGSTOP)
    done = job.amem("pause", "--group", job.group, *tag)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"amem: the job is not paused: process {job.pids[1]}: no reply within 2000 ms\n"
    assert state(job, 0) == "running"
    continue_rank(job, 1)
    assert job.goes_on()
    assert job.end() == RIGHT


def test_job_without_a_group_and_with_a_stopped_rank_is_not_paused(start: Start) -> None:
    job = start(AMEM_GROUP="")  # the ranks have one parent
    os.kill(job.pids[1], signal.SIGSTOP)
    done = job.amem("pause", "--pid", str(job.pids[0]))
    assert done.returncode == 3 and f"the job is not paused: process {job.pids[1]}: no reply" in done.stderr, done.stderr
    continue_rank(job, 1)
    assert job.goes_on()
    assert job.end() == RIGHT


def test_stopped_process_of_another_job_counts_for_that_one(start: Start) -> None:
    job, other = start(), start("other")
    os.kill(other.pids[0], signal.SIGSTOP)
    done = job.amem("pause", "--group", job.group)
    assert (done.returncode, done.stderr) == (0, "")
    assert job.amem("resume", "--group", job.group).returncode == 0
    continue_rank(other, 0)
    assert job.goes_on() and other.goes_on()
    assert job.end() == RIGHT == other.end()


def test_rank_that_starts_amem_after_the_command_is_paused_with_its_job(start: Start, build: Build, tmp_path: Path) -> None:
    group, go = f"late.{os.getpid()}", tmp_path / "go"
    variables, pauses = build.runtime_variables(), []

    def pause_the_first() -> None:
        def first() -> Any:
            status = json.loads(subprocess.run([build.command, "status", "--json"], env=variables, capture_output=True, check=False).stdout)
            return next((each for each in status["processes"] if each["group_name"] == group), None)

        until(first)
        pauses.append(subprocess.Popen([build.command, "pause", "--group", group], env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        until(lambda: first()["remote"]["pid"] == pauses[0].pid)
        go.touch()

    late = ["sh", "-c", f'until [ -e "{go}" ]; do sleep 0.01; done; exec "$@"', "sh"]
    with ThreadPoolExecutor() as beside:
        pausing = beside.submit(pause_the_first)
        job = start("late", only={1: late})
        pausing.result(TIMEOUT_S)
    out, err = pauses[0].communicate(timeout=TIMEOUT_S)
    assert (pauses[0].returncode, out.count("\n"), err) == (0, 2, "")
    assert [state(job, rank) for rank in (0, 1)] == ["paused"] * 2
    assert job.amem("resume", "--group", job.group).returncode == 0
    assert job.goes_on()
    assert job.end() == RIGHT


def test_rank_that_is_stopped_while_it_is_held_does_not_pause_later(start: Start) -> None:
    job = start(points=(1, 0))  # the second never comes: the command repeats its requests
    command = [str(job.build.command), "pause", "--group", job.group, "--wait", "60"]
    with subprocess.Popen(command, env=job.variables, stderr=subprocess.PIPE, text=True) as pause:
        until(lambda: state(job, 0) == "held")
        os.kill(job.pids[0], signal.SIGSTOP)
        said = pause.communicate(timeout=TIMEOUT_S)[1]
    assert pause.returncode == 3 and said.startswith(f"amem: the job is not paused: process {job.pids[0]}: no reply"), said
    continue_rank(job, 0)
    assert job.goes_on()
    assert job.end() == RIGHT


@pytest.mark.parametrize("point", ["pause_begun", "pause_half_released"])
def test_rank_that_is_stopped_in_its_pause(start: Start, build: Build, point: str) -> None:
    seeded = build.folder / "tests" / "seeded" / "lib" / "libamem_nccl.so"
    assert seeded.exists()
    job = start(only={1: [f"LD_PRELOAD={seeded}", f"AMEM_TEST_STEP_POINT={point}={int(signal.SIGSTOP)}"]})
    done = job.amem("pause", "--group", job.group, "--wait", "1")  # the other waits for the reply of this one
    assert is_stopped(job.pids[1])
    other, stopped = job.pids
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert done.stderr.startswith(
        f"amem: the job is not paused: process {stopped}: no reply within 2000 ms; it may be paused when it continues: amem resume --pid {stopped}"
    )
    # Both have released what they imported from each other: the other one cannot resume without this one.
    stays = state(job, 0) == "paused"
    assert (f"; process {other}: " in done.stderr and "amem status says what is paused" in done.stderr) == stays, done.stderr
    continue_rank(job, 1)
    until(lambda: state(job, 1) != "pausing")  # paused, or running: its deadline may have passed
    resumed = job.amem("resume", "--pid", str(stopped))
    assert resumed.returncode == 0, resumed.stderr
    assert job.goes_on()
    assert job.end() == RIGHT


HOLD_ROOM = """
import ctypes, sys
cuda, context, p = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1) == 0 and cuda.cuCtxSetCurrent(context) == 0
free, total = ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(free.value - (2 << 20))) == 0
print("held", flush=True)
sys.stdin.read()
"""


def test_ranks_of_which_one_has_no_room_stay_paused(start: Start, build: Build) -> None:
    job = start()
    assert job.amem("pause", "--group", job.group, "--tag", "weights").returncode == 0
    paused = [job.status(pid)["remote"] for pid in job.pids]
    steps = job.steps()
    other = ["/usr/bin/env", "AMEM_ENABLE=0", "python3", "-c", HOLD_ROOM]
    with subprocess.Popen(other, env=job.variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        for _ in range(2):
            done = job.amem("resume", "--group", job.group, "--wait", "0.5")
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.startswith(f"amem: the job is not resumed: process {job.pids[1]}: ") and done.stderr.count("\n") == 1, done.stderr
            for pid, before in zip(job.pids, paused):
                found = job.status(pid)
                assert found["remote"]["state"] == "paused" and found["remote"]["tags"] == before["tags"] == ["weights"]
                assert found["tags"]["weights"]["resident_bytes"] == 0 and found["tags"]["nccl"]["state"] == "active"
        holder.communicate(timeout=TIMEOUT_S)
    assert job.steps() == steps
    assert job.amem("resume", "--group", job.group).returncode == 0
    assert job.goes_on()
    assert job.end() == RIGHT


def test_resume_that_is_interrupted_goes_on_without_its_command(start: Start) -> None:
    job = start()
    assert job.amem("pause", "--group", job.group, "--tag", "weights").returncode == 0
    other = ["/usr/bin/env", "AMEM_ENABLE=0", "python3", "-c", HOLD_ROOM]
    with subprocess.Popen(other, env=job.variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        command = [str(job.build.command), "resume", "--group", job.group, "--wait", str(TIMEOUT_S)]
        with subprocess.Popen(command, env=job.variables) as resume:
            until(lambda: [state(job, rank) for rank in (0, 1)] == ["held", "resuming"])
            resume.send_signal(signal.SIGINT)
            assert resume.wait(TIMEOUT_S) == -signal.SIGINT
        holder.communicate(timeout=TIMEOUT_S)
    assert job.goes_on()
    assert job.end() == RIGHT


def test_rank_that_is_stopped_in_its_resume(start: Start, build: Build) -> None:
    seeded = build.folder / "tests" / "seeded" / "lib" / "libamem_nccl.so"
    job = start(only={1: [f"LD_PRELOAD={seeded}", f"AMEM_TEST_STEP_POINT=resume_half_created={int(signal.SIGSTOP)}"]})
    assert job.amem("pause", "--group", job.group).returncode == 0
    done = job.amem("resume", "--group", job.group, "--wait", "1")
    assert is_stopped(job.pids[1])
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"amem: the job is not resumed: process {job.pids[1]}: no reply within 2000 ms\n"
    assert state(job, 0) == "paused"
    continue_rank(job, 1)
    until(lambda: state(job, 1) != "resuming")
    again = job.amem("resume", "--group", job.group)
    assert again.returncode == 0, again.stderr
    assert job.goes_on()
    assert job.end() == RIGHT


@pytest.mark.parametrize("action, point", [("pause", "pause_begun"), ("resume", "resume_half_created")])
def test_job_that_ends_meanwhile_is_an_error(start: Start, build: Build, action: str, point: str) -> None:
    seeded = build.folder / "tests" / "seeded" / "lib" / "libamem_nccl.so"
    job = start(ranks=1, only={0: [f"LD_PRELOAD={seeded}", f"AMEM_TEST_STEP_POINT={point}={int(signal.SIGKILL)}"]})
    if action == "resume":
        assert job.amem("pause", "--group", job.group).returncode == 0
    done = job.amem(action, "--group", job.group)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"amem: the job is not {action}d: its processes have ended\n")


def test_resume_beside_one_that_waits_for_room(start: Start) -> None:
    def act(action: str, job: Job, *options: str) -> None:
        done = job.amem(action, "--group", job.group, *options)
        assert done.returncode == 0, done.stderr

    jobs = []
    for name in ("one", "two", "three"):
        jobs.append(start(name, mib=600, AMEM_SIM_MEMORY_MB="1024"))  # room for one
        if name != "three":
            act("pause", jobs[-1])
    one, two, three = jobs
    command = [str(one.build.command), "resume", "--group", one.group, "--wait", str(TIMEOUT_S)]
    with subprocess.Popen(command, env=one.variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
        until(lambda: [state(one, rank) for rank in (0, 1)] == ["resuming"] * 2)
        done = two.amem("resume", "--group", two.group, "--wait", "0.5")
        assert done.returncode == 1 and done.stderr.startswith("amem: the job is not resumed: process "), done.stderr
        assert [state(two, rank) for rank in (0, 1)] == ["paused"] * 2
        assert three.goes_on() and waiting.poll() is None
        act("pause", three)
        said = waiting.communicate(timeout=TIMEOUT_S)
    assert waiting.returncode == 0, said
    assert one.goes_on()
    act("pause", one)
    act("resume", two)
    assert two.end() == RIGHT
    for job in (one, three):
        act("resume", job)
        assert job.end() == RIGHT
