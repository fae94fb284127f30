# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""libamem_symmetric.so, beside amem's library: loads it, and declares its functions as amem/symmetric.h does."""

import ctypes
import functools

from . import calls
from .errors import AmemError
from .installation import loaded_library
from .library import Signatures, compare_sizes, declare, require_library

AllGather = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


class Group(ctypes.Structure):
    """amemGroup_t."""

    _fields_ = [
        ("rank", ctypes.c_int),
        ("world_size", ctypes.c_int),
        ("all_gather", AllGather),
        ("context", ctypes.c_void_p),
    ]


class SymmetricInfo(ctypes.Structure):
    """amemSymmetricInfo_t."""

    _fields_ = [
        ("rank", ctypes.c_int),
        ("world_size", ctypes.c_int),
        ("device", ctypes.c_int),
        ("buffer_bytes", ctypes.c_size_t),
        ("signal_pad_bytes", ctypes.c_size_t),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
        ("signal_pads", ctypes.POINTER(ctypes.c_void_p)),
        ("device_buffers", ctypes.c_void_p),
        ("device_signal_pads", ctypes.c_void_p),
        ("multicast", ctypes.c_void_p),
    ]


_STRUCTURES = {"amemGroup_t": Group, "amemSymmetricInfo_t": SymmetricInfo}
# Parameters that functions of symmetric memory have in common.
_INTO_OUTPUT = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]  # handle, output, offset, size
_SIGNAL = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64]
_SIGNATURES: Signatures = {
    "amemSymmetricMalloc": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t]),
    "amemSymmetricFree": (ctypes.c_int, [ctypes.c_void_p]),
    "amemSymmetricRendezvous": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    "amemSymmetricDestroy": (ctypes.c_int, [ctypes.c_void_p]),
    "amemSymmetricGetInfo": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(SymmetricInfo)]),
    "amemSymmetricSetSignalPadSize": (ctypes.c_int, [ctypes.c_size_t]),
    "amemSymmetricGetSignalPadSize": (ctypes.c_size_t, []),
    "amemSymmetricGetError": (ctypes.c_int, [ctypes.c_void_p]),
    "amemSymmetricBarrier": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64]),
    "amemSymmetricPutSignal": (ctypes.c_int, _SIGNAL),
    "amemSymmetricWaitSignal": (ctypes.c_int, _SIGNAL),
    "amemSymmetricWriteValue32": (
        ctypes.c_int,
        [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p],
    ),
    "amemSymmetricMemset32": (
        ctypes.c_int,
        [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_void_p],
    ),
    "amemSymmetricClearSignalPad": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p]),
    "amemSymmetricAllReduce": (ctypes.c_int, _INTO_OUTPUT + [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]),
    "amemSymmetricAllGather": (ctypes.c_int, _INTO_OUTPUT + [ctypes.c_int, ctypes.c_void_p]),
    "amemSymmetricMultimemAllGather": (ctypes.c_int, _INTO_OUTPUT + [ctypes.c_void_p]),
    "amemSymmetricAllToAll": (ctypes.c_int, _INTO_OUTPUT + [ctypes.c_int, ctypes.c_void_p]),
    "amemSymmetricReduceScatter": (
        ctypes.c_int,
        _INTO_OUTPUT + [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p],
    ),
    "amemSymmetricGetStructBytes": (ctypes.c_size_t, [ctypes.c_char_p]),
}


@functools.lru_cache(maxsize=None)
def _load() -> ctypes.CDLL:
    beside = loaded_library()
    path = beside.with_name("libamem_symmetric.so") if beside is not None else "libamem_symmetric.so"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise AmemError(f"symmetric memory is not installed with {beside or 'amem'}: {error}") from None
    problem = declare(library, _SIGNATURES) or compare_sizes(_STRUCTURES, library.amemSymmetricGetStructBytes)
    if problem:
        raise AmemError(f"{path} does not fit to the Python package amem ({problem}): install both of the same version")
    return library


def require_symmetric_library() -> ctypes.CDLL:
    """The library with the functions above. Raises AmemError when it or amem is not in this process."""
    require_library()
    return _load()


def call(name: str, *arguments: object) -> None:
    """calls.call() for this library."""
    calls.call(name, *arguments, library=require_symmetric_library())
