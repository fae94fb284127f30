# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Every way in which Python reaches NCCL: amem catches its calls, whether preloaded or imported afterwards."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import TIMEOUT_S, Build, in_mounts

JOB = Path(__file__).with_name("nccl_job.py")
RIGHT = [[3.0], [3.0]]  # 1 + 2 on both GPUs

needs_cffi = pytest.mark.skipif(
    importlib.util.find_spec("cffi") is None, reason=f"{sys.executable} has no cffi: install python3-cffi"
)
BINDINGS = ["ctypes", pytest.param("cffi", marks=needs_cffi)]
# NCCL as PyTorch finds it, as VLLM_NCCL_SO_PATH names it, and with symbols of its own first.
OPENED = {"by name": ("", "NOW"), "by path": ("/", "NOW"), "deep": ("", "NOW|DEEPBIND")}


@pytest.fixture
def run_job(build: Build) -> Callable[..., dict[str, Any]]:
    def run(binding: str, opened: str = "by name", *arguments: str, preloaded: bool = False) -> dict[str, Any]:
        """What nccl_job.py has seen; without a preload amem is found on PATH."""
        kind, mode = OPENED[opened]
        nccl = str(build.simulator / "libnccl.so.2") if kind else "libnccl.so.2"
        prefix = [str(build.command), "run", "--"] if preloaded else []
        done = subprocess.run(
            [*prefix, sys.executable, str(JOB), binding, nccl, mode, *arguments],
            env=build.variables(PATH=f"{build.command.parent}:/usr/bin:/bin", GMM_LOG="2"),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        seen: dict[str, Any] = json.loads(done.stdout)
        return seen

    return run


@pytest.mark.parametrize("preloaded", [True, False], ids=["preloaded", "imported"])
@pytest.mark.parametrize("opened", OPENED)
@pytest.mark.parametrize("binding", BINDINGS)
def test_calls_of_nccl_are_caught(build: Build, run_job: Callable[..., dict[str, Any]], binding: str, opened: str, preloaded: bool) -> None:
    seen = run_job(binding, opened, preloaded=preloaded)

    assert "refused" not in seen
    assert seen["before"] == seen["after"] == RIGHT
    assert seen["paused"]["released_bytes"] == seen["paused"]["allocated_bytes"] > 0
    assert seen["paused"]["all_reduce"] == {"code": 5}  # ncclInvalidUsage
    assert seen["ncclPause"] is True

    [nccl] = seen["interposition"]["nccl"]
    assert Path(nccl["path"]).resolve() == (build.simulator / "libnccl.so.2").resolve()
    assert nccl["refusal"] == ""
    assert nccl["calls"]["ncclCommInitAll"] == 1
    assert nccl["calls"]["ncclAllReduce"] == 6  # on two GPUs: before, while paused, after
    module = {"ctypes": "_ctypes", "cffi": "_cffi_backend"}[binding]
    assert any(slot["symbol"] == "dlsym" and module in slot["path"] for slot in seen["interposition"]["slots"])


@pytest.mark.parametrize("binding", BINDINGS)
def test_import_after_the_first_communicator_refuses_to_pause(run_job: Callable[..., dict[str, Any]], binding: str) -> None:
    seen = run_job(binding, "by name", "communicators")

    assert seen["refused"]["code"] == 5
    assert "amem was loaded after NCCL had been initialized; import amem before" in seen["refused"]["text"]
    assert seen["before"] == seen["after"] == RIGHT
    [nccl] = seen["interposition"]["nccl"]
    assert nccl["refusal"] in seen["refused"]["text"]


@pytest.mark.parametrize("binding", BINDINGS)
def test_function_pointers_from_before_the_import_refuse_the_pause(run_job: Callable[..., dict[str, Any]], binding: str) -> None:
    seen = run_job(binding, "by name", "functions")

    assert seen["refused"]["code"] == 5
    assert "by a function pointer from before amem was loaded" in seen["refused"]["text"]
    assert seen["before"] == seen["after"] == RIGHT


@pytest.mark.parametrize("first", ["import amem", "nccl = ctypes.CDLL('libnccl.so.2')"])
def test_added_functions_are_found_on_nccl(build: Build, first: str) -> None:
    code = f"""
import ctypes
{first}
import amem
nccl = ctypes.CDLL('libnccl.so.2')
print(nccl.ncclPause(None), amem.state(), nccl.ncclResume(None), amem.state(), amem.enabled())
"""
    assert build.python(code, PATH=str(build.command.parent)) == "0 paused 0 active True"


def test_stock_nccl_has_none_of_them_without_amem(build: Build) -> None:
    code = "import ctypes, amem; print(hasattr(ctypes.CDLL('libnccl.so.2'), 'ncclPause'))"

    assert build.python(code, PATH=str(build.command.parent), AMEM_ENABLE="0") == "False"


def test_interposition_is_empty_before_nccl_is_loaded(build: Build) -> None:
    code = "import amem; print(amem.interposition()['nccl'])"

    assert build.python(code, PATH=str(build.command.parent)) == "[]"


SUSPEND = """
import ctypes, os, amem
os.dup2(1, 2)
nccl = ctypes.CDLL(os.environ["TEST_LIBRARIES"] + "/libfake_dynamic_nccl.so")
print(nccl.ncclCommSuspend(None, 1), nccl.ncclCommSuspend(None, 1))
"""


def test_native_suspend_says_once_that_slabs_stay(build: Build) -> None:
    warning = "ncclCommSuspend() frees almost no GPU memory"
    text = build.runtime_job(SUSPEND)
    assert text.endswith("71 71") and text.count(warning) == 1
    text = build.runtime_job(SUSPEND, AMEM_SLAB="0")
    assert text.endswith("71 71") and warning not in text


def test_processes_that_cannot_meet_are_told_once(build: Build) -> None:
    """Where /dev/shm is read-only: not at each communicator and allocation."""
    code = """
import ctypes
import amem
from nccl_job import Floats
from amem.calls import Int, call
Floats(0)
pointers = [ctypes.c_void_p() for _ in range(3)]
for pointer in pointers:
    call("amemMalloc", ctypes.byref(pointer), 1 << 20, ctypes.c_char_p(b"weights"), Int(0))
"""
    done = subprocess.run(
        [*in_mounts("mount -t tmpfs -o ro none /dev/shm"), str(build.command), "run", sys.executable, "-c", code],
        env={**build.variables(), "PYTHONPATH": f"{JOB.parent.parent}:{JOB.parent}"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert (done.returncode, done.stderr.count("other processes cannot reach this one: ")) == (0, 1), done.stderr
