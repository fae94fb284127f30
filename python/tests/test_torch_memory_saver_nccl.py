# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""AMEM_TMS: the interface of torch_memory_saver pauses NCCL's memory too."""

from collections.abc import Callable

import pytest

from conftest import Build
from test_torch_memory_saver import START


@pytest.fixture
def run(build: Build) -> Callable[..., str]:
    return lambda code, **settings: build.runtime_job(START + code, **settings)


NCCL_JOB = """
from nccl_job import Job, look_up, open_by_ctypes
job = Job(look_up(open_by_ctypes("libnccl.so.2", os.RTLD_NOW)))
"""


def test_nccl_is_paused_with_the_tag_that_a_variable_names(run: Callable[..., str]) -> None:
    code = "import os" + NCCL_JOB + """
with saver.region(tag="weights"):
    user.user_malloc(4 * MIB)
for tag in ("other", "weights", None):
    saver.pause(tag)
    print(amem.state("nccl"))
    saver.resume(tag)
print(amem.state("nccl"))
"""
    assert run(code, AMEM_TMS="weights").split() == ["active", "paused", "paused", "active"]


def test_symmetric_memory_leaves_with_nccl_and_so_does_the_local_memory_of_the_context(run: Callable[..., str]) -> None:
    code = "import os" + NCCL_JOB + """
import ctypes
c10 = ctypes.CDLL(os.environ["TEST_LIBRARIES"] + "/libc10_cuda.so")
c10.c10_init()
c10.c10_symmetric.restype = ctypes.c_uint64
symmetric = c10.c10_symmetric(ctypes.c_size_t(4 * MIB), ctypes.byref(ctypes.c_uint64(0)))
fill(symmetric, 7)
with saver.region(tag="weights"):
    user.user_malloc(4 * MIB)
for tag in ("other", "weights", None):
    saver.pause(tag)
    print(amem.state("symmetric"), totals("symmetric")["resident_bytes"] // MIB, amem.stats()["context_bytes"] > 0)
    saver.resume(tag)
print(amem.state("symmetric"), read(symmetric))
"""
    assert run(code, AMEM_TMS="weights").splitlines() == ["active 4 False", "paused 0 True", "paused 0 True", "active {7}"]


def test_calls_of_a_program_that_knows_of_no_pause_of_nccl_resume_it(run: Callable[..., str]) -> None:
    code = "import os" + NCCL_JOB + """
with saver.region(tag="weights"):
    user.user_malloc(4 * MIB)
saver.pause("weights")
print(amem.state("nccl"), job.all_reduce(), amem.state("nccl"), amem.state("weights"))
saver.resume("weights")
print(job.all_reduce(), amem.state("weights"))
"""
    assert run(code, AMEM_TMS="weights").splitlines() == [
        "paused [[3.0], [3.0]] active paused", "[[3.0], [3.0]] active"
    ]


def test_pause_of_nccl_that_is_refused_does_not_keep_the_tensors(run: Callable[..., str]) -> None:
    code = "import os" + NCCL_JOB + """
import logging, sys
logging.basicConfig(stream=sys.stdout, format="%(message)s")
import amem.torch_memory_saver.entrypoint as module
real = module._pause
def refuse_nccl(*tags):
    if "nccl" in tags:
        raise amem.AmemError("a copy of NCCL may be running")
    return real(*tags)
module._pause = refuse_nccl
with saver.region(tag="weights"):
    user.user_malloc(4 * MIB)
saver.pause("weights")
print(totals("weights")["resident_bytes"], amem.state("nccl"))
saver.resume("weights")
print(job.all_reduce())
"""
    assert run(code, AMEM_TMS="weights").splitlines() == [
        "Memory with the tags nccl stays on the GPU: a copy of NCCL may be running", "0 active", "[[3.0], [3.0]]"
    ]


def test_tensors_that_cannot_be_paused_are_an_error(run: Callable[..., str]) -> None:
    code = "import os" + NCCL_JOB + """
import logging, sys
logging.basicConfig(stream=sys.stdout, format="%(message)s")
with saver.region(tag="weights", enable_cpu_backup=True):
    fill(user.user_malloc(4 * MIB), 7)
try:
    saver.pause("weights")
except amem.AmemError as error:
    print("AMEM_HOST_LIMIT" in str(error), amem.state("weights"), amem.state("nccl"))
"""
    assert run(code, AMEM_TMS="weights", AMEM_HOST_LIMIT="1") == "True active active"


def test_nccl_is_not_paused_in_a_process_without_its_memory(run: Callable[..., str]) -> None:
    code = """
import os
with saver.region(tag="weights"):
    user.user_malloc(4 * MIB)
saver.pause("weights")
""" + NCCL_JOB + """
print(amem.state("weights"), job.all_reduce())
"""
    assert run(code, AMEM_TMS="weights") == "paused [[3.0], [3.0]]"


def test_nccl_is_kept_where_no_memory_has_the_tag_that_a_variable_names(run: Callable[..., str]) -> None:
    code = """
import os
from nccl_job import Job, look_up, open_by_ctypes
user.user_malloc(4 * MIB)
saver.pause()
print(amem.state("default"), amem.state("nccl"))
nccl = look_up(open_by_ctypes("libnccl.so.2", os.RTLD_NOW))
print(Job(nccl).all_reduce())  # as slime's trainers, which recreate their process groups before they resume
saver.pause("weights")
print(amem.state("nccl"))
saver.resume()
print(amem.state("default"), amem.state("nccl"))
"""
    settings = {"AMEM_TMS": "weights", "TMS_INIT_ENABLE": "1", "TMS_INIT_ENABLE_CPU_BACKUP": "1"}
    assert run(code, **settings).splitlines() == ["paused active", "[[3.0], [3.0]]", "paused", "active active"]
