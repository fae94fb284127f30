# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Pause, resume, and what they need to know. Every function may be called from any thread."""

import contextlib
import ctypes
from typing import Iterator

from .errors import AmemError
from .library import STATES, find_library, require_library


def _call(name: str, *arguments: object) -> None:
    """Calls a function that returns 0 when it has succeeded; raises AmemError with the library's own words."""
    library = require_library()
    code = getattr(library, name)(*arguments)
    if code != 0:
        text = last_error() or f"{name} failed without saying why"
        raise AmemError(text, code)


def pause() -> None:
    """Returns when NCCL's memory has left this process' GPUs; contents are kept on the host.

    Local: no other rank has to call anything. Waits for work in flight, at most AMEM_TIMEOUT_MS.
    Does nothing when paused already, and is legal before any use of NCCL. Raises AmemError when it
    was refused or failed; nothing is lost then, and the message says what to do.
    """
    _call("ncclPause", None)


def resume() -> None:
    """Returns when all of it is back: same addresses, same contents, same communicators.

    Does nothing when the process is not paused. Raises AmemError when it failed; the process stays
    paused then, and the call can be made again.
    """
    _call("ncclResume", None)


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """`with amem.paused():` pauses for the length of the block and resumes however it ends."""
    pause()
    try:
        yield
    finally:
        resume()


def set_group(group: int) -> None:
    """The logical group of this process (train, infer), 0 or greater.

    Shown in statistics and errors. Only before NCCL's first allocation; AmemError after it.
    AMEM_GROUPID sets it from outside.
    """
    _call("ncclSetGroupID", group)


def state() -> str:
    """One of "active", "pausing", "paused", "resuming" and "off". Never raises.

    Off: amem is not in this process, AMEM_ENABLE is 0, or there is no CUDA driver.
    """
    library = find_library()
    return "off" if library is None else STATES[library.amemGetState()]


def enabled() -> bool:
    """True when pause() can work: amem is in this process and not off. Never raises."""
    return state() != "off"


def trim_host_memory() -> int:
    """Gives back the pinned host memory that a pause has made, which is kept for the next one.

    Returns how many bytes it was. Raises AmemError while the process is paused: its contents are
    there.
    """
    size = ctypes.c_uint64(0)
    _call("amemTrimHostMemory", ctypes.byref(size))
    return size.value


def last_error() -> str:
    """What the last failed call of this process said; "" when none failed. Never raises."""
    library = find_library()
    return "" if library is None else library.amemGetLastError().decode("utf-8", "replace")
