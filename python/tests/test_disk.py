# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Contents on disks that are full, slow, limited or modified, and deadlines of calls, on the simulated GPU."""

import contextlib
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Build

START = """
import ctypes, os, resource, signal, time, amem
from runtime_user import MIB, fill, read, user
def attempt(call, *arguments, **options):
    try:
        call(*arguments, **options)
        return "done"
    except amem.AmemError as error:
        return str(error)
def allocate(count, mib, backup="disk"):
    with amem.region("weights", backup=backup):
        pointers = [user.user_malloc(mib * MIB) for _ in range(count)]
    for value, pointer in enumerate(pointers, 1):
        fill(pointer, value, mib * MIB)
    return pointers
def contents(pointers, mib):
    return [read(pointer, mib * MIB) for pointer in pointers]
"""


@pytest.fixture
def run(build: Build, tmp_path: Path) -> Callable[..., list[str]]:
    def run(code: str, directory: Path = tmp_path, **settings: str) -> list[str]:
        return build.runtime_job(START + code, AMEM_BACKUP_DIR=str(directory), **settings).splitlines()

    return run


def command(*words: object) -> str:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def thin_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory on ext4 on a device whose blocks are allocated later, of which there are too few."""
    room, disk = tmp_path / "room", tmp_path / "disk"
    image = room / "image"
    with contextlib.ExitStack() as undo:
        try:
            for folder in (room, disk):
                folder.mkdir()
            command("mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", room)
            undo.callback(command, "umount", "-l", room)
            command("truncate", "-s", "512M", image)
            command(shutil.which("mkfs.ext4") or "/sbin/mkfs.ext4", "-q", "-m", "0", "-N", "16", "-O", "^has_journal", image)
            command("mount", "-o", "loop", image, disk)
            undo.callback(command, "umount", "-l", disk)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"needs root, loop devices and mkfs.ext4: {error}")
        yield disk


def test_device_that_runs_full_later_is_an_error_of_the_pause(run: Callable[..., list[str]], thin_disk: Path) -> None:
    code = """
pointers = allocate(4, 40)
print(attempt(amem.pause, "weights"))
print(amem.state("weights"), contents(pointers, 40))
amem.set_backup_directory(%r)
print(attempt(amem.pause, "weights"), attempt(amem.resume, "weights"), contents(pointers, 40))
"""
    found = run(code % str(thin_disk.parent), directory=thin_disk)
    assert f"fdatasync() of a backup file in {thin_disk}: the disk has lost" in found[0]
    intact = "[{1}, {2}, {3}, {4}]"
    assert found[1:] == [f"active {intact}", f"done done {intact}"]


# The limit of the process raises SIGXFSZ, which ends it.
def test_limit_of_the_size_of_files_is_an_error(run: Callable[..., list[str]]) -> None:
    code = """
pointers = allocate(2, 4)
resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, resource.RLIM_INFINITY))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
print(attempt(amem.pause, "weights"))
print(amem.state("weights"), contents(pointers, 4))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(attempt(amem.pause, "weights"), attempt(amem.resume, "weights"), contents(pointers, 4))
"""
    found = run(code)
    assert "raise RLIMIT_FSIZE (ulimit -f)" in found[0] and "File too large" in found[0]
    assert found[1:] == ["active [{1}, {2}]", "done done [{1}, {2}]"]


# A profiler's timer interrupts fallocate() in /dev/shm every time.
def test_timer_of_a_profiler_does_not_hold_up_a_pause(run: Callable[..., list[str]]) -> None:
    code = """
pointers = allocate(2, 120)
signal.signal(signal.SIGPROF, lambda *_: None)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
print(attempt(amem.pause, "weights", timeout=30), attempt(amem.resume, "weights", timeout=30))
signal.setitimer(signal.ITIMER_REAL, 0)
signal.setitimer(signal.ITIMER_PROF, 0)
print(contents(pointers, 120))
"""
    assert run(code, directory="/dev/shm") == ["done done", "[{1}, {2}]"]


@pytest.mark.parametrize("backup", ["disk", "host"])
def test_resume_that_is_repeated_goes_on_where_the_last_one_ended(run: Callable[..., list[str]], tmp_path: Path, backup: str) -> None:
    code = """
pointers = allocate(4, 80, %r)
amem.pause("weights")
tries, end = [attempt(amem.resume, "weights", timeout=0.001)], time.monotonic() + 40
while tries[-1] != "done" and time.monotonic() < end:
    tries.append(attempt(amem.resume, "weights", timeout=0.001))
print(*tries, sep=chr(10))
print(contents(pointers, 80))
for pointer in pointers: user.user_free(pointer)
"""
    *tries, end = run(code % backup)
    assert len(tries) > 1 and tries[-1] == "done"
    source = re.escape(str(tmp_path)) if backup == "disk" else "host memory"
    done = -1
    for text in tries[:-1]:
        found = re.search(rf"(\d+) of 335544320 bytes are restored from {source} \([0-9.]+ MiB/s\).*AMEM_TIMEOUT_MS", text)
        assert found, text
        assert text.endswith("weights stays paused")
        assert int(found[1]) >= done
        done = int(found[1])
    assert end == "[{1}, {2}, {3}, {4}]"


def test_pause_and_free_after_a_resume_that_was_too_slow(run: Callable[..., list[str]]) -> None:
    code = """
pointers = allocate(4, 80)
amem.pause("weights")
late = attempt(amem.resume, "weights", timeout=0.001)
print("stays paused" in late, amem.state("weights"), attempt(amem.pause, "weights"))
late = attempt(amem.resume, "weights", timeout=0.001)
data = (ctypes.c_ubyte * 100)()
print(amem.calls.value_of("amemReadBackup", ctypes.byref(data), pointers[3] + 10, 100), set(data))
user.user_free(pointers.pop(0))
print(attempt(amem.resume, "weights"), contents(pointers, 80))
"""
    assert run(code) == ["True paused done", "0 {4}", "done [{2}, {3}, {4}]"]


def test_file_that_another_program_modifies_is_never_taken_for_contents(run: Callable[..., list[str]], tmp_path: Path) -> None:
    code = """
directory = %r
pointers = allocate(2, 4)
amem.pause("weights")
links = {number: os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{number}")}
[file] = [int(number) for number, path in links.items() if os.path.dirname(path) == directory]
os.pwrite(file, b"x", 5 * MIB)
print(attempt(amem.resume, "weights"))
print(amem.state("weights"), amem.calls.value_of("amemReadBackup", ctypes.byref((ctypes.c_ubyte * 9)()), pointers[1] + MIB, 9))
os.pwrite(file, b"\\2", 5 * MIB)
print(attempt(amem.resume, "weights"), contents(pointers, 4))
"""
    found = run(code % str(tmp_path))
    assert re.search(
        r"pread\(1048576 bytes at offset 5242880\) of a backup file in \S+ does not return what amem has written: "
        "another program has modified the file, .*weights stays paused",
        found[0],
    )
    assert found[1].startswith("paused ") and found[1] != "paused 0"
    assert found[2] == "done [{1}, {2}]"


def test_timeout_of_a_call(run: Callable[..., list[str]]) -> None:
    code = """
for timeout in (0, -1, float("nan"), 86401, "1", True, 10**30):
    print(attempt(amem.pause, timeout=timeout), attempt(amem.resume, timeout=timeout))
print(attempt(amem.pause, timeout=0.5), attempt(amem.resume, timeout=86400))
with amem.paused(timeout=3):
    print(amem.state())
library = amem.library.require_library()
print(library.amemPauseWithTimeout(None, ctypes.c_uint64(86400001)), library.amemPauseWithTimeout(None, ctypes.c_uint64(86400000)),
      library.amemResumeWithTimeout(None, ctypes.c_uint64(0)))
"""
    found = run(code)
    for line in found[:7]:
        assert line.count("not a number of seconds from 0.001 to 86400") == 2
    assert found[7:] == [
        "done done",
        "paused",
        "5 0 0",
    ]


def test_file_ends_with_the_resume(run: Callable[..., list[str]], tmp_path: Path) -> None:
    code = """
pointers = allocate(2, 40)
def files():
    links = [os.path.join("/proc/self/fd", number) for number in os.listdir("/proc/self/fd")]
    return sum(os.path.lexists(link) and os.readlink(link).startswith(%r) for link in links)
for _ in range(2):
    amem.pause("weights")
    print(files())
    amem.resume("weights")
    print(files())
"""
    folder = tmp_path / "backups"
    folder.mkdir()
    assert run(code % str(folder), directory=folder) == ["1", "0"] * 2
