# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Memory of regions that other libraries than NCCL use by its physical addresses, on the simulated GPU: it stays."""

from collections.abc import Callable

import pytest

from conftest import Build

START = """
import ctypes, amem
from runtime_user import MIB, fill, library, read, user
with amem.region("weights"):
    used, other = user.user_malloc(4 * MIB), user.user_malloc(4 * MIB)
fill(used, 1), fill(other, 2)
SIZE = ctypes.c_size_t(4 * MIB)
def pause():
    report = amem.pause("weights")
    print(report.resident_bytes // MIB, report.released_bytes // MIB, read(used), amem.stats()["persistent"])
    amem.resume("weights")
    print(read(used), read(other))
"""
LEFT = ["0 8 1 {}", "{1} {2}"]


def stayed(reason: str) -> list[str]:
    return [f"4 4 {{1}} {{'{reason}': 4194304}}", "{1} {2}"]


@pytest.fixture
def run(build: Build) -> Callable[..., list[str]]:
    return lambda code, **settings: build.runtime_job(START + code, **settings).splitlines()


@pytest.mark.parametrize("binding", ["now", "lazy"])
@pytest.mark.parametrize(
    "call, reason",
    [
        ("nic_register", "registered with a NIC"),
        ("nic_register_dma_buf", "registered with a NIC"),
        ("nic_map", "mapped for the CPU (gdrcopy)"),
    ],
)
def test_memory_that_a_library_registers_stays(run: Callable[..., list[str]], binding: str, call: str, reason: str) -> None:
    code = f"print(library('nic_user_{binding}').{call}(ctypes.c_void_p(used), SIZE)); pause()"
    assert run(code) == ["0", *stayed(reason)]


def test_memory_that_is_registered_by_a_looked_up_function_stays(run: Callable[..., list[str]]) -> None:
    code = "library('fake_verbs').ibv_reg_mr(None, ctypes.c_void_p(used), SIZE, 0); pause()"
    assert run(code) == stayed("registered with a NIC")


def test_memory_that_is_exported_as_a_dma_buf_stays(run: Callable[..., list[str]]) -> None:
    code = """
fd = ctypes.c_int(-1)
driver = ctypes.CDLL("libcuda.so.1")
print(driver.cuMemGetHandleForAddressRange(ctypes.byref(fd), ctypes.c_void_p(used), SIZE, 1, ctypes.c_ulonglong(0)))
pause()
"""
    assert run(code) == ["0", *stayed("exported as a dma-buf")]


@pytest.mark.parametrize("exports", [True, False])
def test_memory_whose_driver_handle_a_library_exports_stays(run: Callable[..., list[str]], exports: bool) -> None:
    """Its importers are not known. A handle that is only retained and released is a query."""
    code = f"""
handle, fd, driver = ctypes.c_ulonglong(), ctypes.c_int(-1), ctypes.CDLL("libcuda.so.1")
print(driver.cuMemRetainAllocationHandle(ctypes.byref(handle), ctypes.c_void_p(used)))
if {exports}:
    print(driver.cuMemExportToShareableHandle(ctypes.byref(fd), handle, 1, ctypes.c_ulonglong(0)))
print(driver.cuMemRelease(handle))
pause()
"""
    assert run(code) == (["0", "0", "0", *stayed("exported by the application")] if exports else ["0", "0", *LEFT])


@pytest.mark.parametrize("call", ["nic_register", "nic_register_dma_buf", "nic_map"])
def test_memory_whose_registration_fails_leaves(run: Callable[..., list[str]], call: str) -> None:
    code = f"print(library('nic_user_now').{call}(ctypes.c_void_p(used), ctypes.c_size_t(999)) != 0); pause()"
    assert run(code) == ["True", *LEFT]
