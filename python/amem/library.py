# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The functions of amem's libraries, where they are in this process. The types are those of amem.h."""

import ctypes
from typing import Dict, Optional

from .errors import AmemError

STATES = ("active", "pausing", "paused", "resuming", "off")  # amemState_t
KINDS = ("keep", "discard", "persistent")  # amemKind_t

_NOT_LOADED = (
    "amem is not in this process: start the job with `amem run -- command`, or set LD_PRELOAD and "
    "AMEM_ENABLE=1 as `amem env` prints them"
)


class Totals(ctypes.Structure):
    """amemTotals_t."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "objects",
            "allocated_bytes",
            "resident_bytes",
            "released_bytes",
            "saved_bytes",
            "fixed_bytes",
        )
    ]


class DriverObjects(ctypes.Structure):
    """amemDriverObjects_t."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("own", "own_bytes", "imported")]


class Times(ctypes.Structure):
    """amemTimes_t."""

    _fields_ = [
        (name, ctypes.c_double)
        for name in (
            "pause_ms",
            "pause_wait_ms",
            "pause_peers_ms",
            "pause_copy_ms",
            "pause_memory_ms",
            "resume_ms",
            "resume_memory_ms",
            "resume_copy_ms",
            "resume_peers_ms",
        )
    ] + [
        (name, ctypes.c_uint64)
        for name in (
            "pause_copied_bytes",
            "resume_copied_bytes",
            "host_capacity_bytes",
            "pause_context_bytes",
        )
    ]


_SIGNATURES = {
    "ncclPause": (ctypes.c_int, [ctypes.c_void_p]),
    "ncclResume": (ctypes.c_int, [ctypes.c_void_p]),
    "ncclSetGroupID": (ctypes.c_int, [ctypes.c_int]),
    "ncclGetGroupID": (ctypes.c_int, [ctypes.POINTER(ctypes.c_int)]),
    "amemGetState": (ctypes.c_int, []),
    "amemGetTotals": (ctypes.c_int, [ctypes.c_int, ctypes.c_int, ctypes.POINTER(Totals)]),
    "amemGetImports": (ctypes.c_int, [ctypes.POINTER(Totals)]),
    "amemGetDriverObjects": (ctypes.c_int, [ctypes.POINTER(DriverObjects)]),
    "amemGetTimes": (ctypes.c_int, [ctypes.POINTER(Times)]),
    "amemTrimHostMemory": (ctypes.c_int, [ctypes.POINTER(ctypes.c_uint64)]),
    "amemGetLastError": (ctypes.c_char_p, []),
    "amemGetVersion": (ctypes.c_char_p, []),
}

_found: Optional[ctypes.CDLL] = None


def find_library() -> Optional[ctypes.CDLL]:
    """The process' global scope with the functions above, or None when amem is not in it.

    Functions called through it run without Python's lock, so that other threads go on.
    """
    global _found
    if _found is None:
        scope = ctypes.CDLL(None)
        try:
            for name, (result, arguments) in _SIGNATURES.items():
                function = getattr(scope, name)
                function.restype = result
                function.argtypes = arguments
        except AttributeError:
            return None
        _found = scope
    return _found


def require_library() -> ctypes.CDLL:
    """The same; raises AmemError when amem is not in this process."""
    library = find_library()
    if library is None:
        raise AmemError(_NOT_LOADED)
    return library


def fields_of(structure: ctypes.Structure) -> Dict[str, float]:
    """A structure as a dict, in the order of its fields."""
    return {name: getattr(structure, name) for name, _ in structure._fields_}
