# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A library with an allocator over the driver's virtual memory management, as XLA's and vLLM's, under amem run --tensors."""

import subprocess
from collections.abc import Callable

import pytest

from conftest import Actor, Build

# Found with dlsym(3), or with cuGetProcAddress().
PROGRAM = """
import ctypes
import amem
from runtime_user import MIB, fill, read, runtime, user
driver = ctypes.CDLL("libcuda.so.1")
Word, Handle = ctypes.c_uint64, ctypes.c_uint64
class Properties(ctypes.Structure):  # CUmemAllocationProp: pinned memory of device 0
    _fields_ = [(name, ctypes.c_int) for name in ("type", "handles", "location", "device")] + [("more", Word * 2)]
class Access(ctypes.Structure):  # CUmemAccessDesc
    _fields_ = [(name, ctypes.c_int) for name in ("location", "device", "flags")]
def by_name(name):
    if LOOKS_UP:
        address = ctypes.c_void_p()
        assert driver.cuGetProcAddress(name.encode(), ctypes.byref(address), 12000, Word(0)) == 0
        return ctypes.CFUNCTYPE(ctypes.c_int)(address.value)
    return getattr(driver, name)
def call(name, *arguments):
    function = by_name(name)
    function.argtypes = None
    return function(*arguments)
def create(size=4 * MIB):
    handle = Handle()
    properties = Properties(1, 0, 1, 0)
    assert call("cuMemCreate", ctypes.byref(handle), Word(size), ctypes.byref(properties), Word(0)) == 0
    return handle
def map_at(address, handle, size=4 * MIB):
    access = Access(1, 0, 3)
    return call("cuMemMap", address, Word(size), Word(0), handle, Word(0)) or call("cuMemSetAccess", address, Word(size), ctypes.byref(access), Word(1))
context = ctypes.c_void_p()  # no memory of the runtime: the first is that of cuMemCreate()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
address = Word()
assert call("cuMemAddressReserve", ctypes.byref(address), Word(4 * MIB), Word(0), Word(0), Word(0)) == 0
handle = create()
assert map_at(address, handle) == 0
fill(address.value, 7)
"""


@pytest.fixture(params=[False, True], ids=["dlsym", "cuGetProcAddress"])
def program(actor: Callable[..., Actor], request: pytest.FixtureRequest) -> Actor:
    return actor(f"LOOKS_UP = {request.param}\n" + PROGRAM, AMEM_TENSORS="job")


def test_memory_leaves_and_comes_back(program: Actor) -> None:
    for _ in range(2):
        assert program.ask("amem.pause('job').released_bytes // MIB") == "4"
        assert program.ask("read(address.value)") == "1"  # cudaErrorInvalidValue
        assert program.ask("amem.resume('job').resident_bytes // MIB") == "4"
        assert program.ask("read(address.value)") == "{7}"


def test_process_is_known_to_others_by_this_memory_alone(program: Actor, build: Build) -> None:
    assert program.ask("handle.value > 0") == "True"
    pid = program.ask("__import__('os').getpid()")
    found = subprocess.run([build.command, "status", "--pid", pid], env=build.runtime_variables(), capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 0 and "job" in found.stdout, found.stdout + found.stderr


def test_library_frees_and_allocates_while_paused(program: Actor) -> None:
    """As vLLM's sleep mode, whose allocator unmaps at sleep."""
    assert program.ask("amem.pause('job').released_bytes // MIB") == "4"
    assert program.ask("call('cuMemUnmap', address, Word(4 * MIB)), call('cuMemRelease', handle)") == "(0, 0)"
    program.ask("globals().update(other=create())")
    assert program.ask("map_at(address, other), fill(address.value, 8)") == "(0, None)"
    assert program.ask("amem.resume('job').resident_bytes // MIB, read(address.value)") == "(4, {8})"
    assert program.ask("amem.pause('job').released_bytes // MIB") == "4"
    assert program.ask("amem.resume('job').resident_bytes // MIB, read(address.value)") == "(4, {8})"


def test_handle_that_is_released_while_its_memory_is_mapped(program: Actor) -> None:
    assert program.ask("call('cuMemRelease', handle)") == "0"
    for _ in range(2):
        assert program.ask("amem.pause('job').released_bytes // MIB") == "4"
        assert program.ask("amem.resume('job').resident_bytes // MIB, read(address.value)") == "(4, {7})"
    assert program.ask("call('cuMemUnmap', address, Word(4 * MIB)), amem.stats()['total']['objects']") == "(0, 0)"


def test_range_of_several_handles(actor: Callable[..., Actor]) -> None:
    """As expandable segments: one call gives access to all, one unmaps all."""
    several = """
big, handles = Word(), [create() for _ in range(4)]
assert call("cuMemAddressReserve", ctypes.byref(big), Word(16 * MIB), Word(0), Word(0), Word(0)) == 0
for i, each in enumerate(handles):
    assert call("cuMemMap", Word(big.value + i * 4 * MIB), Word(4 * MIB), Word(0), each, Word(0)) == 0
access = Access(1, 0, 3)
assert call("cuMemSetAccess", big, Word(16 * MIB), ctypes.byref(access), Word(1)) == 0
fill(big.value, 9, 16 * MIB)
"""
    program = actor("LOOKS_UP = False\n" + PROGRAM + several, AMEM_TENSORS="job")
    assert program.ask("amem.pause('job').released_bytes // MIB") == "20"
    assert program.ask("amem.resume('job').resident_bytes // MIB, read(big.value, 16 * MIB)") == "(20, {9})"
    assert program.ask("amem.pause('job').released_bytes // MIB") == "20"
    assert program.ask("call('cuMemUnmap', big, Word(16 * MIB)), [call('cuMemRelease', each) for each in handles]") == "(0, [0, 0, 0, 0])"
    assert program.ask("amem.resume('job').resident_bytes // MIB, read(address.value)") == "(4, {7})"


def test_without_a_tag_it_is_the_drivers(actor: Callable[..., Actor]) -> None:
    program = actor("LOOKS_UP = False\n" + PROGRAM + "\nwith amem.disable():\n    other = create()\n", AMEM_TENSORS="job")
    assert program.ask("handle.value >> 48 == other.value >> 48") == "False"
    assert program.ask("amem.pause('job').released_bytes // MIB") == "4"
