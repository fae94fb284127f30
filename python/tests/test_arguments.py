# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Wrong arguments are Python errors with a sentence: ctypes would cut them to size, or raise an error of its own."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

PREPARE = """
import ctypes
import amem, amem.symmetric as symm_mem
from amem.groups import FileGroup
from amem.torch_memory_saver import torch_memory_saver as saver
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == cuda.cuCtxSetCurrent(context) == 0
class Alone:
    rank, world_size, name = 0, 1, "alone"
    def all_gather(self, mine): return [mine]
buffer = symm_mem.Buffer(1 << 20)
handle = symm_mem.rendezvous(buffer, Alone())
def group(rank, size):
    found = Alone()
    found.rank, found.world_size, found.name = rank, size, "other"
    return found
def enter(block):
    with block:
        print("entered")
cdll = saver._functions()
def allocate(size, tag="a"):
    with saver.region(tag): cdll.tms_torch_malloc(size, 0, 0)
CALL
"""

SHOW = """
try:
    print("no error", {call})
except (amem.AmemTypeError, amem.AmemValueError) as error:
    assert isinstance(error, amem.AmemError) and isinstance(error, TypeError) == isinstance(error, amem.AmemTypeError)
    print(type(error).__name__, error)
except Exception as error:
    print(type(error).__name__, error)
"""

TOO_LARGE = ["amem.set_group((1 << 32) + 7)", "amem.set_group(-(1 << 31) - 1)", "amem.prepare_host_memory(1 << 64)",
             "amem.prepare_host_memory(-1)", "amem.resume_on_call(1 << 32)", "symm_mem.Buffer(-1)", "symm_mem.Buffer(1 << 64)",
             "symm_mem.set_signal_pad_size((1 << 64) + 16)", "symm_mem.set_signal_pad_size(-16)",
             "symm_mem.rendezvous(buffer, group(1 << 32, 1))", "symm_mem.rendezvous(buffer, group(0, (1 << 32) + 1))",
             "handle.barrier(1 << 32)", "handle.barrier(0, -1)", "handle.barrier(0, 1 << 64)", "handle.barrier(0, 1, stream=1 << 64)",
             "handle.put_signal(1 << 32)", "handle.wait_signal(0, 1 << 32)", "handle.write_value32(buffer.address + (1 << 64), 1)",
             "handle.write_value32(buffer.address, 1 << 32)", "handle.write_value32(buffer.address, -1)",
             "handle.fill32(buffer.address, 0, (1 << 64) + 1)", "handle.memset32(buffer, 0, 1 << 32)",
             "handle.all_reduce(buffer.address, 1 << 64, 4, 'float32')", "handle.all_reduce(buffer.address, 0, -4, 'float32')",
             "handle.all_reduce(buffer.address, 0, 4, 'float32', 1 << 32)", "handle.all_reduce(buffer.address, 0, 4, 'int8')",
             "handle.all_gather(-1, 0, 16)", "handle.all_gather(buffer.address, 0, 16, 'gpu')", "handle.all_to_all(1 << 64, 0, 16)",
             "handle.all_to_all(buffer.address, 0, 16, ['kernels'])", "handle.multimem_all_gather(buffer.address, 0, 1 << 64)",
             "handle.reduce_scatter(buffer.address, 0, 4, 'float32', 'kernels', 1 << 64)", "handle.get_buffer(0, [-4])",
             "handle.get_signal_pad(0, [2, -2])", "symm_mem.set_backend('NVSHMEM')", "allocate(1 << 64)",
             "setattr(saver, 'memory_margin_bytes', -1)", "setattr(saver, 'memory_margin_bytes', 1 << 64)",
             "setattr(saver, 'retain_cpu_backup', 1 << 32)", "cdll.tms_get_cpu_backup_pointer(1 << 64, 1)",
             "cdll.tms_get_cpu_backup_pointer(1, -1)", "cdll.tms_torch_free(1 << 64, 0, 0, 0)",
             "amem.pause('')", "amem.pause('a b')", "amem.resume('a,b')", "enter(amem.region(''))", "enter(amem.region('nccl'))", "enter(amem.region('a' * 65))",
             "amem.set_group(-1)", "amem.prepare_host_memory(1 << 60)", "amem.env(log=9)", "amem.env(group='a b')",
             "amem.switch(pause=['a'], resume=['a'])", "amem.switch(pause=[], resume=['a'])", "amem.set_backup_directory('')",
             "amem.on_resume('', print)", "amem.on_resume('a b', print)", "amem.state('a b')", "enter(amem.paused('a b'))",
             "FileGroup('/tmp', 'a/b', 0, 1)", "FileGroup('/tmp', '', 0, 1)", "FileGroup('/tmp', 'a', 0, 1, timeout_s=float('nan'))",
             "enter(amem.region('a', backup='gpu'))", "enter(amem.region('a', backup=['host']))"]  # fmt: skip
NULS = ["amem.pause('a\\0b')", "amem.pause('a', 'b\\0')", "amem.resume('\\0')", "amem.state('a\\0b')", "enter(amem.region('a\\0b'))",
        "enter(amem.region('a\\0b', threads=True))", "amem.set_backup_directory('/tmp\\0/x')", "enter(saver.region('a\\0b'))",
        "enter(amem.paused('a\\0'))", "saver.pause('a\\0b')", "saver.resume('a\\0b')", "saver.set_disk_backup_dir('/tmp\\0/x')",
        "cdll.tms_set_current_tag(b'a\\0b')", "amem.env(group='a\\0b')"]  # fmt: skip
WRONG_TYPES = ["amem.set_group('7')", "amem.set_group(7.0)", "amem.set_group(None)", "amem.prepare_host_memory('1')",
               "amem.prepare_host_memory(1e9)", "amem.resume_on_call('no')", "amem.resume_on_call(None)", "amem.pause(5)", "amem.pause(['a'])",
               "amem.pause(b'a')", "amem.resume(None)", "amem.state(None)", "amem.backup(5)", "amem.set_backup_directory(5)",
               "enter(amem.region(b'a'))", "enter(amem.region(None))", "enter(saver.region(5))", "enter(saver.region(None))",
               "saver.pause(5)", "saver.pause(b'a')", "saver.resume(['a'])", "symm_mem.Buffer('1')", "symm_mem.Buffer(1.5)",
               "symm_mem.rendezvous(5, Alone())", "symm_mem.rendezvous(buffer, group('0', 1))", "symm_mem.set_signal_pad_size('16')",
               "handle.barrier('0')", "handle.barrier(0, 1.5)", "handle.barrier(stream='s')", "handle.put_signal(None)",
               "handle.write_value32('x', 1)", "handle.write_value32(buffer.address, 1.5)", "handle.fill32(b'x', 1, 1)",
               "handle.memset32(5, 0, 1)", "handle.memset32(buffer, '0', 1)", "handle.all_reduce(1.5, 0, 4, 'float32')",
               "handle.all_gather(buffer.address, None, 16)", "handle.get_buffer(0, [1.5])", "handle.get_buffer(0, [1], None, 0.5)",
               "handle.get_buffer('0', [1])", "setattr(saver, 'memory_margin_bytes', '1')", "setattr(saver, 'retain_cpu_backup', 'yes')",
               "amem.switch(pause=None, resume=['a'])", "amem.switch(pause=[['a']], resume=['b'])", "amem.switch(pause='a', resume=['b'])", "amem.switch(pause=['a'], resume=5)",
               "enter(amem.region('a', retain='yes'))", "amem.set_backup_directory(None)",
               "FileGroup(None, 'a', 0, 1)", "FileGroup('/tmp', 'a', 0, 1).all_gather('x')", "allocate('1')"]  # fmt: skip


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The error of each call, by its source."""
    import os

    from conftest import Build

    build = Build(os.environ["AMEM_TEST_BUILD"], tmp_path_factory.mktemp("arguments") / "machine")
    calls = TOO_LARGE + NULS + WRONG_TYPES
    lines = build.job(PREPARE.replace("CALL", "".join(SHOW.format(call=call) for call in calls))).splitlines()
    return dict(zip(calls, lines))


@pytest.mark.parametrize("call", TOO_LARGE + NULS)
def test_values_out_of_range(seen: dict[str, Any], call: str) -> None:
    kind, _, text = seen[call].partition(" ")
    assert kind in ("AmemValueError", "ValueError") and len(text) > 10, seen[call]


@pytest.mark.parametrize("call", WRONG_TYPES)
def test_wrong_types(seen: dict[str, Any], call: str) -> None:
    kind, _, text = seen[call].partition(" ")
    assert kind in ("AmemTypeError", "TypeError") and "ctypes" not in text and len(text) > 10, seen[call]


def test_texts_name_the_call_and_the_range(seen: dict[str, Any]) -> None:
    assert seen["amem.set_group((1 << 32) + 7)"] == (
        "AmemValueError ncclSetGroupID(): argument 1 is 4294967303, not an integer from -2147483648 to 2147483647"
    )
    assert seen["amem.pause('a\\0b')"] == (
        "AmemValueError a tag has 1 to 64 letters, digits, '_', '-', '.', ':' or '/', unlike 'a\\x00b'"
    )
    assert seen["amem.set_group('7')"] == "AmemTypeError ncclSetGroupID(): argument 1 is '7', not an integer"


ROOT = Path(__file__).resolve().parents[2]
HEADERS = "include/amem.h", "include/amem_nccl_abi.h", "include/nccl.h", "symmetric/include/amem/symmetric.h"
C_INTEGERS = {"int": "int", "uint32_t": "uint32", "uint64_t": "other", "size_t": "other"}


def parameters_in_headers() -> dict[str, list[str]]:
    """Of each function, what its arguments must be: "int" (also an enum), "uint32" or "other"."""
    text = re.sub(r"/\*.*?\*/", "", "".join((ROOT / header).read_text() for header in HEADERS), flags=re.DOTALL)
    enums = re.findall(r"typedef enum[^}]*} *(\w+);", text)
    found = {}
    for name, parameters in re.findall(r"\b((?:amem|nccl)[A-Z]\w*)\(([^()]*)\);", text):
        types = [] if parameters == "void" else [each.split()[0 if "const" not in each else 1] for each in parameters.split(",")]
        pointers = ["*" in each for each in parameters.split(",")]
        found[name] = ["other" if is_pointer else "int" if of in enums else C_INTEGERS.get(of, "other")
                       for of, is_pointer in zip(types, pointers)]  # fmt: skip
    return found


def kind_of_argument(argument: ast.expr) -> str:
    source = ast.unparse(argument)
    if source.startswith(("_type(", "_engine(")):
        return "int"
    if not source.startswith("Int("):
        return "other"
    return "uint32" if source.endswith("ctypes.c_uint32)") else "int"


def test_arguments_are_those_of_the_headers() -> None:
    """Otherwise an integer that is too large would be cut."""
    headers, called = parameters_in_headers(), []
    for path in (ROOT / "python" / "amem").rglob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        for call in calls:
            match call.args if ast.unparse(call.func) in ("call", "value_of") else []:
                case [ast.Constant(value=str(name)), *arguments]:
                    called.append(name)
                    assert [kind_of_argument(each) for each in arguments] == headers[name], f"{path}:{call.lineno}: {name}"
    assert len(called) > 40
