# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Driver calls as NVSHMEM makes them, on the simulated GPU, with AMEM_NVSHMEM=1."""

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Actor, Build

START = """
import ctypes, os
from runtime_user import MIB, fill, read, receive_descriptors, send_descriptors
import amem
nvshmem = ctypes.CDLL(os.environ["TEST_LIBRARIES"] + "/libnvshmem_host.so")
for name in ("nvshmem_grow", "nvshmem_import", "nvshmem_next"):
    getattr(nvshmem, name).restype = ctypes.c_uint64
nvshmem.nvshmem_dma_buf.argtypes = [ctypes.c_uint64, ctypes.c_size_t]
SIZE = 4 * MIB
handles = []
def grow(value):
    handle = ctypes.c_uint64(0)
    address = nvshmem.nvshmem_grow(ctypes.c_size_t(SIZE), ctypes.byref(handle))
    fill(address, value)
    handles.append(handle)
    return address
def end():
    return nvshmem.nvshmem_end((ctypes.c_uint64 * len(handles))(*handles), len(handles))
def totals():
    tags = amem.stats()["tags"]
    return {name: tags["symmetric"][name] // MIB for name in ("resident_bytes", "released_bytes")} if "symmetric" in tags else {}
assert nvshmem.nvshmem_begin() == 0
"""
# Two PEs, one of which has the memory of the other mapped.
OWNER = (
    START
    + """
first, second = grow(1), grow(2)
def send(path):
    send_descriptors(path, [nvshmem.nvshmem_export(each) for each in handles])
"""
)
IMPORTER = (
    START
    + """
def receive(path):
    fds = receive_descriptors(path, 2)
    found = [nvshmem.nvshmem_import(fd, ctypes.c_size_t(SIZE), ctypes.c_size_t(i * SIZE)) for i, fd in enumerate(fds)]
    for fd in fds:
        os.close(fd)
    return found
"""
)


@pytest.fixture
def pes(actor: Callable[..., Actor], tmp_path: Path) -> tuple[Actor, Actor, list[str]]:
    """The two processes, and the addresses of the owner's memory in the other."""
    owner, importer = (actor(code, AMEM_NVSHMEM="1") for code in (OWNER, IMPORTER))
    path = str(tmp_path / "socket")
    owner.process.stdin.write(f"send({path!r})\n")
    owner.process.stdin.flush()
    assert owner.process.stdout.readline() == "listening\n"
    addresses = importer.ask(f"receive({path!r})").strip("[]").split(", ")
    assert owner.process.stdout.readline() == "None\n"
    assert all(int(address) > 0 for address in addresses)
    return owner, importer, addresses


def test_heap_of_all_pes_leaves_and_comes_back(pes: tuple[Actor, Actor, list[str]]) -> None:
    owner, importer, (first, second) = pes
    assert (importer.ask(f"read({first})"), importer.ask(f"read({second})")) == ("{1}", "{2}")
    importer.ask(f"fill({second}, 3)")
    assert owner.ask("amem.pause('symmetric').released_bytes // MIB") == "8"
    assert importer.ask(f"read({first})") == "1"  # cudaErrorInvalidValue
    assert owner.ask("amem.resume('symmetric').resident_bytes // MIB") == "8"
    assert (owner.ask("read(first)"), owner.ask("read(second)")) == ("{1}", "{3}")
    assert (importer.ask(f"read({first})"), importer.ask(f"read({second})")) == ("{1}", "{3}")


@pytest.mark.parametrize("order", ["io", "oi"])
def test_pes_pause_and_resume_in_any_order(pes: tuple[Actor, Actor, list[str]], order: str) -> None:
    owner, importer, (first, second) = pes
    actors = [owner if letter == "o" else importer for letter in order]
    for call in ("pause", "resume"):
        for actor in actors:
            assert actor.ask(f"amem.{call}()").startswith("Report")
    assert (owner.ask("read(first)"), importer.ask(f"read({first})"), importer.ask(f"read({second})")) == ("{1}", "{1}", "{2}")


@pytest.mark.parametrize("paused", ["", "o", "i", "oi"])
def test_heap_that_ends_leaves_nothing(pes: tuple[Actor, Actor, list[str]], paused: str) -> None:
    owner, importer, _ = pes
    for letter in paused:
        (owner if letter == "o" else importer).ask("amem.pause()")
    assert (importer.ask("end()"), owner.ask("end()")) == ("0", "0")
    for letter in paused:
        assert (owner if letter == "o" else importer).ask("amem.resume()").startswith("Report")
    assert importer.ask("amem.stats()['imports']['objects']") == "0"
    assert (owner.ask("totals()"), importer.ask("totals()")) == ("{}", "{}")


def test_heap_grows_after_a_resume(build: Build) -> None:
    code = START + "first = grow(1)\namem.pause(), amem.resume()\nsecond = grow(2)\namem.pause()\nprint(totals())\namem.resume()\n"
    found = build.runtime_job(code + "print(read(first), read(second))", AMEM_NVSHMEM="1")
    assert found.splitlines() == ["{'resident_bytes': 0, 'released_bytes': 8}", "{1} {2}"]


def test_memory_that_a_network_uses_stays(build: Build) -> None:
    code = START + "first = grow(1)\nsecond = grow(2)\nassert nvshmem.nvshmem_dma_buf(first, SIZE) >= 0\namem.pause()\n"
    code += "print(totals(), read(first), amem.stats()['persistent'])"
    found = build.runtime_job(code, AMEM_NVSHMEM="1")
    assert found == "{'resident_bytes': 4, 'released_bytes': 4} {1} {'registered with a NIC': 4194304}"


@pytest.mark.parametrize("settings", [{}, {"AMEM_NVSHMEM": "0"}])
def test_without_the_variable_it_stays(build: Build, settings: dict[str, str]) -> None:
    code = START + "first = grow(1)\namem.pause()\nprint(totals(), read(first))"
    assert build.runtime_job(code, **settings) == "{} {1}"


def test_without_amem_nothing_changes(build: Build) -> None:
    code = START.replace("import amem\n", "") + "first = grow(1)\nprint(read(first), end())"
    assert build.runtime_job(code, AMEM_NVSHMEM="1", AMEM_ENABLE="0") == "{1} 0"


def test_other_look_ups_have_the_answers_of_the_loader(build: Build) -> None:
    """RTLD_NEXT finds libc's function, but not the caller's own."""
    code = START + "print(nvshmem.nvshmem_next(b'dlsym') != 0, nvshmem.nvshmem_next(b'nvshmem_begin'))"
    assert build.runtime_job(code, AMEM_NVSHMEM="1") == "True 0"
