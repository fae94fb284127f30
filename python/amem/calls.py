# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Calls of the library's functions, with checked arguments."""

import ctypes
import json
import operator
import re
from typing import Any, Optional, SupportsIndex, cast

from .errors import AmemError, AmemTypeError, AmemValueError, OutOfMemory, Timeout
from .library import find_library, require_library

_TAG = re.compile("[A-Za-z0-9_.:/-]{1,64}")
TIMEOUT, OUT_OF_MEMORY = 100, 101  # amemError_t
_SIGNED = (ctypes.c_int, ctypes.c_int64)
_UNSIGNED = (ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p)
_BITS = {kind: 8 * ctypes.sizeof(kind) for kind in _SIGNED + _UNSIGNED}
_LIMITS = {k: (-(1 << bits - 1), (1 << bits - 1) - 1) if k in _SIGNED else (0, (1 << bits) - 1) for k, bits in _BITS.items()}


def last_error() -> str:
    """The text of the last failed call in this process; "" if none has failed. Never raises."""
    library = find_library()
    return "" if library is None else str(library.amemGetLastError(), "utf-8", "replace")


def checked(value: object, kind: type, what: str) -> Any:
    """`value` for a parameter of this ctypes type: ctypes cuts integers to size, and text at a NUL."""
    if kind is ctypes.c_char_p and isinstance(value, bytes) and b"\0" in value:
        raise AmemValueError(f"{what} is {value!r}, which contains a NUL character")
    if kind not in _LIMITS:
        return value  # text
    if kind is ctypes.c_void_p and not hasattr(value, "__index__") and not isinstance(value, (float, str, bytes)):
        return value  # NULL, or what byref() returns
    try:
        number = operator.index(cast(SupportsIndex, value))
    except TypeError:
        raise AmemTypeError(f"{what} is {value!r}, not an integer") from None
    low, high = _LIMITS[kind]
    if not low <= number <= high:
        raise AmemValueError(f"{what} is {number}, not an integer from {low} to {high}")
    return number


def check_tensor(tensor: object, attribute: str = "data_ptr") -> None:
    if not hasattr(tensor, attribute):
        raise AmemTypeError(f"{tensor!r} is not a tensor")


def value_of(name: str, *arguments: object, library: Optional[ctypes.CDLL] = None) -> Any:
    """What a function of amem's library, or of another, returns."""
    function = getattr(library or require_library(), name)
    pairs = zip(arguments, function.argtypes)
    return function(*(checked(value, kind, f"{name}(): argument {i}") for i, (value, kind) in enumerate(pairs, 1)))


def _error_of(code: int, text: str) -> AmemError:
    if code != OUT_OF_MEMORY:
        return Timeout(text, code) if code == TIMEOUT else AmemError(text, code)
    error = OutOfMemory(text, code)
    shortage = json.loads(require_library().amemGetShortage())
    if shortage:
        error.device, error.wanted, error.free = (shortage[name] for name in ("device", "wanted_bytes", "free_bytes"))
        error.holders = {holder["pid"]: holder["bytes"] for holder in shortage["holders"]}
    return error


def call(name: str, *arguments: object, library: Optional[ctypes.CDLL] = None) -> None:
    """Calls a function that returns 0 on success; raises AmemError with the library's text."""
    code = value_of(name, *arguments, library=library)
    if code != 0:
        raise _error_of(code, last_error() or f"{name} failed without an error text")


def encoded(tag: str) -> bytes:
    """A tag as the library takes it; raises AmemTypeError if it is not a str, and AmemValueError if it is not a tag."""
    if not isinstance(tag, str):
        hint = "; write each tag as an argument: pause(*tags)" if isinstance(tag, (list, tuple, set, frozenset)) else ""
        raise AmemTypeError(f"a tag is a str, not {tag!r}{hint}")
    if not _TAG.fullmatch(tag):
        hint = "; write each tag as an argument: pause(*tags)" if "," in tag else ""
        raise AmemValueError(f"a tag has 1 to 64 letters, digits, '_', '-', '.', ':' or '/', unlike {tag!r}{hint}")
    return tag.encode()
