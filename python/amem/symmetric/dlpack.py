# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Device memory as a DLPack tensor of bytes (DLPack 0.8, dlpack.h), by ctypes."""

import ctypes
from typing import Any, Dict, Tuple

from ..calls import fields

_CUDA = 2  # kDLCUDA
_UNSIGNED = 1  # kDLUInt
_NAME = b"dltensor"


class _Tensor(ctypes.Structure):
    """DLTensor, with its DLDevice and DLDataType."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        *fields(ctypes.c_int32, "device_type", "device_id", "ndim"),
        *fields(ctypes.c_uint8, "code", "bits"),
        ("lanes", ctypes.c_uint16),
        *fields(ctypes.POINTER(ctypes.c_int64), "shape", "strides"),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    """DLManagedTensor."""


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]

# Of each tensor that somebody has: the structure, what it points to, and the owner of the memory.
_held: Dict[int, Tuple[object, ...]] = {}


def _release(managed: Any) -> None:
    _held.pop(ctypes.addressof(managed.contents), None)


_deleter = _Deleter(_release)


_python = ctypes.pythonapi
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_python.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]


def _destroy_capsule(capsule: int) -> None:
    """A consumer renames the capsule and calls the deleter itself."""
    if _python.PyCapsule_IsValid(capsule, _NAME):
        _held.pop(_python.PyCapsule_GetPointer(capsule, _NAME), None)


_destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_destroy_capsule)


class DeviceBytes:
    """`size_bytes` bytes at an address of a device, for `from_dlpack()` of any library.

    Tensors made of it keep `owner` alive.
    """

    def __init__(self, address: int, size_bytes: int, device: int, owner: object) -> None:
        self.address, self.size_bytes, self.device, self._owner = address, size_bytes, device, owner

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (_CUDA, self.device)

    def __dlpack__(self, **_options: object) -> object:
        shape = (ctypes.c_int64 * 1)(self.size_bytes)
        managed = _Managed()
        managed.tensor = _Tensor(
            data=self.address,
            device_type=_CUDA,
            device_id=self.device,
            ndim=1,
            code=_UNSIGNED,
            bits=8,
            lanes=1,
            shape=ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
        )
        managed.deleter = _deleter
        address = ctypes.addressof(managed)
        _held[address] = (managed, shape, self._owner)
        return _python.PyCapsule_New(address, _NAME, ctypes.cast(_destructor, ctypes.c_void_p))
