# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Resumes that wait for memory, and switches, on the simulated GPU."""

from conftest import Build

# Tags "a" and "b" of 40 MiB each, on a GPU with room for one of them.
TWO_TAGS = """
import ctypes, threading, amem
library = ctypes.CDLL("libamem_nccl.so")
cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
def allocate(tag):
    pointer = ctypes.c_void_p()
    assert library.amemMalloc(ctypes.byref(pointer), ctypes.c_size_t(40 << 20), tag.encode(), 0) == 0, amem.last_error()
    assert cuda.cuMemsetD8_v2(pointer, ord(tag), ctypes.c_size_t(40 << 20)) == 0
    return pointer
def right(tag, pointer):
    out = ctypes.create_string_buffer(40 << 20)
    assert cuda.cuMemcpyDtoH_v2(out, pointer, ctypes.c_size_t(40 << 20)) == 0
    return out.raw == tag.encode() * (40 << 20)
a = allocate("a")
amem.pause("a")
b = allocate("b")
"""


def run(build: Build, code: str, **settings: str) -> list[str]:
    return build.runtime_job(TWO_TAGS + code, AMEM_SIM_MEMORY_MB="64", **settings).splitlines()


def test_resume_waits_for_a_pause_of_another_thread(build: Build) -> None:
    code = """
thread = threading.Thread(target=lambda: amem.resume("a", wait=60))
thread.start()
while amem.state("a") == "paused": pass
amem.pause("b")
thread.join()
print(amem.state("a"), amem.state("b"), right("a", a))
"""
    assert run(build, code) == ["active paused True"]


def test_wait_that_ends_is_out_of_memory(build: Build) -> None:
    code = """
for arguments in ({"wait": 0.05}, {"wait": 0}, {}):
    try:
        amem.resume("a", **arguments)
    except amem.OutOfMemory as error:
        print(amem.state("a"), error.wanted > error.free, "waited 50 ms" in str(error))
"""
    assert run(build, code) == ["paused True True", "paused True False", "paused True False"]


def test_setting_is_the_wait_of_all_resumes(build: Build) -> None:
    code = """
try:
    amem.resume("a")
except amem.OutOfMemory as error:
    print("waited 60 ms" in str(error))
"""
    assert run(build, code, AMEM_RESUME_WAIT_MS="60") == ["True"]


def test_switch_pauses_one_and_resumes_the_other(build: Build) -> None:
    code = """
out, into = amem.switch(pause=["b"], resume=["a"], wait=60)
print(amem.state("a"), amem.state("b"), right("a", a), out.released_bytes >> 20, into.resident_bytes >> 20)
amem.switch(pause=("a",), resume=("b",), wait=60)
print(amem.state("a"), amem.state("b"), right("b", b))
"""
    assert run(build, code) == ["active paused True 40 40", "paused active True"]


def test_arguments_that_are_wrong_are_refused(build: Build) -> None:
    code = """
def refused(call):
    try:
        call()
    except amem.AmemError as error:
        print(error)
refused(lambda: amem.resume("a", wait=-1))
refused(lambda: amem.resume("a", wait=True))
refused(lambda: amem.resume("a", wait=1e9))
refused(lambda: amem.switch(pause="b", resume=["a"]))
refused(lambda: amem.switch(pause=[], resume=["a"]))
refused(lambda: amem.switch(pause=["b"], resume=["a", "b"]))
print(amem.state("a"), amem.state("b"))
"""
    lines = run(build, code)
    assert lines[:3] == [f"the wait is {value}, not a number of seconds from 0 to 86400" for value in ("-1", "True", "1000000000.0")]
    assert lines[3:6] == [
        "a switch needs a list of tags to pause and a list of tags to resume, not 'b'",
        "a switch needs tags to pause and other tags to resume, not () and ('a',)",
        "a switch needs tags to pause and other tags to resume, not ('b',) and ('a', 'b')",
    ]
    assert lines[6] == "paused active"
