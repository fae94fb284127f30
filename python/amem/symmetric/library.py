# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""libamem_symmetric.so, beside amem's library: loads it, and has its structures as amem/symmetric.h has them."""

import ctypes
import functools

from .. import calls
from ..calls import fields
from ..errors import AmemError
from ..installation import loaded_library
from ..library import require_library

AllGather = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


class Group(ctypes.Structure):
    """amemGroup_t."""

    _fields_ = [*fields(ctypes.c_int, "rank", "world_size"), ("all_gather", AllGather), ("context", ctypes.c_void_p)]


class SymmetricInfo(ctypes.Structure):
    """amemSymmetricInfo_t."""

    _fields_ = [
        *fields(ctypes.c_int, "rank", "world_size", "device"),
        *fields(ctypes.c_size_t, "buffer_bytes", "signal_pad_bytes"),
        *fields(ctypes.POINTER(ctypes.c_void_p), "buffers", "signal_pads"),
        *fields(ctypes.c_void_p, "device_buffers", "device_signal_pads", "multicast"),
    ]


@functools.lru_cache(maxsize=None)
def require_symmetric_library() -> ctypes.CDLL:
    """The library. Raises AmemError when it or amem is not in this process."""
    require_library()
    beside = loaded_library()
    path = beside.with_name("libamem_symmetric.so") if beside is not None else "libamem_symmetric.so"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise AmemError(f"symmetric memory is not installed with {beside or 'amem'}: {error}") from None
    for name, structure in ((b"amemGroup_t", Group), (b"amemSymmetricInfo_t", SymmetricInfo)):
        if library.amemSymmetricGetStructBytes(name) != ctypes.sizeof(structure):
            raise AmemError(f"{path} does not fit to the Python package amem: install both of the same version")
    return library


def call(name: str, *arguments: object) -> None:
    """calls.call() for this library."""
    calls.call(name, *arguments, library=require_symmetric_library())
