# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Calls of the library's functions that return 0 or an error."""

from .errors import AmemError
from .library import find_library, require_library


def last_error() -> str:
    """The text of the last failed call in this process; "" if none has failed. Never raises."""
    library = find_library()
    return "" if library is None else library.amemGetLastError().decode("utf-8", "replace")


def call(name: str, *arguments: object) -> None:
    """Calls a function that returns 0 on success; raises AmemError with the library's text."""
    library = require_library()
    code = getattr(library, name)(*arguments)
    if code != 0:
        raise AmemError(last_error() or f"{name} failed without an error text", code)
