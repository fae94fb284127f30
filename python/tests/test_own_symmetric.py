# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem.symmetric without PyTorch, in two processes on the simulated GPU."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Actor

START = """
import ctypes, gc, threading
import amem
import amem.symmetric as symm_mem
from amem.groups import FileGroup
from runtime_user import MIB
cuda = ctypes.CDLL("libcuda.so.1")
def meet(rank, folder, name, size_bytes=MIB):
    global buffer, handle
    buffer = symm_mem.Buffer(size_bytes)
    handle = symm_mem.rendezvous(buffer, FileGroup(folder, name, rank, 2, timeout_s=20))
    return handle.rank, handle.world_size, handle.buffer_size, len(set(handle.buffer_ptrs))
def write(address, *words):
    data = (ctypes.c_uint32 * len(words))(*words)
    assert cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(address), data, ctypes.c_size_t(4 * len(words))) == 0
def words(address, count):
    assert cuda.cuCtxSynchronize() == 0
    data = (ctypes.c_uint32 * count)()
    assert cuda.cuMemcpyDtoH_v2(data, ctypes.c_uint64(address), ctypes.c_size_t(4 * count)) == 0
    return list(data)
context, device = ctypes.c_void_p(), ctypes.c_int()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), RANK) == 0
assert cuda.cuCtxSetCurrent(context) == 0
def used():
    return amem.stats()["tags"].get("symmetric", {}).get("allocated_bytes", 0)
"""


class Pair:
    """Two ranks; an expression is sent to both before an answer is read."""

    def __init__(self, actor: Callable[..., Actor], **settings: str) -> None:
        self.ranks = [actor(START.replace("RANK", str(rank)), **settings) for rank in range(2)]

    def both(self, expression: str) -> list[str]:
        for rank, each in enumerate(self.ranks):
            each.process.stdin.write(expression.replace("RANK", str(rank)) + "\n")
            each.process.stdin.flush()
        return [each.process.stdout.readline().strip() for each in self.ranks]


@pytest.fixture
def pair(actor: Callable[..., Actor]) -> Pair:
    return Pair(actor)


@pytest.fixture
def met(pair: Pair, tmp_path: Path) -> Pair:
    assert pair.both(f"meet(RANK, {str(tmp_path)!r}, 'a')") == ["(0, 2, 1048576, 2)", "(1, 2, 1048576, 2)"]
    return pair


def test_buffers_of_peers_and_signals(met: Pair) -> None:
    met.both("write(handle.buffer_ptrs[1 - RANK], 100 + RANK)")
    assert met.both("handle.barrier(stream=0)") == ["None", "None"]
    assert met.both("words(buffer.address, 1)") == ["[101]", "[100]"]
    assert met.ranks[0].ask("handle.put_signal(1, 2, stream=0)") == "None"
    assert met.ranks[1].ask("handle.wait_signal(0, 2, stream=0)") == "None"
    assert met.ranks[0].ask("handle.write_value32(handle.buffer_ptrs[1], 7, stream=0)") == "None"
    met.both("handle.barrier(1, 20000, stream=0)")
    assert met.ranks[1].ask("words(buffer.address, 1)") == "[7]"
    assert met.both("handle.check_error()") == ["None", "None"]
    # A pointer for kernels is in device memory.
    assert met.ranks[0].ask("words(handle.buffer_ptrs_dev, 2)[0] == handle.buffer_ptrs[0] & 0xffffffff") == "True"


def test_collectives_before_and_after_a_pause(met: Pair) -> None:
    one = "0x3f800000"  # 1.0
    for _ in range(2):
        met.both(f"write(buffer.address, *[{one}] * 8)")
        assert met.both("handle.all_reduce(buffer.address + 65536, 0, 8, 'float32', stream=0)") == ["None", "None"]
        assert met.both("set(words(buffer.address + 65536, 8)) == {0x40000000}") == ["True", "True"]
        met.both("write(buffer.address, *range(RANK * 10, RANK * 10 + 4))")
        met.both("handle.all_gather(buffer.address + 65536, 0, 16, 'copy_engines', stream=0)")
        assert met.both("words(buffer.address + 65536, 8)") == ["[0, 1, 2, 3, 10, 11, 12, 13]"] * 2
        met.both("handle.all_to_all(buffer.address + 65536, 0, 16, stream=0)")
        assert met.ranks[0].ask("amem.pause('symmetric').released_bytes > 0") == "True"
        assert "is paused" in met.ranks[1].ask("handle.barrier(0, 50, stream=0)")
        assert met.ranks[0].ask("amem.resume('symmetric') and None") == "None"
    assert "cannot be reduced" in met.ranks[0].ask("handle.all_reduce(buffer.address, 0, 8, 'int8')")


TENSORS = """
from types import SimpleNamespace
def tensor(offset_bytes, count):
    at = buffer.address + offset_bytes
    return SimpleNamespace(data_ptr=lambda: at, numel=lambda: count, nbytes=4 * count, dtype="torch.float32")
def group(rank, folder):
    return FileGroup(folder, "a", rank, 2)
"""


def test_multimem_collectives(actor: Callable[..., Actor], tmp_path: Path) -> None:
    pair = Pair(actor, AMEM_MULTICAST="1", AMEM_SIM_MULTICAST="1")
    pair.both(f"meet(RANK, {str(tmp_path)!r}, 'a') and exec({TENSORS!r}, globals())")
    assert pair.both("handle.has_multicast_support() and handle.multicast_ptr != 0") == ["True", "True"]
    group = f"group(RANK, {str(tmp_path)!r})"
    pair.both("write(buffer.address, *[0x3f800000] * 8)")
    pair.both(f"symm_mem.multimem_all_reduce_(tensor(0, 8), 'sum', {group}) and None")
    assert pair.both("set(words(buffer.address, 8)) == {0x40000000}") == ["True", "True"]
    pair.both("write(buffer.address + 65536, *range(RANK * 10, RANK * 10 + 4))")
    pair.both(f"symm_mem.multimem_all_gather_out(tensor(65536, 4), {group}, tensor(4096, 8)) and None")
    assert pair.both("words(buffer.address + 4096, 8)") == ["[0, 1, 2, 3, 10, 11, 12, 13]"] * 2
    call = f"symm_mem.multimem_all_gather_out(tensor(0, 4), {group}, tensor(4096, 4))"
    wrong = pair.ranks[0].ask(call.replace("RANK", "0"))
    assert "out has 16 bytes, for 2 tensors of 16" in wrong, wrong


def test_words_of_tensors_are_written(met: Pair) -> None:
    """As torch's _SymmetricMemory.stream_write_value32() and memset32(): the tensor says whose words."""
    met.both("write(buffer.address, *[5] * 8)")
    met.both("handle.barrier(stream=0)")
    met.both("handle.memset32(handle.get_buffer(1 - RANK, [32]), 2, 8, 3) and None")
    met.both("handle.stream_write_value32(handle.get_signal_pad(1 - RANK), 6, 90 + RANK) and None")
    met.both("handle.barrier(stream=0)")
    assert met.both("words(buffer.address, 8)") == ["[5, 5, 8, 8, 8, 5, 5, 5]"] * 2
    assert met.both("words(handle.signal_pad_ptrs[RANK] + 24, 1)") == ["[91]", "[90]"]
    assert met.both("symm_mem.Handle.memset32(handle.get_signal_pad(RANK), 6, 0) and None") == ["None", "None"]
    assert met.both("words(handle.signal_pad_ptrs[RANK] + 24, 1)") == ["[0]", "[0]"]

    def refused(tensor: Any, *arguments: Any) -> str:
        return met.ranks[0].ask(f"symm_mem.Handle.memset32({tensor}, *{arguments})")

    assert "3 words at word 6: the tensor has 32 bytes" in refused("handle.get_buffer(1, [32])", 6, 1, 3)
    assert "1 words at word -1" in refused("buffer", -1, 1)
    assert "call rendezvous() first" in refused("symm_mem.Buffer(64)", 0, 1)
    bytes_ = "__import__('types').SimpleNamespace(dtype=__import__('types').SimpleNamespace(itemsize=1))"
    assert "is not contiguous with elements of 4 bytes" in refused(bytes_, 0, 1)


def test_all_reduces_into_another_tensor(met: Pair, tmp_path: Path) -> None:
    met.both(f"exec({TENSORS!r}, globals())")
    for name in ("one_shot_all_reduce_out", "two_shot_all_reduce_out"):
        met.both("write(buffer.address, *[0x3f800000] * 8)")
        met.both(f"symm_mem.{name}(tensor(0, 8), 'sum', group(RANK, {str(tmp_path)!r}), tensor(65536, 8)) and None")
        assert met.both("set(words(buffer.address + 65536, 8)) == {0x40000000}") == ["True", "True"], name
        met.both("write(buffer.address + 65536, *[0] * 8)")


def test_settings_of_torchs_module(pair: Pair) -> None:
    """What has no meaning here is accepted; what cannot be is refused."""
    rank = pair.ranks[0]
    assert rank.ask("symm_mem.enable_symm_mem_for_group('0')") == "None"
    assert rank.ask("symm_mem.is_symm_mem_enabled_for_group('0')") == "True"
    assert rank.ask("symm_mem.is_nvshmem_available()") == "False"
    assert rank.ask("symm_mem.set_backend('CUDA'), symm_mem.get_backend('cuda')") == "(None, 'CUDA')"
    assert "no backend 'NVSHMEM'" in rank.ask("symm_mem.set_backend('NVSHMEM')")


def test_group_of_torch_that_does_not_exist(pair: Pair) -> None:
    step = """globals().update(S=__import__('types').SimpleNamespace, modules=__import__('sys').modules),
        modules.update({'torch.distributed': S(is_initialized=lambda: False, distributed_c10d=None)}),
        modules.update(torch=S(distributed=modules['torch.distributed'])),
        symm_mem.rendezvous(symm_mem.Buffer(MIB))"""
    assert "torch.distributed has no process group: call init_process_group()" in pair.ranks[0].ask(step.replace("\n", ""))


def test_multimem_needs_the_switch(met: Pair) -> None:
    assert met.both("handle.has_multicast_support() or handle.multicast_ptr") == ["0", "0"]
    refused = met.ranks[0].ask("handle.multimem_all_gather(buffer.address, 4096, 16, stream=0)")
    assert "the handle has no multicast" in refused


def test_tensors_keep_the_buffer_alive(met: Pair) -> None:
    """What from_dlpack() of a library does: it renames the capsule, and calls the deleter in the end."""
    steps = """(
        globals().update(data=handle.get_buffer(0, [64])), data.__dlpack_device__(), data.size_bytes)[1:]"""
    assert met.both(steps.replace("\n", " ")) == ["((2, 0), 64)", "((2, 1), 64)"]
    take = (
        "globals().update(capsule=data.__dlpack__(stream=None)), "
        "globals().update(at=ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b'dltensor'))"
    )
    met.both("globals().update(dl=__import__('amem.symmetric.dlpack').symmetric.dlpack)")
    met.both("setattr(ctypes.pythonapi.PyCapsule_GetPointer, 'argtypes', [ctypes.py_object, ctypes.c_char_p])")
    met.both(take)
    assert met.both("dl._Managed.from_address(at).tensor.data == handle.buffer_ptrs[0]") == ["True", "True"]
    met.both("[globals().pop(name) for name in ('buffer', 'handle', 'data')] and gc.collect()")
    assert met.both("used() > 0") == ["True", "True"], "the capsule keeps it"
    # A consumer takes over: the capsule's own destructor does nothing any more.
    met.both("ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(capsule), b'used_dltensor')")
    met.both("globals().pop('capsule') and None")
    assert met.both("used() > 0") == ["True", "True"]
    met.both("dl._Managed.from_address(at).deleter(ctypes.pointer(dl._Managed.from_address(at)))")
    met.both("gc.collect()")
    assert met.both("used()") == ["0", "0"]


def test_capsule_that_nobody_takes_frees(met: Pair) -> None:
    met.both("globals().update(capsule=handle.get_buffer(0, [64]).__dlpack__())")
    met.both("[globals().pop(name) for name in ('buffer', 'handle')] and gc.collect()")
    assert met.both("used() > 0") == ["True", "True"]
    met.both("globals().pop('capsule') and gc.collect()")
    assert met.both("used()") == ["0", "0"]


def test_errors_name_the_rank(pair: Pair, tmp_path: Path) -> None:
    sizes = pair.both(f"meet(RANK, {str(tmp_path)!r}, 'sizes', MIB + 16 * RANK)")
    assert all("rank 1: its buffer has 1048592 bytes" in each for each in sizes), sizes
    late = pair.ranks[0].ask(
        f"symm_mem.rendezvous(symm_mem.Buffer(64), FileGroup({str(tmp_path)!r}, 'late', 0, 2, timeout_s=0.1))"
    )
    assert "rank 1 did not write" in late
    met = pair.both(f"meet(RANK, {str(tmp_path)!r}, 'good')")
    assert [each[:6] for each in met] == ["(0, 2,", "(1, 2,"]
    beyond = pair.ranks[0].ask("handle.get_buffer(1, [MIB + 1])")
    assert "it has 1048576 bytes" in beyond
    nobody = pair.ranks[0].ask("handle.get_buffer(2, [4])")
    assert "there is no rank 2: the group has 2 ranks" in nobody
    assert "ranks are 0 to 1" in pair.ranks[0].ask("handle.put_signal(2, stream=0)")
    assert "multiple of 16" in pair.ranks[0].ask("symm_mem.set_signal_pad_size(7)")
    assert pair.ranks[0].ask("symm_mem.get_signal_pad_size()") == "4096"
