# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem's library in this process: loads and enables it, and declares its functions as amem.h does."""

import ctypes
import os
from pathlib import Path
from typing import Any, Callable, Literal, Mapping, Optional, Sequence, Tuple, Type, get_args

from amem_flags import flag

from . import __version__
from .errors import AmemError
from .installation import find_libraries, loaded_library

State = Literal["active", "pausing", "paused", "resuming", "off"]  # amemState_t
STATES: Tuple[State, ...] = get_args(State)


class Range(ctypes.Structure):
    """amemRange_t."""

    _fields_ = [("pointer", ctypes.c_void_p), ("size_bytes", ctypes.c_size_t)]


# The result and the parameters of each function.
Signatures = Mapping[str, Tuple[Any, Sequence[Any]]]
_STRUCTURES = {"amemRange_t": Range}
_SIGNATURES: Signatures = {
    "ncclPause": (ctypes.c_int, [ctypes.c_void_p]),
    "ncclResume": (ctypes.c_int, [ctypes.c_void_p]),
    "ncclSetGroupID": (ctypes.c_int, [ctypes.c_int]),
    "amemMalloc": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_int]),
    "amemFree": (ctypes.c_int, [ctypes.c_void_p]),
    "amemBeginRegion": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_int]),
    "amemEndRegion": (ctypes.c_int, []),
    "amemSetProcessRegion": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_int]),
    "amemOpenRegion": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_uint64)]),
    "amemCloseRegion": (ctypes.c_int, [ctypes.c_uint64]),
    "amemSetPool": (ctypes.c_int, [ctypes.c_int, ctypes.c_char_p, ctypes.c_int]),
    "amemSetUnusedRanges": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t]),
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
    "amemResumeWait": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64]),
    "amemSwitch": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64]),
    "amemGetTagState": (ctypes.c_int, [ctypes.c_char_p]),
    "amemGetStatus": (ctypes.c_char_p, []),
    "amemPrepareHostMemory": (ctypes.c_int, [ctypes.c_uint64]),
    "amemTrimHostMemory": (ctypes.c_int, [ctypes.POINTER(ctypes.c_uint64)]),
    "amemEnable": (None, []),
    "amemGetStructBytes": (ctypes.c_size_t, [ctypes.c_char_p]),
    "amemGetInterposition": (ctypes.c_char_p, []),
    "amemGetLastError": (ctypes.c_char_p, []),
    "amemGetShortage": (ctypes.c_char_p, []),
    "amemIsActive": (ctypes.c_int, []),
    "amemSafePoint": (ctypes.c_int, []),
    "amemWaitAtSafePoint": (ctypes.c_int, [ctypes.c_uint64]),
    "amemGetVersion": (ctypes.c_char_p, []),
}

_found: Optional[ctypes.CDLL] = None
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


def _is_disabled() -> bool:
    """True with AMEM_ENABLE=0, or a value that is not readable."""
    return flag("AMEM_ENABLE") is False


def _other_version(scope: ctypes.CDLL, problem: str) -> str:
    """The error for a library that does not fit to this package."""
    version = "of an unknown version"
    if hasattr(scope, "amemGetVersion"):
        scope.amemGetVersion.restype = ctypes.c_char_p
        version = scope.amemGetVersion().decode("utf-8", "replace")
    return (
        f"the Python package amem {__version__} ({Path(__file__).parent}) does not fit to the library amem {version} "
        f"({loaded_library() or 'not a file'}): {problem}; install the package and the library of the same version"
    )


def declare(scope: ctypes.CDLL, signatures: Signatures) -> str:
    """Declares functions of a library. Returns why that is not possible, or ""."""
    for name, (result, arguments) in signatures.items():
        if not hasattr(scope, name):
            return f"it has no {name}()"
        function = getattr(scope, name)
        function.restype = result
        function.argtypes = arguments
    return ""


def compare_sizes(structures: Mapping[str, Type[ctypes.Structure]], size_of: Callable[[bytes], int]) -> str:
    """Why structures of the library are not those here, or ""."""
    for name, structure in structures.items():
        size_bytes = size_of(name.encode())
        if size_bytes != ctypes.sizeof(structure):
            return f"{name} has {size_bytes} bytes, not {ctypes.sizeof(structure)}"
    return ""


def _declare(scope: ctypes.CDLL) -> str:
    """Declares the functions above. Returns why that is not possible, or ""."""
    problem = declare(scope, _SIGNATURES)
    if not problem and scope.amemGetVersion().decode("utf-8", "replace") != __version__:
        problem = "the versions differ"
    problem = problem or compare_sizes(_STRUCTURES, scope.amemGetStructBytes)
    return _other_version(scope, problem) if problem else ""


def enable() -> None:
    """Loads amem, where the process does not have it, and enables it. Never raises.

    Does nothing if AMEM_ENABLE is 0. What goes wrong is in the error of require_library().
    """
    global _problem
    if _is_disabled():
        _problem = f"AMEM_ENABLE is {os.environ['AMEM_ENABLE']}; unset it or set it to 1"
        return
    try:
        if not hasattr(ctypes.CDLL(None), "amemEnable"):
            _load()
    except (AmemError, OSError) as error:
        _problem = str(error)
        return
    library = find_library()
    if library is not None:
        library.amemEnable()


def find_library() -> Optional[ctypes.CDLL]:
    """The process' global scope with the functions above, or None when amem is not in it, or of another version.

    Functions called through it run without Python's lock, so that other threads go on.
    """
    global _found, _problem
    if _found is None:
        scope = ctypes.CDLL(None)
        problem = _declare(scope)
        if problem:
            _problem = _problem or problem
            return None
        _found = scope
    return _found


def state_of(tag: bytes) -> State:
    """Of a tag; "off" also where amem is not in this process."""
    library = find_library()
    return "off" if library is None else STATES[library.amemGetTagState(tag)]


def why_off() -> str:
    """Why memory can have no tags: because of AMEM_ENABLE=0, or because there is no CUDA driver; or "".

    Also off, and errors of regions: forked children, and drivers that are too old.
    """
    if state_of(b"nccl") != "off":
        return ""
    if _is_disabled():
        return f"AMEM_ENABLE is {os.environ['AMEM_ENABLE']}"
    if find_library() is None:
        return ""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"there is no CUDA driver: {error}"
    return ""


def is_off() -> bool:
    """True where why_off() has a reason."""
    return why_off() != ""


def require_library() -> ctypes.CDLL:
    """The same; raises AmemError when amem is not in this process."""
    library = find_library()
    if library is None:
        raise AmemError(f"amem is not in this process: {_problem}")
    return library
