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


def encoded(tag: str) -> bytes:
    """A tag as the library takes it; raises AmemError if it is not a str."""
    if not isinstance(tag, str):
        hint = "; write each tag as an argument: pause(*tags)" if isinstance(tag, (list, tuple, set, frozenset)) else ""
        raise AmemError(f"a tag is a str, not {tag!r}{hint}")
    return tag.encode()
