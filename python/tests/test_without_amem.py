# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The package in a process that amem is not in, or is off in."""

import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import PACKAGE, Build

_CATCH = """
import amem
try:
    {call}
except amem.AmemError as error:
    print(error.code, error)
else:
    print("no error")
"""


@pytest.mark.parametrize(
    "call", ["amem.pause()", "amem.resume()", "amem.stats()", "amem.set_group(1)", "amem.paused().__enter__()"]
)
def test_says_what_to_install(build: Build, tmp_path: Path, call: str) -> None:
    text = build.python(_CATCH.format(call=call), PATH=str(tmp_path))

    assert text.startswith("None amem is not in this process: the amem command is neither beside this Python")
    assert "install amem" in text
    assert len(text.splitlines()) == 1


def test_reads_as_off_where_it_is_not_installed(build: Build, tmp_path: Path) -> None:
    code = "import amem; print(amem.state(), amem.enabled(), [amem.last_error()])"

    assert build.python(code, PATH=str(tmp_path)) == "off False ['']"


def installation(folder: Path, library: str | None = None) -> str:
    """A folder with the amem command, found by a link, and this text as its library."""
    for name in ("bin", "lib", "path"):
        (folder / name).mkdir()
    command = folder / "bin" / "amem"
    command.write_text("#!/bin/sh\n", encoding="utf-8")
    command.chmod(0o755)
    (folder / "path" / "amem").symlink_to(command)
    if library is not None:
        (folder / "lib" / "libamem_nccl.so").write_text(library, encoding="utf-8")
    return str(folder / "path")


def test_says_that_the_library_is_missing(build: Build, tmp_path: Path) -> None:
    text = build.python(_CATCH.format(call="amem.pause()"), PATH=installation(tmp_path))

    assert f"libamem_nccl.so is not in {tmp_path / 'lib'}" in text


def test_says_why_the_library_cannot_be_loaded(build: Build, tmp_path: Path) -> None:
    text = build.python(_CATCH.format(call="amem.pause()"), PATH=installation(tmp_path, "no library"))

    # The loader's own words.
    assert f"{tmp_path / 'lib' / 'libamem_nccl.so'}: " in text
    assert "file too short" in text or "invalid ELF header" in text


def test_loads_nothing_when_it_is_disabled(build: Build) -> None:
    code = "print('libamem_nccl' in open('/proc/self/maps').read(), amem.state())"

    text = build.python(_CATCH.format(call="amem.pause()") + code, PATH=str(build.command.parent), AMEM_ENABLE="0")

    assert text.splitlines() == [
        "None amem is not in this process: AMEM_ENABLE is 0; unset it or set it to 1",
        "False off",
    ]


@pytest.mark.parametrize("is_loaded", [False, True])
def test_regions_have_no_effect_when_it_is_disabled(build: Build, is_loaded: bool) -> None:
    where = {"LD_PRELOAD": build.preload} if is_loaded else {"PATH": str(build.command.parent)}
    code = """
import amem
with amem.region("weights"), amem.region("cache", backup=None, threads=True), amem.disable():
    print("runs")
try:
    amem.region(5).__enter__()
except amem.AmemError:
    print("refused")
"""

    assert build.python(code, AMEM_ENABLE="0", **where).split() == ["runs", "refused"]


def test_interface_of_torch_memory_saver_has_regions_without_effect_when_it_is_disabled(build: Build) -> None:
    code = """
import amem
from amem.torch_memory_saver import torch_memory_saver as saver
with saver.region("weights", enable_cpu_backup=True), saver.disable():
    print("runs")
try:
    saver.pause()
except amem.AmemError as error:
    print(error)
"""

    lines = build.python(code, AMEM_ENABLE="0", PATH=str(build.command.parent)).splitlines()

    assert lines == ["runs", "amem is not in this process: AMEM_ENABLE is 0; unset it or set it to 1"]


def test_regions_of_a_forked_child_are_refused(build: Build) -> None:
    code = """
import os, sys
import amem
amem.enabled()
child = os.fork()
if child == 0:
    try:
        with amem.region("weights"):
            print("runs", flush=True)
    except amem.AmemError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""

    assert "this is a forked child" in build.job(code)


def test_regions_need_amem_unless_it_is_disabled(build: Build, tmp_path: Path) -> None:
    text = build.python(_CATCH.format(call="amem.region('weights').__enter__()"), PATH=str(tmp_path))

    assert text.startswith("None amem is not in this process: ")


def test_forwards_only_while_it_is_off(build: Build) -> None:
    preload = {"LD_PRELOAD": build.preload, "AMEM_ENABLE": "0"}

    text = build.python(_CATCH.format(call="amem.pause()"), **preload)

    assert text.startswith("5 amemPauseWithTimeout failed: ")  # ncclInvalidUsage
    assert "AMEM_ENABLE=1" in text
    assert build.python("import amem; print(amem.state(), amem.enabled())", **preload) == "off False"


def test_shows_empty_statistics_while_it_is_off(build: Build) -> None:
    code = "import amem; stats = amem.stats(); print(stats['state'], stats['total']['objects'], stats['devices'])"

    assert build.python(code, LD_PRELOAD=build.preload, AMEM_ENABLE="0") == "off 0 {}"


def test_is_off_without_a_driver(build: Build, tmp_path: Path) -> None:
    code = _CATCH.format(call="amem.pause()") + "print(amem.state())"

    lines = build.job(code, LD_LIBRARY_PATH=str(tmp_path)).splitlines()

    if lines[0] == "no error":
        pytest.skip("this machine has a CUDA driver")
    assert "libcuda.so.1" in lines[0]
    assert lines[1] == "off"


def test_preloaded_library_of_another_version_is_refused(build: Build, tmp_path: Path) -> None:
    """It is not called: its functions may have other parameters."""
    source, library = tmp_path / "other.c", tmp_path / "libamem_nccl.so"
    source.write_text("""
#include <unistd.h>
const char* amemGetVersion(void) { return "9.9.9"; }
void amemEnable(void) { _exit(77); }
""", encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    calls = ["amem.stats()", "amem.pause()", "amem.region('a').__enter__()", "amem.interposition()"]
    code = "".join(_CATCH.format(call=call) for call in calls) + "print(amem.enabled(), amem.state(), [amem.last_error()])"

    lines = build.python(code, LD_PRELOAD=str(library), PATH=str(build.command.parent)).splitlines()

    package = f"the Python package amem 0.1.0 ({PACKAGE / 'amem'}) does not fit to the library amem 9.9.9 ({library})"
    remedy = "install the package and the library of the same version"
    assert lines == [f"None amem is not in this process: {package}: {remedy}"] * 4 + ["False off ['']"]


def test_structures_have_the_sizes_of_the_library(build: Build) -> None:
    code = """
import ctypes
import amem, amem.symmetric.library as of
of.require_symmetric_library()
of.require_symmetric_library.cache_clear()
class of_more_bytes(ctypes.Structure):
    _fields_ = [*of.Group._fields_, ("more", ctypes.c_int)]
of.Group = of_more_bytes
try:
    of.require_symmetric_library()
except amem.AmemError as error:
    print(error)
"""
    assert build.job(code).endswith("does not fit to the Python package amem: install both of the same version")


def test_works_without_docstrings_and_assertions(build: Build) -> None:
    code = "import amem, amem.symmetric.library as of; amem.pause(); of.require_symmetric_library(); print(amem.state())"

    assert build.job(code, PYTHONOPTIMIZE="2") == "paused"


def test_symmetric_memory_without_its_library_says_so(build: Build, tmp_path: Path) -> None:
    alone = tmp_path / "libamem_nccl.so"
    shutil.copy(build.preload, alone)
    code = """
import amem.symmetric
try:
    amem.symmetric.get_signal_pad_size()
except amem.AmemError as error:
    print(error)
"""
    text = build.python(code, LD_PRELOAD=str(alone), AMEM_ENABLE="1")
    assert text.startswith(f"symmetric memory is not installed with {alone}: ") and "libamem_symmetric.so" in text


_SAVER = """
import logging
import amem
from amem.torch_memory_saver import torch_memory_saver as saver
logging.basicConfig(format="%(message)s", stream=__import__("sys").stdout)
def show(call):
    try:
        print(call())
    except amem.AmemError as error:
        print(error)
def block(of):
    with of:
        return "runs"
"""


def test_interface_of_torch_memory_saver_says_that_there_is_no_driver(build: Build, tmp_path: Path) -> None:
    code = """
for call in (lambda: block(saver.region("weights")), lambda: block(saver.disable()), saver.pause, lambda: saver.resume("weights"),
             lambda: setattr(saver, "memory_margin_bytes", 1), lambda: saver.set_disk_backup_dir("/tmp")):
    show(call)
"""
    lines = build.job(_SAVER + code, LD_LIBRARY_PATH=str(tmp_path)).splitlines()

    if lines[1] == "runs" and "libcuda" not in lines[0]:
        pytest.skip("this machine has a CUDA driver")
    assert lines[0].startswith("Regions have no effect, and pause() and resume() raise AmemError: there is no CUDA driver: libcuda.so.1: ")
    assert lines[1:3] == ["runs"] * 2, "one warning"
    for line in lines[3:]:
        assert line.startswith("torch_memory_saver cannot pause or resume in this process: ") and "libcuda.so.1" in line, line
    assert len(lines) == 7


def test_interface_of_torch_memory_saver_in_a_forked_child(build: Build) -> None:
    code = """
import os
amem.enabled()
child = os.fork()
if child == 0:
    show(saver.pause)
    __import__("sys").stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
"""
    text = build.job(_SAVER + code)
    assert text == "torch_memory_saver cannot pause or resume in this process: this is a forked child: only the parent's memory can be paused"


@pytest.mark.parametrize("first", ["RTLD_LOCAL", "RTLD_GLOBAL"])
@pytest.mark.parametrize("second", ["RTLD_LOCAL", "RTLD_GLOBAL"])
def test_second_copy_of_the_library_stays_inactive(build: Build, tmp_path: Path, first: str, second: str) -> None:
    copy = shutil.copy(build.preload, tmp_path / "libamem_nccl.so")
    code = f"""
import ctypes
first = ctypes.CDLL({build.preload!r}, mode=ctypes.{first})
second = ctypes.CDLL({str(copy)!r}, mode=ctypes.{second})
for library in (first, second):
    library.amemGetLastError.restype = ctypes.c_char_p
second.amemEnable()
print(second.amemIsActive(), first.amemIsActive())
print(second.amemPause(b"t"), first.amemPause(b"t"))
first.amemEnable()
print(first.amemPause(b"t"), first.amemGetState(), second.amemGetState(), second.amemIsActive())
print(first.amemGetLastError().decode())
"""
    begun, alone, both, text = build.python(code).splitlines()
    assert (begun, alone, both) == ("0 0", "0 5", "5 4 0 1")
    assert text.startswith(f"amemPause failed: two copies of amem are in this process: {copy} is active, this one (version ")
    assert text.endswith("load only one of them")
