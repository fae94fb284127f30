# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Regions, on the simulated GPU: a library that is linked with a CUDA runtime allocates in them."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from conftest import ALONE, Build

START = """
import ctypes, amem
from runtime_user import MIB, fill, read, user
def totals(tag):
    return amem.stats()["tags"].get(tag, {})
"""


@pytest.fixture
def run(build: Build) -> Callable[..., str]:
    def run(code: str, binding: str = "now", *, prefix: Sequence[str] = (), **settings: str) -> str:
        return build.runtime_job(START + code, prefix=prefix, TEST_BINDING=binding, **settings)

    return run


@pytest.mark.parametrize("binding", ["now", "lazy"])
def test_memory_of_a_region_leaves_and_comes_back(run: Callable[..., str], binding: str) -> None:
    code = """
with amem.region("weights"):
    kept = user.user_malloc(4 * MIB)
with amem.region("kv_cache", backup=None):
    discarded = user.user_malloc(4 * MIB)
outside = user.user_malloc(4 * MIB)
for pointer, value in ((kept, 7), (discarded, 8), (outside, 9)):
    fill(pointer, value)
out = amem.pause("weights", "kv_cache")
print(out.released_bytes // MIB, out.resident_bytes, out.copied_bytes // MIB, out.seconds > 0)
again = amem.pause("weights", "kv_cache")
print(again.seconds, again.copied_bytes, again.released_bytes // MIB)
print(read(outside), read(kept))
back = amem.resume()
print(back.resident_bytes // MIB, back.copied_bytes // MIB, read(kept), read(outside))
print([user.user_free(pointer) for pointer in (kept, discarded, outside)], amem.stats()["total"]["objects"])
"""
    assert run(code, binding).splitlines() == [
        "8 0 4 True",
        "0.0 0 8",
        "{9} 1",
        "8 4 {7} {9}",
        "[0, 0, 0] 0",
    ]


def test_tags_are_independent(run: Callable[..., str]) -> None:
    code = """
with amem.region("a"):
    first = user.user_malloc(4 * MIB)
with amem.region("b"):
    second = user.user_malloc(4 * MIB)
fill(first, 1); fill(second, 2)
amem.pause("a")
print(amem.state("a"), amem.state("b"), read(second))
amem.pause("b"); amem.resume("a")
print(amem.state("a"), amem.state("b"), read(first))
amem.resume("b")
print(read(first), read(second))
"""
    assert run(code).splitlines() == ["paused active {2}", "active paused {1}", "{1} {2}"]


def test_innermost_region_counts_and_disable_ends_regions(run: Callable[..., str]) -> None:
    code = """
with amem.region("outer"):
    with amem.region("inner"):
        user.user_malloc(2 * MIB)
    with amem.disable():
        user.user_malloc(2 * MIB)
        with amem.region("inner"):
            user.user_malloc(2 * MIB)
    user.user_malloc(2 * MIB)
user.user_malloc(2 * MIB)
tags = amem.stats()["tags"]
print({tag: tags[tag]["allocated_bytes"] // MIB for tag in ("outer", "inner")})
"""
    assert run(code) == "{'outer': 2, 'inner': 4}"


def test_region_covers_its_thread_or_all(run: Callable[..., str]) -> None:
    code = """
import threading
def allocate():
    user.user_malloc(2 * MIB)
def in_a_thread():
    thread = threading.Thread(target=allocate); thread.start(); thread.join()
with amem.region("own"):
    in_a_thread()
print(totals("own"))
with amem.region("all", threads=True):
    in_a_thread()
    with amem.region("own"):
        allocate()
in_a_thread()
print(totals("all")["allocated_bytes"] // MIB, totals("own")["allocated_bytes"] // MIB)
"""
    assert run(code).splitlines() == ["{}", "2 2"]


def test_region_ends_with_an_exception(run: Callable[..., str]) -> None:
    code = """
for threads in (False, True):
    try:
        with amem.region("weights", threads=threads):
            raise KeyError("the caller's own")
    except KeyError:
        pass
user.user_malloc(2 * MIB)
print(totals("weights"))
"""
    assert run(code) == "{}"


def test_too_much_memory_is_the_runtimes_error_and_nothing_leaks(run: Callable[..., str]) -> None:
    code = """
with amem.region("weights"):
    print(user.user_malloc_result(1024 * MIB), user.user_malloc_result(0))
    print(amem.stats()["total"]["objects"], user.user_malloc_result(2 * MIB))
"""
    assert run(code, AMEM_SIM_MEMORY_MB="64").splitlines() == ["2 1", "0 0"]


def test_memory_is_freed_while_it_is_paused(run: Callable[..., str]) -> None:
    code = """
with amem.region("weights"):
    pointers = [user.user_malloc(4 * MIB) for _ in range(3)]
for pointer in pointers:
    fill(pointer, 5)
amem.pause("weights")
print(user.user_free(pointers[1]), totals("weights")["allocated_bytes"] // MIB)
with amem.region("weights"):
    new = user.user_malloc(4 * MIB)
fill(new, 6)
amem.resume("weights")
print(read(pointers[0]), read(pointers[2]), read(new))
"""
    assert run(code).splitlines() == ["0 8", "{5} {5} {6}"]


def test_tag_without_memory_is_active_after_a_resume(run: Callable[..., str]) -> None:
    code = """
with amem.region("weights"):
    pointer = user.user_malloc(4 * MIB)
amem.pause("weights")
user.user_free(pointer)
amem.resume("weights")
with amem.region("weights"):
    user.user_malloc(4 * MIB)
print(amem.state("weights"))
for number in range(1000):  # a tag for each request
    with amem.region(f"request-{number}", backup=None):
        pointer = user.user_malloc(4 * MIB)
    amem.pause(f"request-{number}")
    user.user_free(pointer)
amem.resume("weights")
print(amem.pause("weights").released_bytes // MIB, amem.state("request-7"))
"""
    assert run(code).splitlines() == ["active", "4 active"]


@pytest.mark.parametrize("call", ["region('nccl')", "region('no spaces')", "region('w', backup='tape')"])
def test_illegal_region_is_refused_with_a_sentence(run: Callable[..., str], call: str) -> None:
    code = f"""
try:
    with amem.{call}:
        print("opened")
except amem.AmemError as error:
    print("refused:", error)
"""
    assert run(code).startswith("refused: ")


def test_unknown_tag_is_paused_without_effect(run: Callable[..., str]) -> None:
    assert run("print(amem.pause('unknown').released_bytes, amem.state('unknown'))") == "0 active"


def test_backup_has_the_contents_while_paused(run: Callable[..., str]) -> None:
    code = """
with amem.region("weights"):
    pointer = user.user_malloc(8 * MIB)
fill(pointer, 7, 4 * MIB)  # the rest is zero and not kept
library = ctypes.CDLL(None)
library.amemGetBackup.restype = ctypes.c_void_p
def backup(offset, size):
    data = (ctypes.c_ubyte * size)()
    to_read = ctypes.c_void_p(pointer + offset), ctypes.c_size_t(size)
    if library.amemReadBackup(data, *to_read) != 0:
        return amem.last_error()
    where = library.amemGetBackup(*to_read)
    same = where and (ctypes.c_ubyte * size).from_address(where)[:] == data[:]
    return sorted(set(data)), same
print(backup(0, 16))
amem.pause("weights")
print(backup(0, 16), backup(4 * MIB - 8, 16), backup(MIB + 3, 2 * MIB), backup(8 * MIB - 8, 16))
amem.resume("weights")
print(read(pointer), backup(0, 16))
"""
    before, paused, after = run(code).splitlines()
    assert "is not paused" in before
    assert paused.startswith("([7], True) ([0, 7], None) ([7], True) ")
    assert "are not in one allocation with a tag" in paused
    assert after.startswith("{7} ") and "is not paused" in after


def test_margin_keeps_memory_free(run: Callable[..., str]) -> None:
    code = """
library = ctypes.CDLL(None)
with amem.region("weights"):
    library.amemSetMemoryMargin(ctypes.c_size_t(56 * MIB))
    print(user.user_malloc_result(16 * MIB))
    library.amemSetMemoryMargin(ctypes.c_size_t(0))
    print(user.user_malloc_result(16 * MIB))
"""
    assert run(code, AMEM_SIM_MEMORY_MB="64").split() == ["2", "0"]


def test_host_memory_is_pinned_ahead(run: Callable[..., str]) -> None:
    code = """
amem_before = amem.stats()["times"]["host_capacity_bytes"]
with amem.region("weights"):
    pointer = user.user_malloc(8 * MIB)
fill(pointer, 1, 8 * MIB)
amem.prepare_host_memory(8 * MIB)
for _ in range(10000):
    capacity = amem.stats()["times"]["host_capacity_bytes"]
    if capacity > 0:
        break
amem.pause("weights")
print(amem_before, capacity >= 8 * MIB, amem.stats()["times"]["host_capacity_bytes"] == capacity)
"""
    assert run(code) == "0 True True"


def test_regions_of_the_process_nest(run: Callable[..., str]) -> None:
    code = """
with amem.region("outer", threads=True):
    with amem.region("inner", threads=True):
        user.user_malloc(2 * MIB)
    user.user_malloc(4 * MIB)
user.user_malloc(2 * MIB)
print(totals("outer")["allocated_bytes"] // MIB, totals("inner")["allocated_bytes"] // MIB)
"""
    assert run(code) == "4 2"


def test_region_of_the_process_ends_and_that_of_the_environment_goes_on(run: Callable[..., str]) -> None:
    code = """
with amem.region("own", threads=True):
    user.user_malloc(2 * MIB)
user.user_malloc(4 * MIB)
print(totals("own")["allocated_bytes"] // MIB, totals("job")["allocated_bytes"] // MIB)
"""
    assert run(code, AMEM_TENSORS="job") == "2 4"


def test_other_devices_have_access_as_to_memory_of_cudamalloc(run: Callable[..., str]) -> None:
    """cudaDeviceEnablePeerAccess() counts for memory from before and after it, and over pauses."""
    code = """
from runtime_user import runtime
driver = ctypes.CDLL("libcuda.so.1")
def access(pointer, device):
    flags, location = ctypes.c_ulonglong(), (ctypes.c_int * 2)(1, device)
    assert driver.cuMemGetAccess(ctypes.byref(flags), location, ctypes.c_uint64(pointer)) == 0
    return flags.value
with amem.region("weights"):
    before = user.user_malloc(4 * MIB)
    runtime.cudaSetDevice(1)
    of_other = user.user_malloc(4 * MIB)
print(access(before, 0), access(before, 1))
print(user.user_enable_peer(0), user.user_enable_peer(0), access(before, 0), access(before, 1), access(of_other, 0))
amem.pause("weights")
runtime.cudaSetDevice(0)
with amem.region("weights"):
    after = user.user_malloc(4 * MIB)
amem.resume()
print([access(pointer, 1) for pointer in (before, after)], access(of_other, 0), user.user_enable_peer(7) != 0)
"""
    assert run(code).splitlines() == ["3 0", "0 704 3 3 0", "[3, 3] 0 True"]


def test_contents_on_disk(run: Callable[..., str], tmp_path: Path) -> None:
    code = """
from ctypes import c_size_t, c_void_p
try:
    with amem.region("weights", backup="disk"): pass
except amem.AmemError as error:
    print(error)
for directory in (%r, %r):
    try:
        amem.set_backup_directory(directory)
    except amem.AmemError as error:
        print(error)
with amem.region("weights", backup="disk"):
    kept = user.user_malloc(4 * MIB)
fill(kept, 7)
amem.pause("weights")
print(totals("weights")["disk_bytes"] // MIB, totals("weights")["saved_bytes"])
data = (ctypes.c_ubyte * 5000)()
print(amem.calls.value_of("amemReadBackup", ctypes.byref(data), kept + 4000, 5000), set(data), amem.calls.value_of("amemGetBackup", kept, 8))
amem.resume("weights")
print(read(kept))
""" % (str(tmp_path / "none"), str(tmp_path))
    found = run(code).splitlines()
    assert "set AMEM_BACKUP_DIR or call amemSetBackupDirectory()" in found[0]
    assert "%s: No such file" % (tmp_path / "none") in found[1]
    assert found[2:] == ["4 0", "0 {7} None", "{7}"]


def test_use_of_paused_memory_is_explained(build: Build) -> None:
    """AMEM_DEBUG=access names the tag; without it nothing is said."""
    code = START + """
user.user_copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
with amem.region("weights"):
    kept = user.user_malloc(4 * MIB)
other = user.user_malloc(4 * MIB)
assert user.user_copy(other, kept, 16) == 0 and user.user_synchronize() == 700
amem.pause("weights")
assert user.user_copy(other, kept + 4096, 16) != 0 and user.user_synchronize() == 700
user.user_synchronize()
amem.resume()
assert user.user_copy(kept, other, 16) == 0
"""
    log = str(build.machine.parent / "log")
    for debug in ("access", ""):
        redirected = "import os\nos.dup2(os.open(%r, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), 2)\n" % log + code
        build.runtime_job(redirected, AMEM_DEBUG=debug, GMM_LOG="2")
        text = Path(log).read_text()
        said = [line.split("AMEM WARN ")[1] for line in text.splitlines() if "AMEM WARN" in line]
        assert len(said) == (2 if debug else 0), text
        if debug:
            assert said[0].startswith("cudaMemcpy() uses 0x") and "of the tag 'weights', which is paused" in said[0]
            assert "illegal address, and these tags are paused: weights (1 allocations, 4 MiB)" in said[1]


def test_memory_is_zero_on_request(run: Callable[..., str]) -> None:
    code = """
with amem.region("cache", backup="zero"):
    pointer = user.user_malloc(4 * MIB)
fill(pointer, 7)
out = amem.pause("cache")
amem.resume("cache")
print(out.copied_bytes, read(pointer))
"""
    assert run(code).splitlines() == ["0 {0}"]


def test_retained_backups_can_be_read_after_a_resume(run: Callable[..., str]) -> None:
    code = """
from ctypes import c_size_t
with amem.region("weights"):
    kept, zero = user.user_malloc(48 * MIB), user.user_malloc(4 * MIB)
library = amem.library.require_library()
def backup(pointer):
    data = (ctypes.c_ubyte * 100)(*[1] * 100)
    return set(data) if amem.calls.value_of("amemReadBackup", ctypes.byref(data), pointer, 100) == 0 else "none"
fill(zero, 0)
for retain in (1, 0):
    library.amemRetainBackups(retain)
    for value in (7, 8):
        fill(kept, value, 48 * MIB)
        amem.pause("weights"); amem.resume("weights")
        fill(kept, 9)
        print(backup(kept), backup(zero), totals("weights")["saved_bytes"])
    capacity = amem.stats()["times"]["host_capacity_bytes"] // MIB
print(capacity)
user.user_free(kept); user.user_free(zero)
print(amem.trim_host_memory() > 0)
"""
    assert run(code, prefix=ALONE).splitlines() == ["{7} {0} 0", "{8} {0} 0", "none none 0", "none none 0", "64", "True"]


def test_log_of_a_resume_says_what_is_back(run: Callable[..., str]) -> None:
    """Also memory whose contents are not kept. Pages that are all zero are not copied."""
    code = """
import os
os.dup2(1, 2)  # the log
with amem.region("kept"):
    kept = user.user_malloc(6 * MIB)
with amem.region("lost", backup=None):
    lost = user.user_malloc(500 * MIB)
with amem.region("zero", backup="zero"):
    zero = user.user_malloc(2 * MIB)
fill(kept, 7)
amem.pause("kept", "lost", "zero")
for tag in ("lost", "zero", "kept"):
    amem.resume(tag)
"""
    log = run(code, AMEM_SIM_MEMORY_MB="2048").splitlines()
    lines = [line.partition("INFO ")[2] for line in log if "INFO " in line]  # other processes of the user can cause warnings
    times = r" \(create and copy [\d.]+ ms, of which driver [\d.]+, peers [\d.]+\)"
    assert re.match(r"paused kept, lost, zero in [\d.]+ s: 508 MiB released, 4 MiB saved ", lines[0]), lines
    for line, (tag, restored, copied) in zip(lines[1:], [("lost", 500, 0), ("zero", 2, 0), ("kept", 6, 4)]):
        assert re.fullmatch(rf"resumed {tag} in [\d.]+ s: {restored} MiB restored, {copied} MiB copied{times}", line), line
