# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""`amem run --tensors`, on the simulated GPU: all memory of a program has a tag."""

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Build

START = """
import ctypes, amem
from runtime_user import MIB, fill, read, user
def totals(tag):
    return amem.stats()["tags"].get(tag, {})
"""


@pytest.fixture
def run_with_tag(build: Build) -> Callable[..., str]:
    """Under `amem run --tensors job`."""

    def run(code: str, binding: str, **settings: str) -> str:
        settings = build.runtime_variables(TEST_BINDING=binding, **settings)
        return build.python(START + code, prefix=(build.command, "run", "--tensors", "job", "--"), **settings)

    return run


@pytest.mark.parametrize("binding", ["now", "static"])
def test_whole_process_has_a_tag_under_amem_run(run_with_tag: Callable[..., str], binding: str) -> None:
    code = """
outer = user.user_malloc(4 * MIB)
with amem.disable():
    outside = user.user_malloc(4 * MIB)
with amem.region("inner", backup=None):
    inner = user.user_malloc(2 * MIB)
fill(outer, 5); fill(outside, 6)
amem.pause("job")
print(totals("job")["released_bytes"] // MIB, totals("inner")["resident_bytes"] // MIB, read(outside))
amem.resume("job")
print(read(outer), [user.user_free(pointer) for pointer in (outer, outside, inner)], amem.stats()["total"]["objects"])
print(user.user_malloc_result(1 << 40))
"""
    assert run_with_tag(code, binding).splitlines() == ["4 2 {6}", "{5} [0, 0, 0] 0", "2"]


def test_contained_runtime_has_peer_access(run_with_tag: Callable[..., str]) -> None:
    code = """
from runtime_user import runtime
pointer = user.user_malloc(4 * MIB)
runtime.cudaSetDevice(1)
flags, location = ctypes.c_ulonglong(), (ctypes.c_int * 2)(1, 1)
def access():
    assert ctypes.CDLL("libcuda.so.1").cuMemGetAccess(ctypes.byref(flags), location, ctypes.c_uint64(pointer)) == 0
    return flags.value
print(access(), user.user_enable_peer(0), access(), user.user_enable_peer(0), access())
"""
    assert run_with_tag(code, "static") == "0 0 3 704 3"


def test_memory_of_libraries_of_cuda_stays_outside_regions(run_with_tag: Callable[..., str], build: Build, tmp_path: Path) -> None:
    """Without --tensors that of any library that contains the runtime; always that of libcudart."""
    code = """
with amem.region("weights"):
    pointer = user.user_malloc(4 * MIB)
print(totals("weights"), user.user_free(pointer))
"""
    assert build.runtime_job(START + code, TEST_BINDING="static") == "{} 0"
    folder = build.folder / "tests" / "interpose" / "programs"
    copy = tmp_path / "libcudart.so.12"
    copy.write_bytes((folder / "libruntime_user_static.so").read_bytes())
    code = f"""
runtime = ctypes.CDLL({str(copy)!r})
runtime.user_malloc.restype = ctypes.c_void_p
print(runtime.user_malloc(ctypes.c_size_t(4 * MIB)) is not None, totals("job"))
"""
    assert run_with_tag(code, "static") == "True {}"
