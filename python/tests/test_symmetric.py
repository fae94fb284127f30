# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Driver calls as PyTorch's symmetric memory makes them, on the simulated GPU."""

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Actor, Build

START = """
import ctypes, os
import amem
from runtime_user import MIB, fill, read, receive_descriptors, send_descriptors
c10 = ctypes.CDLL(os.environ["TEST_LIBRARIES"] + "/libc10_cuda.so")
for name in ("c10_symmetric", "c10_segment", "c10_import", "c10_multicast"):
    getattr(c10, name).restype = ctypes.c_uint64
c10.c10_free.argtypes = [ctypes.c_uint64, ctypes.c_size_t, ctypes.c_uint64]
handle = ctypes.c_uint64(0)
SIZE = ctypes.c_size_t(4 * MIB)
def totals():
    tags = amem.stats()["tags"]
    return {name: tags["symmetric"][name] // MIB for name in ("resident_bytes", "released_bytes")} if "symmetric" in tags else {}
"""
# Both sides of a rendezvous: PyTorch sends descriptors over Unix sockets.
OWNER = (
    START
    + """
c10.c10_init()
pointer = c10.c10_symmetric(SIZE, ctypes.byref(handle))
fill(pointer, 1)
def send(path):
    send_descriptors(path, [c10.c10_export(handle)])
"""
)
IMPORTER = (
    START
    + """
c10.c10_init()
def receive(path):
    (fd,) = receive_descriptors(path, 1)
    address = c10.c10_import(fd, SIZE, ctypes.byref(handle))
    os.close(fd)
    return address
"""
)


@pytest.fixture
def rendezvous(actor: Callable[..., Actor], tmp_path: Path) -> tuple[Actor, Actor, str]:
    owner, importer = actor(OWNER), actor(IMPORTER)
    path = str(tmp_path / "socket")
    owner.process.stdin.write(f"send({path!r})\n")
    owner.process.stdin.flush()
    assert owner.process.stdout.readline() == "listening\n"
    address = importer.ask(f"receive({path!r})")
    assert owner.process.stdout.readline() == "None\n"
    assert int(address) > 0
    return owner, importer, address


def test_memory_of_all_ranks_leaves_and_comes_back(rendezvous: tuple[Actor, Actor, str]) -> None:
    owner, importer, address = rendezvous
    assert importer.ask(f"read({address})") == "{1}"
    importer.ask(f"fill({address}, 2)")
    assert owner.ask("amem.pause('symmetric').released_bytes // MIB") == "4"
    assert importer.ask(f"read({address})") == "1"  # cudaErrorInvalidValue
    assert owner.ask("amem.resume('symmetric').resident_bytes // MIB") == "4"
    assert (owner.ask("read(pointer)"), importer.ask(f"read({address})")) == ("{2}", "{2}")


@pytest.mark.parametrize("order", ["io", "oi"])
def test_ranks_pause_and_resume_in_any_order(rendezvous: tuple[Actor, Actor, str], order: str) -> None:
    owner, importer, address = rendezvous
    actors = [owner if letter == "o" else importer for letter in order]
    for actor in actors:
        assert actor.ask("amem.pause()").startswith("Report")
    for actor in actors:
        assert actor.ask("amem.resume()").startswith("Report")
    assert (owner.ask("read(pointer)"), importer.ask(f"read({address})")) == ("{1}", "{1}")


FABRIC = (
    START
    + """
c10.c10_fabric_symmetric.restype = c10.c10_import_fabric.restype = ctypes.c_uint64
c10.c10_init()
pointer = c10.c10_fabric_symmetric(SIZE, ctypes.byref(handle))
fill(pointer, 1)
def name():
    found = ctypes.create_string_buffer(64)
    assert c10.c10_export_fabric(handle, found) == 0
    return found.raw
def receive(name):
    return c10.c10_import_fabric(name, SIZE, ctypes.byref(ctypes.c_uint64(0)))
def persistent():
    return {why: size // MIB for why, size in amem.stats()["persistent"].items()}
"""
)


@pytest.mark.parametrize("ranks_here", ["2", "1"])
def test_memory_with_fabric_handles_leaves_if_all_ranks_are_on_this_host(actor: Callable[..., Actor], ranks_here: str) -> None:
    settings = {"AMEM_SIM_FABRIC": "domain", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": ranks_here}
    owner, importer = actor(FABRIC, **settings), actor(FABRIC, **settings)
    address = importer.ask(f"receive({owner.ask('name()')})")
    assert importer.ask(f"read({address})") == "{1}"
    stays = ranks_here == "1"
    for fill in (2, 3):
        importer.ask(f"fill({address}, {fill})")
        owner.ask("amem.pause('symmetric')")
        assert owner.ask("totals()") == ("{'resident_bytes': 4, 'released_bytes': 0}" if stays else "{'resident_bytes': 0, 'released_bytes': 4}")
        assert owner.ask("persistent()") == ("{'exported as a fabric handle': 4}" if stays else "{}")
        assert importer.ask(f"read({address})") == (f"{{{fill}}}" if stays else "1")
        owner.ask("amem.resume('symmetric')")
        assert (owner.ask("read(pointer)"), importer.ask(f"read({address})")) == (f"{{{fill}}}",) * 2


def test_memory_is_freed_in_any_state(rendezvous: tuple[Actor, Actor, str]) -> None:
    owner, importer, address = rendezvous
    owner.ask("amem.pause('symmetric')")
    assert owner.ask("c10.c10_free(pointer, SIZE, handle)") == "0"
    owner.ask("amem.resume('symmetric')")
    assert owner.ask("totals()") == "{}"
    assert importer.ask(f"c10.c10_free({address}, SIZE, handle)") == "0"
    assert importer.ask("amem.stats()['imports']['objects']") == "0"


def test_table_that_was_filled_before_amem_is_replaced(build: Build) -> None:
    code = START.replace("import amem\n", "", 1).replace("handle =", "assert c10.c10_init() == 0\nimport amem\nhandle =")
    code += """
pointer = c10.c10_symmetric(SIZE, ctypes.byref(handle))
fill(pointer, 3)
amem.pause()
print(totals())
amem.resume()
print(read(pointer))
"""
    path = f"{build.folder / 'bin'}"
    variables = build.runtime_variables(AMEM_SIM_MEMORY_MB="64")
    import os

    variables["PATH"] = path + ":" + os.environ["PATH"]
    assert build.python(code, **variables).splitlines() == ["{'resident_bytes': 0, 'released_bytes': 4}", "{3}"]


def test_memory_bound_to_multicast_stays_and_is_reported(build: Build) -> None:
    code = (
        START
        + """
assert c10.c10_init() == 0
pointer, other, second = c10.c10_symmetric(SIZE, ctypes.byref(handle)), ctypes.c_uint64(0), 0
second = c10.c10_symmetric(SIZE, ctypes.byref(other))
fill(pointer, 5), fill(second, 6)
assert c10.c10_multicast(handle, SIZE) != 0
for _ in range(2):
    amem.pause('symmetric')
    print(totals(), read(pointer), {why: size // MIB for why, size in amem.stats()["persistent"].items()})
    amem.resume('symmetric')
    print(totals(), read(pointer), read(second))
"""
    )
    paused = "{'resident_bytes': 4, 'released_bytes': 4} {5} {'bound to multicast (NVLS)': 4}"
    resumed = "{'resident_bytes': 8, 'released_bytes': 0} {5} {6}"
    assert build.runtime_job(code, AMEM_SIM_MULTICAST="1").splitlines() == [paused, resumed] * 2


def test_memory_bound_to_multicast_leaves_on_request(build: Build) -> None:
    code = (
        START
        + """
assert c10.c10_init() == 0
pointer = c10.c10_symmetric(SIZE, ctypes.byref(handle))
fill(pointer, 5)
multicast, memory, bound = c10.c10_multicast(handle, SIZE), (ctypes.c_void_p * 16)(), ctypes.CDLL("libcuda.so.1").amemSimBoundMemory
for _ in range(2):
    amem.pause('symmetric')
    print(totals(), end=' ')
    amem.resume('symmetric')
    print(totals(), read(pointer), bound(ctypes.c_uint64(multicast), SIZE, memory, 16))
"""
    )
    cycle = "{'resident_bytes': 0, 'released_bytes': 4} {'resident_bytes': 4, 'released_bytes': 0} {5} 1"
    assert build.runtime_job(code, AMEM_SIM_MULTICAST="1", AMEM_RELEASE_MULTICAST="1").splitlines() == [cycle] * 2


def test_buffer_that_is_dropped_after_a_rendezvous_leaves_nothing(rendezvous: tuple[Actor, Actor, str]) -> None:
    """What SGLang's communicator does where there is no multicast; the rank that allocated may be the first."""
    owner, importer, address = rendezvous
    assert owner.ask("c10.c10_free(pointer, SIZE, handle)") == "0"
    assert importer.ask(f"read({address})") == "{1}", "the driver keeps it for the importer"
    assert owner.ask("amem.pause('symmetric').resident_bytes") == "0"
    assert importer.ask("amem.pause('symmetric').resident_bytes") == "0"
    assert importer.ask("amem.resume('symmetric').seconds < 60") == "True"
    assert owner.ask("amem.resume('symmetric').seconds < 60") == "True"
    assert importer.ask(f"c10.c10_free({address}, SIZE, handle)") == "0"
    assert importer.ask("amem.stats()['imports']['objects']") == "0"
    assert owner.ask("totals()") == "{}"


def test_expandable_segments_stay_the_drivers(build: Build) -> None:
    code = (
        START
        + """
c10.c10_init()
pointer = c10.c10_segment(SIZE, ctypes.byref(handle))
fill(pointer, 5)
amem.pause()
print(totals(), read(pointer))
amem.resume()
print(c10.c10_free(pointer, SIZE, handle))
"""
    )
    assert build.runtime_job(code).splitlines() == ["{} {5}", "0"]
