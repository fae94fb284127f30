# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The interface of torch_memory_saver, without PyTorch, on the simulated GPU."""

import pytest

START = """
import amem, amem.torch_memory_saver
from torch_memory_saver import configure_subprocess, torch_memory_saver as saver
from runtime_user import MIB, fill, read, user
def totals(tag):
    return amem.stats()["tags"].get(tag, {})
"""


@pytest.fixture
def run(build):
    return lambda code, **settings: build.runtime_job(START + code, **settings)


def test_regions_pause_and_resume_by_tag(run):
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


def test_nccl_is_paused_with_the_tag_that_a_variable_names(run):
    code = """
with saver.region(tag="weights"):
    user.user_malloc(4 * MIB)
for tag in ("other", "weights", None):
    saver.pause(tag)
    print(amem.state("nccl"))
    saver.resume(tag)
print(amem.state("nccl"))
"""
    assert run(code, AMEM_TMS_NCCL="weights").split() == ["active", "paused", "paused", "active"]


def test_private_functions_configure_the_thread(run):
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


def test_regions_of_both_interfaces_nest(run):
    code = """
with amem.region("outer"):
    with saver.region("inner"):
        user.user_malloc(2 * MIB)
    user.user_malloc(4 * MIB)
user.user_malloc(2 * MIB)
print(totals("outer")["allocated_bytes"] // MIB, totals("inner")["allocated_bytes"] // MIB)
"""
    assert run(code) == "4 2"


def test_all_memory_has_a_tag_where_the_variables_say_so(run):
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


def test_margin_and_retained_host_memory(run):
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


def test_subprocesses_get_amem_as_torch_memory_saver(run):
    code = """
import os
before = dict(os.environ)
with configure_subprocess():
    print(os.environ["AMEM_TMS"], "libamem_nccl.so" in os.environ["LD_PRELOAD"], os.environ["AMEM_ENABLE"])
print(os.environ == before)
"""
    assert run(code).splitlines() == ["1 True 1", "True"]


@pytest.mark.parametrize("how", ["call", "variable", "default"])
def test_contents_are_kept_on_disk(run, tmp_path, how):
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
    settings = {"TMS_DISK_BACKUP_DIR": str(tmp_path)} if how == "variable" else {}
    assert run(code, **settings).splitlines() == [
        "4 0", "{7}", "enable_cpu_backup and enable_disk_backup exclude each other"
    ]
