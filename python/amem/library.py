# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem's library in this process: loads and enables it."""

import ctypes
import os
from pathlib import Path
from typing import Literal, Optional, Tuple, get_args

from amem_flags import flag

from . import __version__
from .errors import AmemError
from .installation import find_libraries, loaded_library

State = Literal["active", "pausing", "paused", "resuming", "off"]  # amemState_t
STATES: Tuple[State, ...] = get_args(State)
# What returns a text. All others return an int, but amemGetBackup() an address.
_TEXTS = ("amemGetStatus", "amemGetAttribution", "amemGetInterposition", "amemGetLastError", "amemGetShortage")

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
    """The process' global scope with amem's functions, or None when amem is not in it, or of another version.

    Functions called through it run without Python's lock, so that other threads go on.
    """
    global _found, _problem
    if _found is None:
        scope, version = ctypes.CDLL(None), "of an unknown version"
        if hasattr(scope, "amemGetVersion"):
            scope.amemGetVersion.restype = ctypes.c_char_p
            version = scope.amemGetVersion().decode("utf-8", "replace")
        if version != __version__:
            _problem = _problem or (
                f"the Python package amem {__version__} ({Path(__file__).parent}) does not fit to the library amem {version} "
                f"({loaded_library() or 'not a file'}): install the package and the library of the same version"
            )
            return None
        for name in _TEXTS:
            getattr(scope, name).restype = ctypes.c_char_p
        scope.amemGetBackup.restype = ctypes.c_void_p
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


def require_library() -> ctypes.CDLL:
    """The same; raises AmemError when amem is not in this process."""
    library = find_library()
    if library is None:
        raise AmemError(f"amem is not in this process: {_problem}")
    return library
