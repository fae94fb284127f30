# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The interface of torch_memory_saver, without PyTorch, on the simulated GPU."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Build

START = """
import amem, amem.torch_memory_saver
from torch_memory_saver import configure_subprocess, torch_memory_saver as saver
from runtime_user import MIB, fill, read, user
def totals(tag):
    return amem.stats()["tags"].get(tag, {})
"""


@pytest.fixture
def run(build: Build) -> Callable[..., str]:
    return lambda code, **settings: build.runtime_job(START + code, **settings)


def test_regions_pause_and_resume_by_tag(run: Callable[..., str]) -> None:
    code = """
saver.hook_mode = "preload"
with saver.region(tag="weights", enable_cpu_backup=True):
    weights = user.user_malloc(4 * MIB)
with saver.region(tag="kv_cache"):
    cache = user.user_malloc(4 * MIB)
fill(weights, 7)
saver.pause("kv_cache"); saver.pause("weights"); saver.pause("weights"); saver.pause("unknown")
print(totals("weights")["resident_bytes"], totals("kv_cache")["resident_bytes"])
saver.resume("weights")
print(read(weights), amem.state("kv_cache"), amem.state("nccl"))
saver.pause()
print(amem.state("weights"), amem.state("kv_cache"), amem.state("nccl"))
saver.resume()
print(read(weights), amem.state("kv_cache"), saver.enabled)
"""
    assert run(code).splitlines() == ["0 0", "{7} paused active", "paused paused active", "{7} active True"]


def test_private_functions_configure_the_thread(run: Callable[..., str]) -> None:
    code = """
saver._ensure_initialized()
cdll = saver._impl._binary_wrapper.cdll
print(cdll.tms_get_interesting_region(), cdll.tms_get_current_tag())
with saver.region(tag="weights", enable_cpu_backup=True):
    cdll.tms_set_interesting_region(False)
    user.user_malloc(2 * MIB)
    cdll.tms_set_interesting_region(True)
    print(cdll.tms_get_current_tag(), cdll.tms_get_enable_cpu_backup())
    with saver.region(tag="inner"):
        user.user_malloc(2 * MIB)
    with saver.disable():
        user.user_malloc(2 * MIB)
    user.user_malloc(4 * MIB)
user.user_malloc(2 * MIB)
print(cdll.tms_get_interesting_region(), totals("weights")["allocated_bytes"] // MIB, totals("inner")["allocated_bytes"] // MIB)
"""
    assert run(code).splitlines() == ["False b'default'", "b'weights' True", "False 4 2"]


def test_regions_of_both_interfaces_nest(run: Callable[..., str]) -> None:
    code = """
with amem.region("outer"):
    with saver.region("inner"):
        user.user_malloc(2 * MIB)
    user.user_malloc(4 * MIB)
user.user_malloc(2 * MIB)
print(totals("outer")["allocated_bytes"] // MIB, totals("inner")["allocated_bytes"] // MIB)
"""
    assert run(code) == "4 2"


def test_all_memory_has_a_tag_where_the_variables_say_so(run: Callable[..., str]) -> None:
    code = """
pointer = user.user_malloc(4 * MIB)
fill(pointer, 9)
with saver.disable():
    outside = user.user_malloc(4 * MIB)
fill(outside, 8)
saver.pause()
print(totals("default")["released_bytes"] // MIB, read(outside))
saver.resume()
print(read(pointer))
"""
    settings = {"TMS_INIT_ENABLE": "1", "TMS_INIT_ENABLE_CPU_BACKUP": "yes"}
    assert run(code, **settings).splitlines() == ["4 {8}", "{9}"]


def test_margin_and_retained_host_memory(run: Callable[..., str]) -> None:
    code = """
with saver.region(enable_cpu_backup=True):
    saver.memory_margin_bytes = 56 * MIB
    print(user.user_malloc_result(16 * MIB))
    saver.memory_margin_bytes = 0
    pointer = user.user_malloc(16 * MIB)
fill(pointer, 3, 16 * MIB)
for retained in (None, True, False):
    if retained is not None:
        saver.retain_cpu_backup = retained
    saver.pause(); saver.resume()
    print(amem.stats()["times"]["host_capacity_bytes"] > 0, read(pointer, 16 * MIB))
"""
    assert run(code, AMEM_SIM_MEMORY_MB="64").splitlines() == ["2", "True {3}", "True {3}", "False {3}"]


def test_subprocesses_get_amem_as_torch_memory_saver(run: Callable[..., str]) -> None:
    code = """
import os
before = dict(os.environ)
with configure_subprocess():
    libraries = os.environ["LD_PRELOAD"].split(":")
    print(os.environ["AMEM_TMS"], os.path.basename(libraries[0]), libraries[1:] == [before["LD_PRELOAD"]], os.environ["AMEM_ENABLE"])
print(os.environ == before)
"""
    assert run(code).splitlines() == ["1 torch_memory_saver_hook_mode_preload.abi3.so True 1", "True"]


@pytest.mark.parametrize("how", ["call", "variable", "default"])
def test_contents_are_kept_on_disk(run: Callable[..., str], tmp_path: Path, how: str) -> None:
    code = """
saver.set_disk_backup_dir(%r)
""" % str(tmp_path) if how == "call" else ""
    code += """
with saver.region(tag="weights", enable_disk_backup=True):
    weights = user.user_malloc(4 * MIB)
fill(weights, 7)
saver.pause("weights")
print(totals("weights")["disk_bytes"] // MIB, totals("weights")["saved_bytes"])
saver.resume("weights")
print(read(weights))
try:
    saver.region(enable_cpu_backup=True, enable_disk_backup=True).__enter__()
except ValueError as error:
    print(error)
"""
    settings = {"TMS_DISK_BACKUP_DIR": str(tmp_path / "new")} if how == "variable" else {}
    assert run(code, **settings).splitlines() == [
        "4 0", "{7}", "enable_cpu_backup and enable_disk_backup exclude each other"
    ]


LAUNCHERS = {
    "slime": """
import torch_memory_saver
from torch_memory_saver.utils import get_binary_path_from_package
path = str(get_binary_path_from_package("torch_memory_saver_hook_mode_preload"))
""",
    "function": """
def environment():
    from torch_memory_saver.utils import get_binary_path_from_package as binary_path
    return str(binary_path("torch_memory_saver_hook_mode_preload"))
path = environment()
""",
    "module": """
import torch_memory_saver.utils as utils
path = str(utils.get_binary_path_from_package("torch_memory_saver_hook_mode_torch"))
""",
}
PRELOADED = """
import os, subprocess, sys
user = '''
import amem.torch_memory_saver, torch_memory_saver
from runtime_user import MIB, user
import amem
user.user_malloc(4 * MIB)
torch_memory_saver.torch_memory_saver.pause()
print(amem.stats()["tags"]["default"]["released_bytes"] // MIB)
'''
variables = {**os.environ, "LD_PRELOAD": path, "TMS_INIT_ENABLE": "1", "TMS_INIT_ENABLE_CPU_BACKUP": "1"}
print(path, subprocess.run([sys.executable, "-c", user], env=variables, stdout=subprocess.PIPE, text=True).stdout)
"""


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_launchers_find_the_library_for_ld_preload(build: Build, launcher: str) -> None:
    """They do not import amem and have no GPU; AMEM_TMS=1 in a wheel does the import of the first line."""
    code = "import amem.torch_memory_saver" + LAUNCHERS[launcher] + PRELOADED
    printed = build.python(code, **build.runtime_variables(PATH=f"{build.command.parent}:/usr/bin:/bin"))
    assert printed.split() == [str(build.folder / "lib" / "torch_memory_saver_hook_mode_preload.abi3.so"), "4"]


def test_launchers_without_a_gpu_import_it_with_the_variables_of_a_trainer(build: Build) -> None:
    code = "import amem.torch_memory_saver, torch_memory_saver as t; print(t.torch_memory_saver.enabled)"
    variables = {"TMS_INIT_ENABLE": "1", "TMS_INIT_ENABLE_CPU_BACKUP": "1", "PATH": f"{build.command.parent}:/usr/bin:/bin"}
    assert build.python(code, LD_LIBRARY_PATH="", **variables) == "True"


def test_library_of_the_original_in_the_process_is_refused(build: Build, tmp_path: Path) -> None:
    source = tmp_path / "original.c"
    source.write_text("int tms_pause(const char *tag) { return tag != 0; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "original.so", source], check=True)
    code = START + """
try:
    saver.pause()
except amem.AmemError as error:
    print(error)
"""
    printed = build.python(code, **build.runtime_variables(LD_PRELOAD=f"{tmp_path / 'original.so'}:{build.preload}", AMEM_ENABLE="1"))
    assert "torch_memory_saver's own library is in this process" in printed
    assert build.runtime_job(START + "saver.pause(); print(1)") == "1"


def test_other_binaries_of_the_package_are_refused(run: Callable[..., str]) -> None:
    code = """
from torch_memory_saver.utils import change_env, get_binary_path_from_package
try:
    get_binary_path_from_package("nvshmem_host")
except ValueError as error:
    print("nvshmem_host" in str(error))
import os
with change_env("A_VARIABLE", "1"):
    print(os.environ["A_VARIABLE"])
print("A_VARIABLE" in os.environ)
"""
    assert run(code).split() == ["True", "1", "False"]


SET_UP = """
import ctypes, sys
from fake_torch import FakeTensor, FakeTorch
sys.modules["torch"] = torch = FakeTorch()
saver._ensure_initialized()
cdll = saver._impl._binary_wrapper.cdll
def weights(size=4 * MIB, **how):
    with saver.region("weights", **how):
        pointer = user.user_malloc(size)
    fill(pointer, 7, size)
    return pointer
def host(address, size=4):
    return ctypes.string_at(address, size) if address else address
def attempt(call):
    try:
        return call()
    except (ValueError, amem.AmemError) as error:
        return type(error).__name__
"""
# Each: a program, and what it prints.
CALLS = {
    "tms_pause": ("weights(); print(cdll.tms_pause(b'weights'), amem.state('weights'), amem.state('nccl'))", "0 paused active"),
    "tms_pause(None)": ("weights(); print(cdll.tms_pause(None), amem.state('weights'))", "0 paused"),
    "tms_resume": (
        "p = weights(enable_cpu_backup=True); cdll.tms_pause(None); print(cdll.tms_resume(b'weights'), read(p))",
        "0 {7}",
    ),
    "tms_set_disk_backup_dir": (
        "cdll.tms_set_disk_backup_dir(b'.'); weights(enable_disk_backup=True); saver.pause(); "
        "print(totals('weights')['disk_bytes'] // MIB, attempt(lambda: cdll.tms_set_disk_backup_dir(b'/dev/null/none')))",
        "4 AmemError",
    ),
    "set_disk_backup_dir makes the directory": (
        "saver.set_disk_backup_dir('new/er'); weights(enable_disk_backup=True); saver.pause(); "
        "print(totals('weights')['disk_bytes'] // MIB, os.path.isdir('new/er'))",
        "4 True",
    ),
    "tms_set_cpu_backup_backend": (
        "before = cdll.tms_get_cpu_backup_backend(); cdll.tms_set_cpu_backup_backend(b'mmap'); "
        "weights(16 * MIB, enable_cpu_backup=True); saver.pause(); saver.resume(); "
        "print(before, cdll.tms_get_cpu_backup_backend(), amem.stats()['times']['host_capacity_bytes'])",
        "b'pinned' b'mmap' 0",
    ),
    "cpu_backup_backend": (
        "print(attempt(lambda: weights(enable_cpu_backup=True, cpu_backup_backend='zfs')), "
        "attempt(lambda: weights(cpu_backup_backend='mmap')))",
        "ValueError ValueError",
    ),
    "tms_get_retain_cpu_backup": (
        "print(cdll.tms_get_retain_cpu_backup()); saver.retain_cpu_backup = True; "
        "print(cdll.tms_get_retain_cpu_backup())",
        "False True",
    ),
    "get_cpu_backup": (
        "x = FakeTensor(b'', weights(enable_cpu_backup=True), 4 * MIB); print(saver.get_cpu_backup(x)); saver.pause(); "
        "print(*[saver.get_cpu_backup(x, zero_copy=z).values() for z in (False, True)]); saver.resume(); "
        "print(saver.get_cpu_backup(x))",
        "None {7} {7} None",
    ),
    "get_cpu_backup of a tensor that is not contiguous": (
        "x = FakeTensor(b'', weights(enable_cpu_backup=True), 4 * MIB); saver.pause(); x.is_contiguous = lambda: False; "
        "print(attempt(lambda: saver.get_cpu_backup(x)))",
        "AmemError",
    ),
    "tms_get_cpu_backup_pointer": (
        "p = weights(enable_cpu_backup=True); get = cdll.tms_get_cpu_backup_pointer; print(get(p, 4)); "
        "saver.pause(); print(host(get(p, 4))); saver.resume(); print(get(p, 4))",
        r"None b'\x07\x07\x07\x07' None",
    ),
    "tms_get_cpu_backup_pointer on disk": (
        "cdll.tms_set_disk_backup_dir(b'.'); p = weights(enable_disk_backup=True); "
        "saver.pause(); print(host(cdll.tms_get_cpu_backup_pointer(p + 8, 4)))",
        r"b'\x07\x07\x07\x07'",
    ),
    "tms_get_cpu_backup_pointer stays valid": (
        "cdll.tms_set_disk_backup_dir(b'.'); p = weights(enable_disk_backup=True)\n"
        "with saver.region('cache'): user.user_malloc(4 * MIB)\n"
        "saver.pause('weights'); here = cdll.tms_get_cpu_backup_pointer(p, 4096); found = []\n"
        "for other in (lambda: saver.pause('cache'), lambda: saver.resume('cache'), lambda: saver.pause(),\n"
        "              lambda: cdll.tms_get_cpu_backup_pointer(p, 8)):\n"
        "    other(); reused = [(ctypes.c_char * 4096)(*b'x' * 4096) for _ in range(64)]; found.append(host(here))\n"
        "print(set(found), cdll.tms_get_cpu_backup_pointer(p, 4096) == here)\n"
        "saver.resume(); print(cdll.tms_get_cpu_backup_pointer(p, 4096), saver._functions().copies)",
        r"{b'\x07\x07\x07\x07'} True None {}",
    ),
    "tms_get_cpu_backup_pointer of each pause": (
        "cdll.tms_set_disk_backup_dir(b'.'); p = weights(enable_disk_backup=True); saver.retain_cpu_backup = True\n"
        "for value in (7, 9):\n"
        "    fill(p, value); saver.pause(); print(host(cdll.tms_get_cpu_backup_pointer(p, 4))); saver.resume()",
        r"b'\x07\x07\x07\x07' b'\t\t\t\t'",
    ),
    "tms_torch_malloc": (
        "user.user_malloc(4 * MIB)\n"
        "print(attempt(lambda: cdll.tms_torch_malloc(4 * MIB, 0, 0)))\n"
        "with saver.region('cache'): p = cdll.tms_torch_malloc(4 * MIB, 0, 0)\n"
        "print(totals('cache')['allocated_bytes'] // MIB); cdll.tms_torch_free(p, 4 * MIB, 0, 0)\n"
        "print(totals('cache').get('allocated_bytes', 0))",
        "AmemError 4 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_calls_of_the_interface(run: Callable[..., str], tmp_path: Path, call: str) -> None:
    code, printed = CALLS[call]
    assert run(f"import os; os.chdir({str(tmp_path)!r})\n" + SET_UP + code).split() == printed.split()


@pytest.mark.parametrize("value, backup", [("1", "{7}"), ("no", "None")])
def test_variable_retains_backups_after_a_resume(run: Callable[..., str], value: str, backup: str) -> None:
    code = """
pointer = weights(enable_cpu_backup=True)
saver.pause(); saver.resume()
copy = saver.get_cpu_backup(FakeTensor(b"", pointer, 4 * MIB))
print(copy.values() if copy else None, read(pointer))
"""
    assert run(SET_UP + code, TMS_RETAIN_CPU_BACKUP=value) == f"{backup} {{7}}"
