# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem's library in this process: loads and enables it, and declares its functions as amem.h does."""

import ctypes
import os
from typing import Dict, Optional

from .errors import AmemError
from .installation import find_libraries

STATES = ("active", "pausing", "paused", "resuming", "off")  # amemState_t
KINDS = ("keep", "discard", "persistent", "disk", "zero")  # amemKind_t

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
            "disk_bytes",
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
    "amemMalloc": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_int]),
    "amemFree": (ctypes.c_int, [ctypes.c_void_p]),
    "amemBeginRegion": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_int]),
    "amemEndRegion": (ctypes.c_int, []),
    "amemSetProcessRegion": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_int]),
    "amemReadBackup": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]),
    "amemGetBackup": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t]),
    "amemResumeOnCall": (ctypes.c_int, [ctypes.c_int]),
    "amemRetainBackups": (ctypes.c_int, [ctypes.c_int]),
    "amemSetBackupDirectory": (ctypes.c_int, [ctypes.c_char_p]),
    "amemSetMemoryMargin": (ctypes.c_int, [ctypes.c_size_t]),
    "amemPause": (ctypes.c_int, [ctypes.c_char_p]),
    "amemResume": (ctypes.c_int, [ctypes.c_char_p]),
    "amemPauseWithTimeout": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_uint64]),
    "amemResumeWithTimeout": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_uint64]),
    "amemGetState": (ctypes.c_int, []),
    "amemGetTagState": (ctypes.c_int, [ctypes.c_char_p]),
    "amemGetStatus": (ctypes.c_char_p, []),
    "amemGetTotals": (ctypes.c_int, [ctypes.c_int, ctypes.c_int, ctypes.POINTER(Totals)]),
    "amemGetTagTotals": (
        ctypes.c_int,
        [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.POINTER(Totals)],
    ),
    "amemGetImports": (ctypes.c_int, [ctypes.POINTER(Totals)]),
    "amemGetDriverObjects": (ctypes.c_int, [ctypes.POINTER(DriverObjects)]),
    "amemGetTimes": (ctypes.c_int, [ctypes.POINTER(Times)]),
    "amemPrepareHostMemory": (ctypes.c_int, [ctypes.c_uint64]),
    "amemTrimHostMemory": (ctypes.c_int, [ctypes.POINTER(ctypes.c_uint64)]),
    "amemSymmetricMalloc": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t]),
    "amemSymmetricFree": (ctypes.c_int, [ctypes.c_void_p]),
    "amemSymmetricRendezvous": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    "amemSymmetricDestroy": (ctypes.c_int, [ctypes.c_void_p]),
    "amemSymmetricSetSignalPadSize": (ctypes.c_int, [ctypes.c_size_t]),
    "amemSymmetricGetSignalPadSize": (ctypes.c_size_t, []),
    "amemGetInterposition": (ctypes.c_char_p, []),
    "amemGetLastError": (ctypes.c_char_p, []),
    "amemGetVersion": (ctypes.c_char_p, []),
}

_found: Optional[ctypes.CDLL] = None
_OTHER_VERSION = "install the Python package and the library of the same version"
_problem = ""  # why amem could not be loaded


def _load() -> None:
    """Loads amem's library so that the whole process finds its functions."""
    problems = []
    for path in find_libraries():
        try:
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            return
        except OSError as error:
            problems.append(str(error))
    raise AmemError("; ".join(problems))


def enable() -> None:
    """Loads amem, where the process does not have it, and enables it. Never raises.

    Does nothing with AMEM_ENABLE=0. What goes wrong is in the error of require_library().
    """
    global _problem
    if os.environ.get("AMEM_ENABLE") == "0":
        _problem = "AMEM_ENABLE is 0; unset it or set it to 1"
        return
    try:
        if not hasattr(ctypes.CDLL(None), "amemEnable"):
            _load()
        enable_now = ctypes.CDLL(None).amemEnable
    except (AmemError, OSError) as error:
        _problem = str(error)
        return
    except AttributeError as error:
        _problem = f"{error}; {_OTHER_VERSION}"
        return
    enable_now.restype = None
    enable_now()


def find_library() -> Optional[ctypes.CDLL]:
    """The process' global scope with the functions above, or None when amem is not in it.

    Functions called through it run without Python's lock, so that other threads go on.
    """
    global _found, _problem
    if _found is None:
        scope = ctypes.CDLL(None)
        try:
            for name, (result, arguments) in _SIGNATURES.items():
                function = getattr(scope, name)
                function.restype = result
                function.argtypes = arguments
        except AttributeError as error:
            _problem = _problem or f"{error}; {_OTHER_VERSION}"
            return None
        _found = scope
    return _found


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def is_off() -> bool:
    """True where memory can have no tags because of AMEM_ENABLE=0 or because there is no CUDA driver."""
    library, disabled = find_library(), os.environ.get("AMEM_ENABLE") == "0"
    if library is None:
        return disabled
    # Also off: forked children, and drivers that are too old. Regions are errors there.
    return STATES[library.amemGetTagState(b"nccl")] == "off" and (disabled or not _has_driver())


def require_library() -> ctypes.CDLL:
    """The same; raises AmemError when amem is not in this process."""
    library = find_library()
    if library is None:
        raise AmemError(f"amem is not in this process: {_problem}")
    return library


def fields_of(structure: ctypes.Structure) -> Dict[str, float]:
    """A structure as a dict, in the order of its fields."""
    return {name: getattr(structure, name) for name, _ in structure._fields_}
