# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Errors of the library are exceptions with the figures that a program needs."""

from conftest import Build

START = """
import ctypes, os, amem
from runtime_user import MIB, fill, user
cuda = ctypes.CDLL("libcuda.so.1")
with amem.region("weights"):
    weights = [user.user_malloc(32 * MIB) for _ in range(8)]
for each in weights:
    fill(each, 5, 32 * MIB)
amem.pause("weights")
"""


def test_resume_that_lacks_memory_has_the_figures(build: Build) -> None:
    code = """
others = [user.user_malloc(32 * MIB) for _ in range(12)]
assert None not in others
try:
    amem.resume("weights")
except amem.OutOfMemory as error:
    print(error.code, error.device, error.wanted // MIB, error.free < error.wanted, isinstance(error, amem.AmemError))
    print(set(error.holders) <= {os.getpid()}, all(size is None or size > 0 for size in error.holders.values()))
for other in others:
    user.user_free(other)
amem.resume("weights")
try:
    amem.pause("context")
except amem.AmemError as error:
    print(type(error).__name__, error.code)
"""
    assert build.runtime_job(START + code).splitlines() == ["101 0 256 True True", "True True", "AmemError 5"]


def test_deadline_that_passes(build: Build) -> None:
    code = """
try:
    amem.resume("weights", timeout=0.1)
except amem.Timeout as error:
    print(error.code, isinstance(error, TimeoutError))
amem.resume("weights", timeout=60)
"""
    assert build.runtime_job(START + code, AMEM_SIM_DELAY_US="cuMemcpyHtoDAsync=50000") == "100 True"


def test_error_of_another_thread_does_not_replace_that_of_the_last_call(build: Build) -> None:
    code = """
import ctypes, threading, amem
library = ctypes.CDLL("libamem_nccl.so")
library.amemGetLastError.restype = ctypes.c_char_p
def other():
    library.amemPause(b"second,")
def told():
    return library.amemGetLastError().decode().split(":")[0]
library.amemResume(b"first,")
thread = threading.Thread(target=other)
thread.start()
thread.join()
print(told(), told())
library.amemResume(None)
print(told())
"""
    assert build.job(code).splitlines() == ["amemResume failed amemResume failed", "amemPause failed"]
