# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Where programs look for parts of torch_memory_saver: functions of its library, submodules, files on disk."""

import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import ALONE, TIMEOUT_S, Build
from test_torch_memory_saver import SET_UP, START

HOOK = "torch_memory_saver_hook_mode_preload.abi3.so"
C = """
import ctypes, os
from ctypes import c_bool, c_char_p, c_void_p
library = ctypes.CDLL({path})
for name in ("tms_get_current_tag", "tms_get_cpu_backup_backend"):
    getattr(library, name).restype = c_char_p
for name in ("tms_get_interesting_region", "tms_get_enable_cpu_backup"):
    getattr(library, name).restype = c_bool
library.tms_get_cpu_backup_pointer.restype = library.tms_torch_malloc.restype = c_void_p
library.tms_get_cpu_backup_pointer.argtypes = [c_void_p, ctypes.c_uint64]
library.tms_torch_malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, c_void_p]
library.tms_torch_free.argtypes = [c_void_p, ctypes.c_ssize_t, ctypes.c_int, c_void_p]
"""


@pytest.fixture
def run(build: Build) -> Callable[..., str]:
    return lambda code, **settings: build.runtime_job(START + SET_UP + code, **settings)


@pytest.fixture(params=["process", "library"])
def library(request: pytest.FixtureRequest, build: Build) -> str:
    """How a program finds the functions: in the process, or in the library of LD_PRELOAD."""
    return C.format(path=None if request.param == "process" else repr(str(build.folder / "lib" / HOOK)))


def test_functions_of_c_tag_memory_and_pause_it(run: Callable[..., str], library: str) -> None:
    code = """
library.tms_set_current_tag(b"kv_cache"); library.tms_set_enable_cpu_backup(True); library.tms_set_interesting_region(True)
p = user.user_malloc(4 * MIB)
print(library.tms_get_current_tag(), library.tms_get_enable_cpu_backup(), library.tms_get_interesting_region())
library.tms_set_interesting_region(False)
outside = user.user_malloc(4 * MIB)
print(totals("kv_cache")["allocated_bytes"] // MIB, library.tms_get_interesting_region(), library.tms_get_cpu_backup_backend())
fill(p, 7); fill(outside, 8)
print(library.tms_pause(b"kv_cache"), amem.state("kv_cache"), host(library.tms_get_cpu_backup_pointer(p, 4)), read(outside))
print(library.tms_resume(None), read(p), library.tms_get_cpu_backup_pointer(p, 4))
"""
    assert run(library + code).splitlines() == [
        "b'kv_cache' True True",
        "4 False b'pinned'",
        r"0 paused b'\x07\x07\x07\x07' {8}",
        "0 {7} None",
    ]


def test_functions_of_c_work_in_a_program_that_does_not_use_the_module(build: Build, library: str) -> None:
    """AMEM_TMS=1 imports it, and C++ looks for the functions (rtp-llm)."""
    code = """
import amem, amem.torch_memory_saver
from runtime_user import MIB, fill, read, user
pointer = user.user_malloc(4 * MIB)
fill(pointer, 7)
print(library.tms_pause(None), amem.state("default"), library.tms_resume(None), read(pointer))
"""
    code = "import amem.torch_memory_saver\n" + library + code
    settings = {"TMS_INIT_ENABLE": "1", "TMS_INIT_ENABLE_CPU_BACKUP": "1"}
    assert build.runtime_job(code, **settings) == "0 paused 0 {7}"


def test_allocator_of_c_gives_memory_the_tag_of_the_region(run: Callable[..., str], library: str) -> None:
    code = """
user.user_malloc(4 * MIB)  # there is a CUDA context
print(library.tms_torch_malloc(4 * MIB, 0, None))
with saver.region("weights"):
    p = library.tms_torch_malloc(4 * MIB, 0, None)
print(totals("weights")["allocated_bytes"] // MIB)
library.tms_torch_free(p, 4 * MIB, 0, None)
print(totals("weights").get("allocated_bytes", 0), library.tms_torch_malloc(4 * MIB, 0, None))
"""
    assert run(library + code).split() == ["None", "4", "0", "None"]


def test_functions_of_c_that_fail_return_an_error(run: Callable[..., str], library: str) -> None:
    code = """
import logging
logging.disable(logging.CRITICAL)
print(library.tms_set_current_tag(b"not a tag!"), library.tms_set_disk_backup_dir(b"/dev/null/none"))
print(library.tms_set_interesting_region(True), library.tms_get_interesting_region(), library.tms_get_current_tag())
with saver.region("weights"):
    print(library.tms_set_current_tag(b"not a tag!"), library.tms_get_current_tag())
    user.user_malloc(4 * MIB)
print(totals("weights")["allocated_bytes"] // MIB)
"""
    assert run(library + code).splitlines() == ["1 1", "0 True b'default'", "1 b'weights'", "4"]


def test_functions_of_c_from_a_thread_that_python_has_not_started(run: Callable[..., str], tmp_path: Path) -> None:
    source = tmp_path / "native.c"
    source.write_text("""
#include <pthread.h>
int tms_set_current_tag(const char*); int tms_set_interesting_region(int); void* user_malloc(unsigned long);
static void* in_thread(void* unused) {
  tms_set_current_tag("native");
  tms_set_interesting_region(1);
  user_malloc(4 << 20);
  tms_set_interesting_region(0);
  user_malloc(2 << 20);
  return unused;
}
void run(void) {
  pthread_t thread;
  pthread_create(&thread, 0, in_thread, 0);
  pthread_join(thread, 0);
}
""")
    subprocess.run(["cc", "-shared", "-fPIC", "-pthread", "-o", tmp_path / "native.so", source], check=True)
    code = f"""
ctypes.CDLL(user._name, ctypes.RTLD_GLOBAL)
ctypes.CDLL({str(tmp_path / "native.so")!r}).run()
print(totals("native")["allocated_bytes"] // MIB, cdll.tms_get_current_tag())
"""
    assert run(code) == "4 b'default'"


def test_signatures_can_be_given_to_the_functions_of_the_wrapper(run: Callable[..., str]) -> None:
    code = """
cdll.tms_pause.argtypes, cdll.tms_pause.restype = [ctypes.c_char_p], ctypes.c_int
weights(); print(cdll.tms_pause(b"weights"), amem.state("weights"))
print(cdll.amemGetTagState(b"weights") > 0)  # any function of the process
"""
    assert run(code).splitlines() == ["0 paused", "True"]


def test_settings_of_the_wrapper_open_regions_inside_the_open_one(run: Callable[..., str]) -> None:
    """As slime does for Megatron's buffers and for DeepEP's."""
    code = """
wrapper = saver._impl._binary_wrapper
with saver.region("weights", enable_cpu_backup=True):
    wrapper.set_config(tag="buffers", interesting_region=True, enable_cpu_backup=False)
    user.user_malloc(2 * MIB)
    cdll.tms_set_interesting_region(False)
    user.user_malloc(16 * MIB)
    with saver.region("inner"):
        user.user_malloc(8 * MIB)
        print(cdll.tms_get_current_tag())
    user.user_malloc(16 * MIB)
    cdll.tms_set_interesting_region(True)
    user.user_malloc(2 * MIB)
    wrapper.set_config(tag="weights", interesting_region=True, enable_cpu_backup=True)
    user.user_malloc(6 * MIB)
user.user_malloc(16 * MIB)
with saver._impl._with_region_config(tag="private", enable_cpu_backup=True):
    print(cdll.tms_get_current_tag(), cdll.tms_get_enable_cpu_backup())
    user.user_malloc(10 * MIB)
user.user_malloc(16 * MIB)
print(*[totals(tag)["allocated_bytes"] // MIB for tag in ("weights", "buffers", "inner", "private")], totals("default"))
"""
    assert run(code).splitlines() == ["b'inner'", "b'private' True", "6 4 8 10 {}"]


def test_submodules_that_programs_import_exist_without_pytorch(build: Build) -> None:
    code = """
import sys
import amem.torch_memory_saver
from torch_memory_saver.binary_wrapper import BinaryWrapper
from torch_memory_saver.entrypoint import TorchMemorySaver, _TorchMemorySaverImpl
from torch_memory_saver.hooks.base import HookMode, HookUtilBase
from torch_memory_saver.hooks.mode_preload import HookUtilModePreload, configure_subprocess
from torch_memory_saver.hooks.mode_torch import HookUtilModeTorch
from torch_memory_saver.testing_utils import empty_cache, get_and_print_gpu_memory, get_device
from torch_memory_saver.utils import change_env, get_binary_path_from_package, is_xpu
import torch_memory_saver, torch_memory_saver.utils as utils
print(HookUtilBase.create("preload").get_path_binary(), get_device(), utils is torch_memory_saver.utils, "torch" in sys.modules)
"""
    path = f"{build.command.parent}:/usr/bin:/bin"
    assert build.python(code, PATH=path).split() == [str(build.folder / "lib" / HOOK), "cuda", "True", "False"]


def test_library_names_the_variables_that_amem_knows(build: Build) -> None:
    """slime looks for this one in the bytes of the file before it starts a trainer that offloads to a disk."""
    assert b"TMS_INIT_ENABLE_DISK_BACKUP" in (build.folder / "lib" / HOOK).read_bytes()


def test_gpus_of_others_are_refused(run: Callable[..., str]) -> None:
    code = """
from types import SimpleNamespace
def opened(**how):
    with saver.region(enable_cpu_backup=True, **how): pass
torch.version = SimpleNamespace(hip="6.2")
print(attempt(lambda: opened(cpu_backup_backend="mmap")), attempt(lambda: opened()))
torch.xpu = SimpleNamespace(is_available=lambda: True)
print(attempt(lambda: opened(cpu_backup_backend="pinned")))
"""
    assert run(code).split() == ["ValueError", "None", "ValueError"]


DISK = """
saver.set_disk_backup_dir({folder!r})
one, other = weights(enable_disk_backup=True), weights(enable_disk_backup=True)
fill(other, 9)
saver.pause()
"""


def contents(folder: Path) -> list[int]:
    """The first byte of each file, if all others are the same."""
    found = [path.read_bytes() for path in folder.iterdir()]
    return sorted(data[0] for data in found if set(data) == {data[0]} and len(data) == 4 << 20)


def test_backups_on_disk_are_files_with_names(run: Callable[..., str], tmp_path: Path) -> None:
    folder = tmp_path / "new" / "er"
    code = DISK.format(folder=str(folder)) + f"""
import shutil
shutil.copytree({str(folder)!r}, {str(tmp_path / "paused")!r})
saver.resume(); print(read(one), read(other), os.listdir({str(folder)!r}))
saver.pause(); user.user_free(one)
end = time.monotonic() + 10  # the thread that has made the file durable drops it last
while len(os.listdir({str(folder)!r})) > 1 and time.monotonic() < end: pass
print(len(os.listdir({str(folder)!r}))); saver.resume(); print(read(other))
"""
    assert run("import os, time\n" + code).splitlines() == ["{7} {9} []", "1", "{9}"]
    paused = tmp_path / "paused"
    assert contents(paused) == [7, 9]
    assert all(path.name.startswith("tms_") and stat.S_IMODE(path.stat().st_mode) == 0o600 for path in paused.iterdir())


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "sys.exit(0)", "os._exit(0)"])
def test_backups_on_disk_survive_a_process_that_ends_while_it_is_paused(build: Build, tmp_path: Path, end: str) -> None:
    code = START + "import os\n" + SET_UP + DISK.format(folder=str(tmp_path / "disk")) + end
    prefix = [str(build.command), "run", "--", sys.executable, "-c", code]
    done = subprocess.run(prefix, env=build.runtime_variables(), stderr=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False)
    assert done.returncode == (-signal.SIGKILL if "kill" in end else 0)
    assert contents(tmp_path / "disk") == [7, 9]


def test_names_of_backups_are_amems_too(build: Build, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    code = f"""
import amem, os
from runtime_user import MIB, fill, read, user
with amem.region("weights", backup="disk"):
    pointer = user.user_malloc(4 * MIB)
fill(pointer, 7)
amem.pause("weights"); print(*[name[:7] for name in os.listdir({str(tmp_path / 'disk')!r})])
amem.resume("weights"); print(read(pointer), os.listdir({str(tmp_path / 'disk')!r}))
"""
    printed = build.runtime_job(code, AMEM_BACKUP_DIR=str(tmp_path / "disk" / "actor1-XXXXXX"))
    assert printed.splitlines() == ["actor1-", "{7} []"]


def test_host_memory_without_contents_is_returned_to_a_program_that_asks_for_it(run: Callable[..., str]) -> None:
    """Also while contents of other memory are retained, and of memory that is freed while it is paused."""
    code = """
def capacity(): return amem.stats()["times"]["host_capacity_bytes"] // MIB
def keep(tag):
    with saver.region(tag, enable_cpu_backup=True): pointer = user.user_malloc(64 * MIB)
    fill(pointer, 7, 64 * MIB); saver.pause(tag)
    return pointer
def free(tag, pointer):
    with saver._impl._with_region_config(tag=tag, enable_cpu_backup=True): user.user_free(pointer)
    return capacity()
saver.retain_cpu_backup = True
a, b, c = keep("a"), keep("b"), keep("c")
saver.resume("b")
print(capacity(), free("a", a), read(b, 64 * MIB), host(cdll.tms_get_cpu_backup_pointer(b, 4)), free("b", b))
saver.retain_cpu_backup = False
saver.resume(); print(capacity(), read(c, 64 * MIB))
"""
    assert run(code, prefix=ALONE).splitlines() == [r"192 128 {7} b'\x07\x07\x07\x07' 64", "0 {7}"]
