# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Pause, resume, and what they need to know. Every function may be called from any thread."""

import contextlib
import ctypes
from typing import Iterator, Optional, Tuple

from .errors import AmemError
from .library import STATES, find_library, require_library


def _call(name: str, *arguments: object) -> None:
    """Calls a function that returns 0 when it has succeeded; raises AmemError with the library's own words."""
    library = require_library()
    code = getattr(library, name)(*arguments)
    if code != 0:
        text = last_error() or f"{name} failed without saying why"
        raise AmemError(text, code)


def _joined(tags: Tuple[str, ...]) -> Optional[bytes]:
    """The tags as the library takes them: None for all."""
    for tag in tags:
        if not isinstance(tag, str) or "," in tag:
            raise AmemError(f"{tag!r} is not a valid tag", -1)
    return ",".join(tags).encode() if tags else None


def pause(*tags: str) -> None:
    """Returns when memory with these tags has left this process' GPUs: all of it without tags.

    "nccl" is the memory of NCCL; other tags are those of amemMalloc(). Contents are kept on the host,
    but for memory that was allocated to be discarded. When everything is paused, the local memory of
    the CUDA contexts is returned too.

    Local: no other rank has to call anything. Waits for work in flight, at most AMEM_TIMEOUT_MS.
    Does nothing for tags that are paused already, and is legal before any use of NCCL. Raises
    AmemError when it was refused or failed; nothing is lost then, and the message says what to do.
    """
    _call("amemPause", _joined(tags))


def resume(*tags: str) -> None:
    """Returns when memory with these tags, all without tags, is back at its addresses with its contents.

    Does nothing for tags that are not paused. Raises AmemError when it failed; the tags stay paused
    then, and the call can be made again.
    """
    _call("amemResume", _joined(tags))


@contextlib.contextmanager
def paused(*tags: str) -> Iterator[None]:
    """`with amem.paused():` pauses for the length of the block and resumes however it ends."""
    pause(*tags)
    try:
        yield
    finally:
        resume(*tags)


def set_group(group: int) -> None:
    """The logical group of this process (train, infer), 0 or greater.

    Shown in statistics and errors. Only before NCCL's first allocation; AmemError after it.
    AMEM_GROUPID sets it from outside.
    """
    _call("ncclSetGroupID", group)


def state(tag: str = "nccl") -> str:
    """Of a tag: one of "active", "pausing", "paused", "resuming" and "off". Never raises.

    Off: amem is not in this process, AMEM_ENABLE is 0, or there is no CUDA driver.
    """
    library = find_library()
    return "off" if library is None else STATES[library.amemGetTagState(tag.encode())]


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
