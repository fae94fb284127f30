# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A stand-in for PyTorch where only tensors on the CPU matter: it has not initialized CUDA."""

from __future__ import annotations

import ctypes
import types
from typing import Any


class FakeTorch(types.ModuleType):
    def __init__(self) -> None:
        super().__init__("torch")
        self.uint8, self.strided = "uint8", "strided"
        self.cuda = types.SimpleNamespace(
            is_initialized=lambda: False, _is_compiled=lambda: False, _lazy_call=lambda function: None
        )

    def frombuffer(self, data: Any, dtype: str) -> FakeTensor:
        return FakeTensor(data, ctypes.addressof(data))

    def empty(self, shape: int, dtype: str, device: str = "cpu") -> FakeTensor:
        data = ctypes.create_string_buffer(shape)
        return FakeTensor(data, ctypes.addressof(data), shape)


class FakeTensor:
    """Bytes at an address; `data` keeps those of the host."""

    dtype, layout = "uint8", "strided"

    def __init__(self, data: Any, address: int, size: int | None = None) -> None:
        self.data, self.address = data, address
        self.shape = self.nbytes = len(data) if size is None else size

    def is_contiguous(self) -> bool:
        return True

    def is_conj(self) -> bool:
        return False

    is_neg = is_conj

    def data_ptr(self) -> int:
        return self.address

    def view(self, _: str) -> FakeTensor:
        return self

    def values(self) -> set[int]:
        """The set of the bytes on the host."""
        return set(bytes(self.data))
