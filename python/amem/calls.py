# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Calls of functions of amem's libraries, with checked arguments."""

import ctypes
import json
import operator
from typing import Any, List, NamedTuple, Optional, Tuple

from amem_flags import TAG

from .errors import AmemError, AmemTypeError, AmemValueError, OutOfMemory, Timeout, shown
from .library import find_library, require_library

TIMEOUT, OUT_OF_MEMORY = 100, 101  # amemError_t
_NO_INTEGERS = (ctypes.c_char_p, type(ctypes.byref(ctypes.c_int())))


class Int(NamedTuple):
    """For an `int`, an enum or a `uint32_t` of C. Other integers are unsigned, of 64 bits: sizes, times, addresses."""

    value: object
    kind: Any = ctypes.c_int


def fields(kind: Any, *names: str) -> List[Tuple[str, Any]]:
    """Members of a ctypes.Structure, as `int a, b;` declares them in C."""
    return [(name, kind) for name in names]


def last_error() -> str:
    """The text of the last failed call in this process; "" if none has failed. Never raises."""
    library = find_library()
    return "" if library is None else str(library.amemGetLastError(), "utf-8", "replace")


def in_c(argument: object, what: str) -> Any:
    """An argument for a function of C, of which ctypes would cut integers to size: an integer, text of c_char_p, or byref()."""
    if isinstance(argument, _NO_INTEGERS):
        return argument
    value, kind = argument if isinstance(argument, Int) else (argument, ctypes.c_uint64)
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise AmemTypeError(f"{what} is {shown(value)}, not an integer") from None
    if kind(number).value != number:
        least, values = (-(1 << 31) if kind is ctypes.c_int else 0), 1 << 8 * ctypes.sizeof(kind)
        raise AmemValueError(f"{what} is {number}, not an integer from {least} to {least + values - 1}")
    return kind(number)


def check_tensor(tensor: object, attribute: str = "data_ptr") -> None:
    if not hasattr(tensor, attribute):
        raise AmemTypeError(f"{shown(tensor)} is not a tensor")


def value_of(name: str, *arguments: object, library: Optional[ctypes.CDLL] = None) -> Any:
    """What a function of amem's library, or of another, returns."""
    function = getattr(library or require_library(), name)
    return function(*(in_c(argument, f"{name}(): argument {i}") for i, argument in enumerate(arguments, 1)))


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
        raise AmemTypeError(f"a tag is a str, not {shown(tag)}{hint}")
    if not TAG.fullmatch(tag):
        hint = "; write each tag as an argument: pause(*tags)" if "," in tag else ""
        raise AmemValueError(f"a tag has 1 to 64 letters, digits, '_', '-', '.', ':' or '/', unlike {tag!r}{hint}")
    return tag.encode()
