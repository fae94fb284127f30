# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The exceptions of this package."""

import reprlib
from typing import Any, Mapping, Optional


class _Shown(reprlib.Repr):
    def repr_instance(self, value: Any, level: int) -> str:
        return repr(value) if isinstance(value, (bool, float, bytes, type(None))) else f"a {type(value).__name__}"


NOTHING_CHANGED = 5  # amemErrorInvalidUsage
# repr() of an argument. That of a tensor would read its memory, which may be paused.
shown = _Shown().repr


class AmemError(RuntimeError):
    """What could not be done, why, and what to do.

    `code` is the amemError_t of the call that failed (5 is amemErrorInvalidUsage: nothing was changed),
    or None when no call was made because amem is not in this process or not installed.
    """

    def __init__(self, message: str, code: Optional[int] = None) -> None:
        super().__init__(message)
        self.code = code


class OutOfMemory(AmemError):
    """A GPU has too little free memory for a resume or an allocation. Tags stay paused, and the call can be repeated.

    Of the device that lacks most: `device`, `wanted` and `free` in bytes, and `holders`, the processes that hold its
    memory: {pid: bytes, or None if the driver does not report it}. They are None and {} where they are not known.
    """

    device: Optional[int] = None
    wanted: Optional[int] = None
    free: Optional[int] = None
    holders: Mapping[int, Optional[int]] = {}


class Timeout(AmemError, TimeoutError):
    """A deadline passed: AMEM_TIMEOUT_MS, or the timeout of the call. A resume goes on from there when it is repeated."""


class AmemTypeError(AmemError, TypeError):
    """An argument has the wrong type."""


class AmemValueError(AmemError, ValueError):
    """An argument has a value that is out of range."""
