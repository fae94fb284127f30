# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem why, against live processes."""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import TIMEOUT_S, Amem, assert_sentence

SOURCE = Path(os.environ["AMEM_TEST_SOURCE"])
MIB = 1 << 20
LOOP = """
print("ready", flush=True)
for line in sys.stdin:
    eval(line)
    print("done", flush=True)
"""
JOB = """
import sys
import amem
from runtime_user import MIB, user
with amem.region("weights"):
    weights = user.user_malloc(150 * MIB)
def load_cache():
    return user.user_malloc(120 * MIB)
cache, other = load_cache(), user.user_malloc(4 * MIB)
"""


NCCL_JOB = """
import os, sys
from nccl_job import Job, look_up, open_by_ctypes
import amem
job = Job(look_up(open_by_ctypes("libnccl.so.2", os.RTLD_NOW)))
"""


class Job:
    def __init__(self, amem: Amem, machine: Path, code: str = JOB, **settings: str) -> None:
        self.amem = amem
        build = amem.folder
        self.settings = {
            "LD_LIBRARY_PATH": str(build / "sim"),
            "AMEM_SIM_DIR": str(machine),
            "AMEM_SIM_DEVICES": "2",
            "AMEM_SIM_MEMORY_MB": "512",
        }
        python = {"PYTHONPATH": f"{SOURCE}/python:{SOURCE}/python/tests", "TEST_LIBRARIES": str(build / "tests" / "interpose" / "programs")}
        self.process = subprocess.Popen(
            [amem.command, "run", sys.executable, "-c", code + LOOP],
            env=amem.variables(**{**self.settings, **python, **settings}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid

    def does(self, expression: str) -> None:
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def why(self, *options: object, **settings: str) -> subprocess.CompletedProcess[str]:
        return self.amem("why", self.pid, *options, **{**self.settings, **settings})

    def found(self, **settings: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = json.loads(self.why("--json", **settings).stdout)["gpus"]
        assert len(found) == 1
        return found[0]

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=TIMEOUT_S)


@pytest.fixture
def job(amem: Amem, tmp_path: Path) -> Iterator[Job]:
    job = Job(amem, tmp_path / "machine", AMEM_ATTRIBUTION="1")
    yield job
    job.end()


def owners(gpu: dict[str, Any]) -> dict[str, float]:
    (process,) = gpu["processes"]
    return {owner["owner"]: owner["bytes"] / MIB for owner in process["owners"]}


def test_every_byte_has_an_owner(job: Job) -> None:
    gpu = job.found()
    assert owners(gpu) == {"weights": 150, "libruntime_user_now.so": 124, "stacks of kernels (local memory)": 8}
    assert (gpu["used_bytes"], gpu["total_bytes"], gpu["not_attributed_bytes"]) == (282 * MIB, 512 * MIB, 0)
    (cache,) = [owner for owner in gpu["processes"][0]["owners"] if "allocations" in owner]
    assert (cache["allocations"], cache["largest_bytes"]) == (2, 120 * MIB)
    assert cache["largest_at"].startswith("libruntime_user_now.so+0x")
    has_stack = hasattr(ctypes.pythonapi, "_Py_DumpTraceback")
    assert cache["largest_at"].endswith(": <string>:8 in load_cache, <string>:9 in <module>") == has_stack

    job.does("user.user_free(cache)")
    job.does("amem.pause('weights')")
    gpu = job.found()
    assert owners(gpu) == {"libruntime_user_now.so": 4, "stacks of kernels (local memory)": 8}
    assert gpu["not_attributed_bytes"] == 0


def test_memory_of_nccl_by_use(amem: Amem, tmp_path: Path) -> None:
    """The job has 80,000 bytes of its own on each GPU, in pages of 2 MiB."""
    job = Job(amem, tmp_path / "machine", NCCL_JOB, AMEM_ATTRIBUTION="1")
    try:
        for gpu in json.loads(job.why("--json").stdout)["gpus"]:
            found = owners(gpu)
            assert found["nccl, buffers of this process"] > 0 and found["stacks of kernels (local memory)"] == 8, found
            assert gpu["not_attributed_bytes"] == 2 * MIB - 80_000, gpu
        job.does("amem.pause('nccl')")
        for gpu in json.loads(job.why("--json").stdout)["gpus"]:
            assert not [owner for owner in owners(gpu) if owner.startswith("nccl") and "never released" not in owner]
            assert gpu["not_attributed_bytes"] == 2 * MIB - 80_000, gpu
    finally:
        job.end()


def test_table(job: Job) -> None:
    done = job.why()
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0] == "GPU 0: 282.0 MiB of 512.0 MiB in use" and lines[1].startswith(f"pid {job.pid}: ")
    assert lines[2:4] == ["    150.0 MiB  weights", "               -> amem.pause('weights') releases it"]
    assert lines[4].startswith("    124.0 MiB  libruntime_user_now.so, 2 allocations, the largest was 120.0 MiB at libruntime_user_now.so+0x")
    assert lines[5:] == [
        "               -> amem run --tensors TAG gives it a tag, which a pause releases",
        "      8.0 MiB  stacks of kernels (local memory)",
        "all processes",
        "          0 B  not attributed: CUDA contexts, kernels, rounding to pages, the driver, other programs",
    ]


def test_what_nvml_reports_of_a_process_is_its_sum(job: Job) -> None:
    """The fake NVML says 2 GiB for each process."""
    nvml = {"LD_LIBRARY_PATH": str(job.amem.folder / "tests" / "fake_nvml"), "AMEM_TEST_NVML_PIDS": f"{job.pid},{os.getpid()}"}
    gpu = job.found(**nvml)
    (process,) = gpu["processes"]
    assert (process["bytes"], process["not_attributed_bytes"]) == (2 << 30, (2048 - 282) * MIB)
    assert (gpu["others"], gpu["not_attributed_bytes"]) == ([{"pid": os.getpid(), "bytes": 2 << 30}], 0)
    assert job.why(**nvml).stdout.splitlines()[-2:] == [
        "      1.7 GiB  not attributed: CUDA contexts, kernels, rounding to pages",
        f"pid {os.getpid()}: 2.0 GiB of a program without amem or of another user",
    ]


def test_context_is_what_nvml_reports_before_the_first_allocation(amem: Amem, tmp_path: Path) -> None:
    """Without its local memory. The fake NVML says 2 GiB for each process."""
    fake = str(amem.folder / "tests" / "fake_nvml")
    code = "import os; os.environ['AMEM_TEST_NVML_PIDS'] = str(os.getpid())\n" + JOB
    job = Job(amem, tmp_path / "machine", code, AMEM_ATTRIBUTION="1", LD_LIBRARY_PATH=f"{fake}:{amem.folder / 'sim'}")
    try:
        assert owners(job.found())["CUDA context"] == 2048 - 8
        assert job.why().stdout.splitlines()[-1].endswith("not attributed: kernels, rounding to pages, the driver, other programs")
    finally:
        job.end()


VMM_JOB = (
    JOB
    + """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
PROPERTIES = (ctypes.c_int * 8)(1, 0, 1, 0)  # CUmemAllocationProp: pinned memory of device 0
handle = ctypes.c_uint64()
assert driver.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(64 * MIB), PROPERTIES, ctypes.c_uint64(0)) == 0
"""
)


def test_memory_of_a_library_that_calls_the_driver_s_virtual_memory_management(amem: Amem, tmp_path: Path) -> None:
    """As XLA's allocator."""
    job = Job(amem, tmp_path / "machine", VMM_JOB, AMEM_ATTRIBUTION="1")
    try:
        assert sorted(owners(job.found()).values()) == [8, 64, 124, 150]
        job.does("driver.cuMemRelease(handle)")
        assert sorted(owners(job.found()).values()) == [8, 124, 150]
    finally:
        job.end()


def test_without_the_setting_libraries_are_not_named(amem: Amem, tmp_path: Path) -> None:
    job = Job(amem, tmp_path / "machine")
    try:
        assert owners(job.found()) == {"weights": 150, "stacks of kernels (local memory)": 8}
        assert job.why().stdout.splitlines()[-1] == (
            "    124.0 MiB  not attributed: CUDA contexts, kernels, rounding to pages, libraries (AMEM_ATTRIBUTION=1 names them), the driver, other programs"
        )
    finally:
        job.end()


def test_process_that_does_not_answer(job: Job) -> None:
    job.process.send_signal(signal.SIGSTOP)
    done = job.why()
    job.process.send_signal(signal.SIGCONT)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"pid {job.pid} did not answer: no reply within 5000 ms\n"


def reply_with(*owners: dict[str, Any], **more: Any) -> str:
    return json.dumps({"gpus": [{"gpu": "GPU-1", "owners": list(owners), **more}], "names_libraries": False})


@pytest.mark.parametrize(
    "reply",
    [
        "{}",
        "no JSON",
        reply_with({}),
        reply_with({"bytes": 1}),
        reply_with({"owner": "x", "bytes": -5}),
        reply_with({"owner": "x", "bytes": 1, "largest_at": "y"}),
        reply_with(total_bytes="x"),
        json.dumps({"gpus": [{"gpu": "GPU-1", "owners": []}, {"gpu": "GPU-2"}], "names_libraries": False}),
    ],
)
def test_reply_that_cannot_be_parsed(amem: Amem, reply: str) -> None:
    child = subprocess.Popen([amem.folder / "tests" / "cli_status_peer", reply], env=amem.variables(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        done = amem("why", child.pid)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr == f"pid {child.pid} did not answer: its reply cannot be parsed: it may be another version of amem\n"
    finally:
        child.communicate(timeout=TIMEOUT_S)


@pytest.mark.parametrize("command", ["why", "status"])
def test_reply_with_control_characters_is_none(amem: Amem, command: str) -> None:
    reply = reply_with({"owner": "x\x1b[31mRED\nGPU 1", "bytes": 1})
    arguments = [str(amem.folder / "tests" / "cli_status_peer"), reply, "\x7f\x1b[31m"]
    child = subprocess.Popen(arguments, env=amem.variables(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        done = amem(command, *(["--pid"] if command == "status" else []), child.pid)
        assert done.returncode == 3 and "cannot be parsed" in done.stdout + done.stderr
        assert all(" " <= c <= "~" or c == "\n" for c in done.stdout + done.stderr)
    finally:
        child.communicate(timeout=TIMEOUT_S)


def test_processes_that_nvml_names_as_another_namespace_does_are_not_counted_twice(job: Job) -> None:
    nvml = {"LD_LIBRARY_PATH": str(job.amem.folder / "tests" / "fake_nvml"), "AMEM_TEST_NVML_PIDS": "4194000"}
    gpu = job.found(**nvml)
    assert (gpu["others"], gpu["not_attributed_bytes"]) == ([], (2048 - 282) * MIB)


def test_process_without_amem(amem: Amem) -> None:
    assert_sentence(amem("why", os.getpid()), 1, f"process {os.getpid()} does not run amem: start it with amem run")
    assert_sentence(amem("why", 1 << 30), 1, f"there is no process {1 << 30}")
    assert_sentence(amem("why", "0"), 2, "0 is not the number of a process")


def test_json_of_no_processes_is_json(amem: Amem) -> None:
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    alone = ["unshare", *user, "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /dev/shm && exec "$@"', "sh"]  # no other test's processes
    for options, code, said in (["--json"], 0, {"schema": 1, "gpus": []}), ([], 1, None):
        done = subprocess.run(
            [*alone, amem.command, "why", *options], env=amem.variables(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode == code and (json.loads(done.stdout) == said if said else "has memory with amem" in done.stderr)
