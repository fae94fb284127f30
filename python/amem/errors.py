# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The exceptions of this package."""

from typing import Optional


class AmemError(RuntimeError):
    """What could not be done, why, and what to do.

    `code` is the ncclResult_t of the call that failed (5 is ncclInvalidUsage: nothing was changed),
    or None when no call was made because amem is not in this process or not installed.
    """

    def __init__(self, message: str, code: Optional[int] = None) -> None:
        super().__init__(message)
        self.code = code


class AmemTypeError(AmemError, TypeError):
    """An argument has the wrong type."""


class AmemValueError(AmemError, ValueError):
    """An argument has a value that is out of range."""
