# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Memory of regions that another process opens with cudaIpcOpenMemHandle(), on the simulated GPU."""

from collections.abc import Callable

import pytest

from conftest import Actor

OWNER = """
import ctypes
import amem
from runtime_user import MIB, export, fill, read, runtime, user
with amem.region("weights"):
    pointer = user.user_malloc(4 * MIB)
fill(pointer, 1)
"""
IMPORTER = """
import ctypes
import amem
from runtime_user import MIB, export, fill, read, runtime, user
class Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_byte * 64)]
"""


@pytest.fixture(params=["now", "static"])
def pair(actor: Callable[..., Actor], request: pytest.FixtureRequest) -> tuple[Actor, Actor]:
    """Both with a runtime in a library of its own, or contained in a program under --tensors."""
    settings = {"TEST_BINDING": request.param}
    if request.param == "static":
        settings["AMEM_TENSORS"] = "weights"
    return actor(OWNER, **settings), actor(IMPORTER, **settings)


def opened(owner: Actor, importer: Actor) -> tuple[str, str]:
    handle = owner.ask("export(pointer)")
    address = importer.ask(f"user.user_open({handle})")
    assert address.isdigit(), address
    return handle, address


def test_importer_sees_the_owners_memory_and_keeps_its_address_over_pauses(pair: tuple[Actor, Actor]) -> None:
    owner, importer = pair
    handle, address = opened(owner, importer)
    assert importer.ask(f"read({address})") == "{1}"
    for value in (2, 3):
        assert importer.ask(f"fill({address}, {value})") == "None"
        assert owner.ask("amem.pause('weights').resident_bytes") == "0"
        assert importer.ask(f"read({address})") == "1"  # cudaErrorInvalidValue
        assert owner.ask("amem.resume('weights').resident_bytes // MIB") == "4"
        assert importer.ask(f"read({address})") == "{%d}" % value
        assert owner.ask("read(pointer)") == "{%d}" % value
    assert importer.ask(f"user.user_open({handle})") == address
    assert [importer.ask(f"user.user_close({address})") == "0" for _ in range(3)] == [True, True, False]
    assert importer.ask("amem.stats()['imports']['objects']") == "0"
    assert owner.ask("read(pointer)") == "{3}"


def test_memory_after_that_which_was_freed_while_paused_can_be_opened(actor: Callable[..., Actor]) -> None:
    again = """
def again():
    global pointer
    user.user_free(pointer)
    amem.resume("weights")
    with amem.region("weights"):
        pointer = user.user_malloc(4 * MIB)
    fill(pointer, 5)
"""
    owner, importer = (actor(code, TEST_BINDING="now", AMEM_TIMEOUT_MS="10000") for code in (OWNER + again, IMPORTER))
    _, address = opened(owner, importer)
    assert importer.ask(f"user.user_close({address})") == "0"
    assert owner.ask("amem.pause('weights').resident_bytes") == "0"
    assert owner.ask("again()") == "None"
    assert importer.ask(f"read({opened(owner, importer)[1]})") == "{5}"


def test_importer_pauses_alone(pair: tuple[Actor, Actor]) -> None:
    owner, importer = pair
    _, address = opened(owner, importer)
    assert importer.ask("amem.pause('weights')").startswith("Report")
    assert importer.ask(f"read({address})") == "1"
    assert owner.ask("read(pointer)") == "{1}"
    assert importer.ask("amem.resume('weights')").startswith("Report")
    assert importer.ask(f"read({address})") == "{1}"


def test_handle_is_opened_while_the_owner_is_paused(pair: tuple[Actor, Actor]) -> None:
    owner, importer = pair
    handle = owner.ask("export(pointer)")
    owner.ask("amem.pause('weights')")
    address = importer.ask(f"user.user_open({handle})")
    assert address.isdigit()
    assert importer.ask(f"read({address})") == "1"
    owner.ask("amem.resume('weights')")
    assert importer.ask(f"read({address})") == "{1}"


def test_handle_of_freed_memory_or_of_an_ended_owner_is_refused(pair: tuple[Actor, Actor]) -> None:
    owner, importer = pair
    handle = owner.ask("export(pointer)")
    assert owner.ask("user.user_free(pointer)") == "0"
    assert importer.ask(f"user.user_open({handle})") == "None"
    assert owner.close() == 0
    assert importer.ask(f"user.user_open({handle})") == "None"


def test_interior_pointer_and_own_handle(pair: tuple[Actor, Actor]) -> None:
    owner, importer = pair
    address = importer.ask(f"user.user_open({owner.ask('export(pointer + MIB)')})")
    assert importer.ask(f"read({address})") == "{1}"
    own = owner.ask(f"user.user_open({owner.ask('export(pointer)')})")
    assert owner.ask(f"read({own})") == "{1}"
    assert owner.ask(f"user.user_close({own})") == "0"
    assert owner.ask("read(pointer)") == "{1}"


def test_memory_that_is_freed_before_its_own_handle_is_closed(pair: tuple[Actor, Actor]) -> None:
    owner, _ = pair
    own = owner.ask(f"user.user_open({owner.ask('export(pointer)')})")
    assert owner.ask("user.user_free(pointer)") == "0"
    assert owner.ask(f"read({own})") == "{1}"
    assert owner.ask(f"user.user_free({own})") == "1"
    assert owner.ask(f"user.user_close({own})") == "0"
    assert owner.ask("amem.stats()['total']['objects']") == "0"


def test_handles_of_cuda_go_to_the_runtime(actor: Callable[..., Actor]) -> None:
    owner = actor(OWNER)
    outside = owner.ask("user.user_malloc(MIB)")
    handle = owner.ask(f"export({outside})")
    assert owner.ask(f"user.user_open({handle})") == str(0x5555)
    assert owner.ask(f"user.user_close({0x5555})") == "0"


def test_functions_that_ctypes_looks_up(pair: tuple[Actor, Actor]) -> None:
    """vLLM and SGLang open the CUDA runtime with ctypes for their custom all-reduce."""
    owner, importer = pair
    size = "ctypes.create_string_buffer(64)"
    exported = f"(lambda handle: (runtime.cudaIpcGetMemHandle(handle, ctypes.c_void_p(pointer)), handle.raw))({size})"
    code, handle = eval(owner.ask(exported))
    assert code == 0
    by_value = f"Handle.from_buffer_copy({handle!r})"
    opened_at = f"(lambda at: (runtime.cudaIpcOpenMemHandle(ctypes.byref(at), {by_value}, 1), at.value))(ctypes.c_void_p())"
    code, address = eval(importer.ask(opened_at))
    assert code == 0 and importer.ask(f"read({address})") == "{1}"
    owner.ask("amem.pause('weights')")
    owner.ask("amem.resume('weights')")
    assert importer.ask(f"read({address})") == "{1}"
    assert importer.ask(f"runtime.cudaIpcCloseMemHandle(ctypes.c_void_p({address}))") == "0"


def test_importer_without_amem_gets_an_error_of_cuda(actor: Callable[..., Actor], pair: tuple[Actor, Actor]) -> None:
    owner, _ = pair
    importer = actor(IMPORTER, prefix=(), AMEM_ENABLE="0")
    assert importer.ask(f"user.user_open({owner.ask('export(pointer)')})") == "None"
