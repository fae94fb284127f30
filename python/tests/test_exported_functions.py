# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Every exported function of the libraries with arguments that no caller should pass: no crash, the documented result, and the
reason of each failure in amemGetLastError(). A function without a row fails."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from conftest import TIMEOUT_S, Build

# In the program: P, an allocation of 2 MiB with the tag "t", paused with its contents kept; HANDLE, of a group of one rank;
# OUT, 4096 bytes; the names of nccl.h and amem.h's constants.
PREPARE = """
import ctypes, os, sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p
library, cuda = ctypes.CDLL(None), ctypes.CDLL("libcuda.so.1")
HUGE, MIN, MAX, BAD = 2**64 - 1, -2**31, 2**31 - 1, b"\\xff\\xfe"
LONG = b"x" * 100000
context = c_void_p()
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == cuda.cuCtxSetCurrent(context) == 0
OUT = ctypes.create_string_buffer(4096)
def made(name, *arguments):
    pointer = c_void_p()
    assert getattr(library, name)(byref(pointer), *arguments) == 0, name
    return pointer
P = made("amemMalloc", c_size_t(2 << 20), b"t", 0)
assert cuda.cuMemsetD32_v2(P, 7, c_size_t(1 << 19)) == library.amemPause(b"t") == 0
ACTIVE = made("amemMalloc", c_size_t(2 << 20), b"u", 0)
Gather = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p)
def gather(context, mine, size, everything):
    ctypes.memmove(everything, mine, size)
    return 0
class Group(ctypes.Structure):
    _fields_ = [("rank", c_int), ("world_size", c_int), ("all_gather", Gather), ("context", c_void_p)]
ALONE = Group(0, 1, Gather(gather), None)
BUFFER = made("amemSymmetricMalloc", c_size_t(1 << 20))
HANDLE = made("amemSymmetricRendezvous", BUFFER, byref(ALONE))
OF_ACTIVE = (ctypes.c_ubyte * 64)()
assert library.amemIpcGetHandle(byref(OF_ACTIVE), ACTIVE) == 0
class RANGES(ctypes.Structure):
    _fields_ = [("pointer", c_void_p), ("size_bytes", c_size_t)]
NO_HANDLE, ODD = c_void_p(12345), c_void_p(P.value + 1)
def group(rank, size, function=ALONE.all_gather):
    return byref(Group(rank, size, function, None))
library.amemGetLastError.restype = c_char_p
def check(name, restype, rows, scope=library):
    function = getattr(scope, name)
    function.restype = restype
    for number, (arguments, expected) in enumerate(rows):
        assert library.amemEndRegion() != 0  # another error
        stale = library.amemGetLastError()
        result = function(*arguments)
        said = library.amemGetLastError()
        # A failure replaces the text, and a success does not.
        fails = expected is FAILS or expected is NOTHING
        if name == "amemEndRegion":
            fails, stale = True, b""
        if fails:
            assert said.startswith(name.encode() + b" failed: "), (name, number, said)
            assert result not in (0, None) if expected is FAILS else result is None, (name, number, result)
        else:
            assert said == stale, (name, number, said)
            assert expected is ANY or result == expected, (name, number, result)
    print(name, "ok")
FAILS, NOTHING, ANY = object(), object(), object()
"""

STREAM, NULL = "None", "None"
# What most calls on a handle refuse.
HANDLES = ["NULL, {0}", "NO_HANDLE, {0}", "c_void_p(HUGE), {0}"]


def on_handle(rest: str, *wrong: str) -> list[tuple[str, str]]:
    """Rows of a function whose first parameter is a handle: without one, and with one and wrong arguments."""
    return [(f"[{row.format(rest)}]".replace("NULL", "None"), "FAILS") for row in HANDLES] + [
        (f"[HANDLE, {each}]", "FAILS") for each in wrong
    ]


COLLECTIVE = [  # output, offset and size: NULL, misaligned, outside, huge
    "None, c_size_t(0), c_size_t(16)",
    "c_void_p(BUFFER.value + 4), c_size_t(0), c_size_t(16)",
    "BUFFER, c_size_t(8), c_size_t(16)",
    "BUFFER, c_size_t(1 << 20), c_size_t(16)",
    "BUFFER, c_size_t(HUGE), c_size_t(16)",
    "BUFFER, c_size_t(0), c_size_t(HUGE)",
    "BUFFER, c_size_t(0), c_size_t(HUGE - 15)",
]


def collective(*rest: str) -> list[tuple[str, str]]:
    wrong = [f"{each}, {', '.join(rest)}" for each in COLLECTIVE]
    return on_handle(wrong[0], *wrong)


ROWS = {
    "amemBeginRegion": ("c_int", [("[b'', 0]", "FAILS"), ("[BAD, 0]", "FAILS"), ("[LONG, 0]", "FAILS"), ("[b'nccl', 0]", "FAILS"),
                                  ("[b't', -1]", "FAILS"), ("[b't', 2]", "FAILS"), ("[b't', 3]", "FAILS"), ("[b't', MAX]", "FAILS"), ("[None, 99]", "FAILS")]),
    "amemCloseRegion": ("c_int", [("[c_uint64(0)]", "FAILS"), ("[c_uint64(HUGE)]", "FAILS")]),
    "amemEnable": ("None", [("[]", "ANY")]),
    "amemEndRegion": ("c_int", [("[]", "FAILS")]),
    "amemForward": ("c_void_p", [("[None]", "None")]),
    "amemFree": ("c_int", [("[None]", "0"), ("[ODD]", "FAILS"), ("[c_void_p(HUGE)]", "FAILS"), ("[c_void_p(1)]", "FAILS")]),
    "amemGetBackup": ("c_void_p", [("[None, c_size_t(1)]", "NOTHING"), ("[P, c_size_t(HUGE)]", "NOTHING"),
                                   ("[ODD, c_size_t(2 << 20)]", "NOTHING"), ("[ACTIVE, c_size_t(1)]", "NOTHING"), ("[ODD, c_size_t(9)]", "ANY")]),
    "amemGetDriverObjects": ("c_int", [("[None]", "FAILS"), ("[OUT]", "0")]),
    "amemGetImports": ("c_int", [("[None]", "FAILS"), ("[OUT]", "0")]),
    "amemGetInterposition": ("c_char_p", [("[]", "ANY")]),
    "amemGetLastError": ("c_char_p", [("[]", "ANY")]),
    "amemIsActive": ("c_int", [("[]", "1")]),
    "amemSafePoint": ("c_int", [("[]", "0")]),
    "amemWaitAtSafePoint": ("c_int", [("[]", "0")]),
    "amemGetShortage": ("c_char_p", [("[]", "b'{}'")]),
    "amemGetState": ("c_int", [("[]", "0")]),
    "amemGetStatus": ("c_char_p", [("[]", "ANY")]),
    "amemGetAttribution": ("c_char_p", [("[]", "ANY")]),
    "amemGetStructBytes": ("c_size_t", [("[None]", "0"), ("[BAD]", "0"), ("[b'']", "0"), ("[b'amemTotals_t']", "56"), ("[b'amemRange_t']", "16")]),
    "amemGetTagState": ("c_int", [("[None]", "0"), ("[BAD]", "0"), ("[LONG]", "0"), ("[b'']", "0"), ("[b't']", "2")]),
    "amemGetTagTotals": ("c_int", [("[b't', -1, -1, None]", "FAILS"), ("[b't', -2, -1, OUT]", "FAILS"), ("[b't', MIN, -1, OUT]", "FAILS"),
                                   ("[b't', 99, -1, OUT]", "FAILS"), ("[None, MAX, -1, OUT]", "FAILS"), ("[b't', -1, 6, OUT]", "FAILS"),
                                   ("[b't', -1, -2, OUT]", "FAILS"), ("[BAD, -1, -1, OUT]", "FAILS"), ("[LONG, 1, 4, OUT]", "FAILS"), ("[b'never', 1, 4, OUT]", "0")]),
    "amemGetTimes": ("c_int", [("[None]", "FAILS"), ("[OUT]", "0")]),
    "amemGetTotals": ("c_int", [("[-1, -1, None]", "FAILS"), ("[2, -1, OUT]", "FAILS"), ("[99, -1, OUT]", "FAILS"), ("[-2, -1, OUT]", "FAILS"),
                                ("[-1, MAX, OUT]", "FAILS"), ("[-1, MIN, OUT]", "FAILS"), ("[1, 4, OUT]", "0")]),
    "amemGetVersion": ("c_char_p", [("[]", "ANY")]),
    "amemMalloc": ("c_int", [("[None, c_size_t(1), b't', 0]", "FAILS"), ("[OUT, c_size_t(0), b't', 0]", "FAILS"), ("[OUT, c_size_t(HUGE), b't', 0]", "FAILS"),
                             ("[OUT, c_size_t(1 << 62), b't', 0]", "FAILS"), ("[OUT, c_size_t(1), None, 0]", "FAILS"), ("[OUT, c_size_t(1), BAD, 0]", "FAILS"),
                             ("[OUT, c_size_t(1), LONG, 0]", "FAILS"), ("[OUT, c_size_t(1), b't', -1]", "FAILS"), ("[OUT, c_size_t(1), b't', MAX]", "FAILS")]),
    "amemCreateMemorySet": ("c_int", [("[None, OUT, c_size_t(0), None]", "FAILS"), ("[OUT, None, c_size_t(1), None]", "FAILS"),
                                      ("[OUT, byref(RANGES(BUFFER, 1)), c_size_t(HUGE), None]", "FAILS"),
                                      ("[OUT, byref(RANGES(P, 1)), c_size_t(1), None]", "FAILS"), ("[OUT, byref(RANGES(BUFFER, 0)), c_size_t(1), None]", "FAILS"),
                                      ("[OUT, byref(RANGES(BUFFER, HUGE)), c_size_t(1), None]", "FAILS"), ("[OUT, byref(RANGES(BUFFER, 1)), c_size_t(1), None]", "0")]),
    "amemDestroyMemorySet": ("c_int", [("[None]", "0"), ("[NO_HANDLE]", "FAILS"), ("[c_void_p(HUGE)]", "FAILS")]),
    "amemEnterMemorySet": ("c_int", [("[None, None, c_uint64(1)]", "FAILS"), ("[NO_HANDLE, None, c_uint64(HUGE)]", "FAILS"), ("[NO_HANDLE, None, c_uint64(0)]", "FAILS")]),
    "amemGetSetting": ("c_int", [("[None, OUT]", "FAILS"), ("[b'AMEM_TIMEOUT_MS', None]", "FAILS"), ("[b'AMEM_TENSORS', OUT]", "FAILS"), ("[BAD, OUT]", "FAILS"),
                                 ("[b'AMEM_MULTICAST', OUT]", "0")]),
    "amemIpcCloseHandle": ("c_int", [("[None]", "0"), ("[P]", "FAILS"), ("[c_void_p(HUGE)]", "FAILS")]),
    "amemIpcGetHandle": ("c_int", [("[None, P]", "FAILS"), ("[OUT, None]", "FAILS"), ("[OUT, c_void_p(HUGE)]", "FAILS"), ("[OUT, ODD]", "0")]),
    "amemIpcOpenHandle": ("c_int", [("[None, OUT, 0]", "FAILS"), ("[OUT, None, 0]", "FAILS"), ("[OUT, LONG, 0]", "FAILS"), ("[OUT, byref(OF_ACTIVE), 99]", "FAILS"),
                                    ("[OUT, byref(OF_ACTIVE), MIN]", "FAILS")]),
    "amemLeaveMemorySet": ("c_int", [("[None]", "FAILS"), ("[NO_HANDLE]", "FAILS")]),
    "amemMakePersistent": ("c_int", [("[P, b'x']", "FAILS"), ("[ACTIVE, None]", "FAILS"), ("[None, b'x']", "FAILS"), ("[c_void_p(HUGE), b'x']", "FAILS")]),
    "amemOfferDescriptor": ("c_int", [("[OUT, -1]", "FAILS"), ("[OUT, MIN]", "FAILS"), ("[OUT, 999999]", "FAILS"), ("[OUT, MAX]", "FAILS"), ("[None, os.dup(0)]", "FAILS"), ("[OUT, os.dup(0)]", "0")]),
    "amemTakeDescriptor": ("c_int", [("[None, OUT]", "FAILS"), ("[OUT, None]", "FAILS"), ("[OUT, LONG]", "FAILS")]),
    "amemWithdrawDescriptor": ("c_int", [("[None]", "FAILS"), ("[LONG]", "FAILS")]),
    "amemSetLastError": ("None", [("[None, None]", "ANY"), ("[b'x', None]", "ANY"), ("[None, b'x']", "ANY")]),
    "amemLogWarning": ("None", [("[None]", "ANY"), ("[LONG]", "ANY"), ("[BAD]", "ANY")]),
    "amemOnNcclCall": ("None", [("[None]", "ANY")]),
    "amemPause": ("c_int", [("[b'']", "FAILS"), ("[b',']", "FAILS"), ("[b't,']", "FAILS"), ("[BAD]", "FAILS"), ("[LONG]", "FAILS"), ("[b'context']", "FAILS")]),
    "amemPrepareHostMemory": ("c_int", [("[c_uint64(HUGE)]", "FAILS"), ("[c_uint64((1 << 50) + 1)]", "FAILS"), ("[c_uint64(0)]", "0")]),
    "amemReadBackup": ("c_int", [("[None, P, c_size_t(1)]", "FAILS"), ("[None, P, c_size_t(0)]", "FAILS"), ("[OUT, None, c_size_t(1)]", "FAILS"),
                                 ("[OUT, P, c_size_t(HUGE)]", "FAILS"), ("[OUT, ODD, c_size_t(2 << 20)]", "FAILS"), ("[OUT, c_void_p(HUGE), c_size_t(1)]", "FAILS"),
                                 ("[OUT, ACTIVE, c_size_t(1)]", "FAILS"), ("[OUT, ODD, c_size_t(9)]", "0")]),
    "amemResume": ("c_int", [("[b'']", "FAILS"), ("[b',t']", "FAILS"), ("[BAD]", "FAILS"), ("[LONG]", "FAILS")]),
    "amemPauseWithTimeout": ("c_int", [("[b'', 1000]", "FAILS"), ("[b',', 1000]", "FAILS"), ("[BAD, 0]", "FAILS"), ("[LONG, 0]", "FAILS"),
                                       ("[b'never', c_uint64(HUGE)]", "FAILS"), ("[b'never', 86400001]", "FAILS"), ("[b'never', 86400000]", "0")]),
    "amemResumeWithTimeout": ("c_int", [("[b'', 1000]", "FAILS"), ("[b'never', c_uint64(HUGE)]", "FAILS"), ("[b'never', 86400000]", "0"), ("[BAD, 0]", "FAILS"), ("[LONG, 0]", "FAILS")]),
    "amemResumeWait": ("c_int", [("[b'', 0, 0]", "FAILS"), ("[b'never', c_uint64(HUGE), 0]", "FAILS"), ("[b'never', 0, 86400001]", "FAILS"), ("[BAD, 1, 0]", "FAILS"), ("[LONG, c_uint64(HUGE), c_uint64(HUGE)]", "FAILS")]),
    "amemSwitch": ("c_int", [("[None, b't', 0, 0]", "FAILS"), ("[b't', None, 0, 0]", "FAILS"), ("[b't', b's,t', 0, 0]", "FAILS"), ("[BAD, b't', 0, 0]", "FAILS"),
                              ("[b't', LONG, c_uint64(HUGE), 0]", "FAILS"), ("[b'never', b'more', 0, 86400001]", "FAILS"), ("[b'never', b'more', 0, 0]", "0")]),
    "amemResumeOnCall": ("c_int", [("[MIN]", "0"), ("[0]", "0")]),
    "amemRetainBackups": ("c_int", [("[MAX]", "0"), ("[0]", "0")]),
    "amemSetBackupDirectory": ("c_int", [("[None]", "FAILS"), ("[b'']", "FAILS"), ("[BAD]", "FAILS"), ("[LONG]", "FAILS"), ("[b'/dev/null']", "FAILS")]),
    "amemSetMemoryMargin": ("c_int", [("[c_size_t(HUGE)]", "FAILS"), ("[c_size_t((1 << 50) + 1)]", "FAILS"), ("[c_size_t(1 << 50)]", "0"), ("[c_size_t(0)]", "0")]),
    "amemSetProcessRegion": ("c_int", [("[b'', 0]", "FAILS"), ("[BAD, 0]", "FAILS"), ("[b't', -1]", "FAILS"), ("[b'nccl', 0]", "FAILS"), ("[None, MAX]", "FAILS"), ("[None, 0]", "0")]),
    "amemSymmetricAllGather": ("c_int", collective("0", STREAM) + on_handle("BUFFER, c_size_t(0), c_size_t(16), 0, None", "BUFFER, c_size_t(0), c_size_t(16), -1, None")),
    "amemSymmetricAllReduce": ("c_int", collective("0", "0", STREAM) + [("[HANDLE, BUFFER, c_size_t(0), c_size_t(4), -1, 0, None]", "FAILS"),
                                                                        ("[HANDLE, BUFFER, c_size_t(0), c_size_t(4), 0, MAX, None]", "FAILS"),
                                                                        ("[HANDLE, BUFFER, c_size_t(0), c_size_t(4), 0, 3, None]", "FAILS")]),
    "amemSymmetricAllToAll": ("c_int", collective("0", STREAM) + [("[HANDLE, BUFFER, c_size_t(0), c_size_t(16), MAX, None]", "FAILS")]),
    "amemSymmetricBarrier": ("c_int", on_handle("0, None, c_uint64(1)", "-1, None, c_uint64(1)", "64, None, c_uint64(1)", "MAX, None, c_uint64(HUGE)")),
    "amemSymmetricClearSignalPad": ("c_int", on_handle("None")),
    "amemSymmetricDestroy": ("c_int", [("[None]", "0"), ("[NO_HANDLE]", "FAILS"), ("[c_void_p(HUGE)]", "FAILS")]),
    "amemSymmetricFree": ("c_int", [("[None]", "0"), ("[BUFFER]", "FAILS"), ("[c_void_p(BUFFER.value + 1)]", "FAILS"), ("[P]", "FAILS"), ("[c_void_p(HUGE)]", "FAILS")]),
    "amemSymmetricGetError": ("c_int", [("[None]", "FAILS"), ("[NO_HANDLE]", "FAILS"), ("[HANDLE]", "0")]),
    "amemSymmetricGetInfo": ("c_int", on_handle("OUT", "None")),
    "amemSymmetricGetSignalPadSize": ("c_size_t", [("[]", "4096")]),
    "amemSymmetricGetStructBytes": ("c_size_t", [("[None]", "0"), ("[BAD]", "0"), ("[b'amemGroup_t']", "24")]),
    "amemSymmetricGetView": ("c_int", on_handle("OUT", "None")),
    "amemSymmetricMalloc": ("c_int", [("[None, c_size_t(1)]", "FAILS"), ("[OUT, c_size_t(0)]", "FAILS"), ("[OUT, c_size_t(HUGE)]", "FAILS"), ("[OUT, c_size_t(1 << 60)]", "FAILS")]),
    "amemSymmetricMemset32": ("c_int", on_handle("BUFFER, 0, c_size_t(1), None", "None, 0, c_size_t(1), None", "c_void_p(BUFFER.value + 1), 0, c_size_t(1), None",
                                                 "BUFFER, 0, c_size_t(HUGE), None", "c_void_p(HUGE), 0, c_size_t(1), None")),
    "amemSymmetricMultimemAllGather": ("c_int", collective(STREAM)),
    "amemSymmetricPutSignal": ("c_int", on_handle("0, 0, None, c_uint64(1)", "-1, 0, None, c_uint64(1)", "1, 0, None, c_uint64(1)", "0, -1, None, c_uint64(1)",
                                                  "0, MAX, None, c_uint64(HUGE)")),
    "amemSymmetricReduceScatter": ("c_int", collective("0", "0", "None", STREAM) + [("[HANDLE, BUFFER, c_size_t(0), c_size_t(4), 7, 0, None, None]", "FAILS"),
                                                                                   ("[HANDLE, BUFFER, c_size_t(0), c_size_t(4), 0, -1, None, None]", "FAILS"),
                                                                                   ("[HANDLE, BUFFER, c_size_t(0), c_size_t(4), 0, 1, None, None]", "FAILS")]),
    "amemSymmetricRendezvous": ("c_int", [("[None, BUFFER, byref(ALONE)]", "FAILS"), ("[OUT, BUFFER, None]", "FAILS"), ("[OUT, None, byref(ALONE)]", "FAILS"),
                                          ("[OUT, c_void_p(BUFFER.value + 1), byref(ALONE)]", "FAILS"), ("[OUT, BUFFER, group(0, 0)]", "FAILS"),
                                          ("[OUT, BUFFER, group(-1, 1)]", "FAILS"), ("[OUT, BUFFER, group(1, 1)]", "FAILS"), ("[OUT, BUFFER, group(0, MAX)]", "FAILS"),
                                          ("[OUT, BUFFER, group(0, MIN)]", "FAILS"), ("[OUT, BUFFER, group(0, 1, Gather())]", "FAILS")]),
    "amemSymmetricSetSignalPadSize": ("c_int", [("[c_size_t(0)]", "FAILS"), ("[c_size_t(7)]", "FAILS"), ("[c_size_t(HUGE)]", "FAILS"), ("[c_size_t(65552)]", "FAILS")]),
    "amemSymmetricWaitSignal": ("c_int", on_handle("0, 0, None, c_uint64(1)", "-1, 0, None, c_uint64(1)", "MAX, 0, None, c_uint64(1)", "0, 1024, None, c_uint64(1)")),
    "amemSymmetricWriteValue32": ("c_int", on_handle("BUFFER, 0, None", "None, 0, None", "c_void_p(BUFFER.value + 2), 0, None", "c_void_p(BUFFER.value + (1 << 20)), 0, None")),
    "amemTrimHostMemory": ("c_int", [("[None]", "FAILS"), ("[OUT]", "FAILS")]),  # a tag is paused
    "ncclGetGroupID": ("c_int", [("[None]", "FAILS"), ("[OUT]", "0")]),
    "ncclMemStats": ("c_int", [("[]", "0")]),
    "ncclPause": ("c_int", [("[c_void_p(1)]", "0")]),
    "ncclResume": ("c_int", [("[c_void_p(HUGE)]", "0")]),
    "ncclSetGroupID": ("c_int", [("[-1]", "FAILS"), ("[MIN]", "FAILS"), ("[1]", "FAILS")]),  # after the first allocation
    "amemOpenRegion": ("c_int", [("[b'', 0, 0, OUT]", "FAILS"), ("[BAD, 0, 0, OUT]", "FAILS"), ("[LONG, 0, 1, OUT]", "FAILS"),
                                 ("[b'nccl', 0, 0, OUT]", "FAILS"), ("[b't', -1, 0, OUT]", "FAILS"), ("[b't', 2, 0, OUT]", "FAILS"),
                                 ("[b't', MAX, 0, OUT]", "FAILS"), ("[None, 99, 0, OUT]", "FAILS"), ("[b't', 0, 0, None]", "FAILS")]),
    "amemPoolFree": ("None", [(f"[{pointer}, c_size_t(1), 0, None]", "ANY") for pointer in ("None", "c_void_p(1)", "ODD", "c_void_p(HUGE)")]),
    "amemSetPool": ("c_int", [("[-1, b't', 0]", "FAILS"), ("[64, b't', 0]", "FAILS"), ("[MIN, b't', 0]", "FAILS"), ("[MAX, b't', 0]", "FAILS"),
                              ("[0, b'', 0]", "FAILS"), ("[0, BAD, 0]", "FAILS"), ("[0, LONG, 0]", "FAILS"), ("[0, b'nccl', 0]", "FAILS"),
                              ("[0, b't', -1]", "FAILS"), ("[0, b't', 2]", "FAILS"), ("[63, b't', 0]", "0")]),
    "amemSetUnusedRanges": ("c_int", [("[None, c_size_t(1)]", "FAILS"), ("[OUT, c_size_t(HUGE)]", "FAILS"), ("[None, c_size_t(0)]", "0"), ("[OUT, c_size_t(0)]", "0"), ("[OUT, c_size_t(1)]", "0"),
                                     ("[byref(RANGES(P, HUGE)), c_size_t(1)]", "FAILS"), ("[byref(RANGES(HUGE, 2)), c_size_t(1)]", "FAILS")]),
    # The program has given none of them a tag.
    **{f"amemPoolAllocate{pool:02x}": ("c_void_p", [(f"[c_size_t({size}), 0, None]", "NOTHING") for size in ("0", "1", "HUGE")]) for pool in range(64)},
}  # fmt: skip


def exported(path: str) -> set[str]:
    with open(path, "rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym").iter_symbols()
        return {symbol.name for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_LOCAL"}


def test_every_exported_function_has_rows(build: Build) -> None:
    own = {name for name in ROWS if name.startswith("amemSymmetric")}
    assert exported(build.symmetric) == own
    assert exported(build.preload) == set(ROWS) - {"amemSymmetricGetStructBytes"}  # it forwards those that it had


@pytest.mark.parametrize("name", sorted(ROWS))
def test_wrong_arguments(build: Build, name: str) -> None:
    restype, rows = ROWS[name]
    table = ", ".join(f"({arguments}, {expected})" for arguments, expected in rows)
    scopes = [f"ctypes.CDLL({build.symmetric!r})"] if name.startswith("amemSymmetric") else []
    scopes += ["library"] if name != "amemSymmetricGetStructBytes" else []
    code = PREPARE + "".join(f"\ncheck({name!r}, {restype}, [{table}], {scope})" for scope in scopes)
    done = subprocess.run(
        [build.command, "run", "--", sys.executable, "-c", code],
        env=build.variables(AMEM_TIMEOUT_MS="20000"), capture_output=True, text=True, timeout=TIMEOUT_S, check=False, errors="replace",
    )  # fmt: skip
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, [f"{name} ok"]), done.stdout + done.stderr


def test_symmetric_memory_without_its_library_is_an_error_that_says_so(build: Build, tmp_path: Path) -> None:
    """libamem_nccl.so forwards its functions to the library beside it."""
    alone = tmp_path / "libamem_nccl.so"
    shutil.copy(build.preload, alone)
    code = """
import ctypes
library = ctypes.CDLL(None)
library.amemGetLastError.restype, library.amemSymmetricGetSignalPadSize.restype = ctypes.c_char_p, ctypes.c_size_t
print(library.amemSymmetricMalloc(None, ctypes.c_size_t(1)), library.amemGetLastError().decode())
print(library.amemSymmetricGetSignalPadSize())
"""
    failed, size = build.python(code, LD_PRELOAD=str(alone), AMEM_ENABLE="1").splitlines()
    assert failed.startswith("5 amemSymmetricMalloc failed: symmetric memory is in libamem_symmetric.so, which cannot be loaded (")
    assert failed.endswith("): install it beside libamem_nccl.so") and size == "0"


def test_status_is_json_whatever_the_reason_of_persistent_memory(build: Build) -> None:
    code = r"""
import ctypes, json
library, cuda = ctypes.CDLL(None), ctypes.CDLL("libcuda.so.1")
library.amemGetStatus.restype = ctypes.c_char_p
context, pointer = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == cuda.cuCtxSetCurrent(context) == 0
assert library.amemMalloc(ctypes.byref(pointer), ctypes.c_size_t(2 << 20), b"t", 0) == 0
assert library.amemMakePersistent(pointer, b'a "b" \\ \n \xff c') == 0
print(list(json.loads(library.amemGetStatus())["persistent"].values()))
"""
    assert build.job(code) == f"[{2 << 20}]"


def test_queries_of_a_process_without_amem_say_why(build: Build) -> None:
    """In it they are failures too."""
    code = """
import ctypes
library = ctypes.CDLL(None)
library.amemGetLastError.restype = ctypes.c_char_p
out = ctypes.create_string_buffer(b"x" * 511)
library.amemGetBackup.restype = ctypes.c_void_p
for name, arguments in [("amemGetTotals", (-1, -1, out)), ("amemGetTagTotals", (None, -1, -1, out)), ("amemGetImports", (out,)),
                        ("amemGetDriverObjects", (out,)), ("amemGetTimes", (out,)), ("amemGetBackup", (out, ctypes.c_size_t(1)))]:
    print(getattr(library, name)(*arguments), name in library.amemGetLastError().decode(), "AMEM_ENABLE=1" in library.amemGetLastError().decode())
print(out.raw[:56] == bytes(56), library.amemGetTagState(None), library.amemGetTagState(b"t"))
"""
    lines = build.python(code, LD_PRELOAD=build.preload).splitlines()
    assert lines == ["5 True True"] * 5 + ["None True True", "True 4 4"]


def test_lack_of_memory_in_a_pool_has_a_text_and_a_shortage(build: Build) -> None:
    code = """
import ctypes, json
library, cuda = ctypes.CDLL(None), ctypes.CDLL("libcuda.so.1")
library.amemPoolAllocate05.restype = ctypes.c_void_p
library.amemPoolAllocate05.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
library.amemGetLastError.restype = library.amemGetShortage.restype = ctypes.c_char_p
context = ctypes.c_void_p()
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == cuda.cuCtxSetCurrent(context) == 0
assert library.amemSetPool(5, b"t", 0) == 0 and library.amemEndRegion() != 0
print(library.amemPoolAllocate05(1 << 40, 0, None), library.amemGetLastError().decode())
print(json.loads(library.amemGetShortage())["wanted_bytes"])
"""
    failed, wanted = build.job(code).splitlines()
    assert failed.startswith("None amemPoolAllocate05 failed: ") and int(wanted) == 1 << 40


def test_devices_before_cuda_is_in_use(build: Build) -> None:
    code = """
import ctypes
library, out = ctypes.CDLL(None), ctypes.create_string_buffer(512)
print([library.amemGetTotals(device, -1, out) for device in (-2, -1, 0, 63, 64, 99, 2**31 - 1)])
"""
    assert build.job(code) == "[5, 0, 0, 0, 5, 5, 5]"
