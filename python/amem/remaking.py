# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Functions that make the contents of memory again when it has been resumed."""

import threading
from typing import Callable, Iterable, List

from .calls import encoded
from .errors import AmemError, AmemTypeError, shown
from .library import state_of


class OnResume:
    """A function of on_resume()."""

    def __init__(self, tag: str, function: Callable[[], object]) -> None:
        self._tag, self._function = tag, function
        self._is_due = False  # the tag was paused since its last call

    def remove(self) -> None:
        """The function is not called again. May be called more than once."""
        with _mutex:
            if self in _functions:
                _functions.remove(self)

    def _run(self) -> None:
        try:
            self._function()
        except BaseException as error:
            self._is_due = True
            if not isinstance(error, Exception):
                raise
            raise AmemError(
                f"{self._tag!r} is active, but a function of on_resume({self._tag!r}) failed: {error!r}; the next "
                f"resume({self._tag!r}) calls it again"
            ) from error


_mutex = threading.RLock()  # a function may be removed in a finalizer, which can run in any of the loops
_functions: List[OnResume] = []  # in the order of registration


def on_resume(tag: str, function: Callable[[], object]) -> OnResume:
    """From now on, resume() calls `function` when memory with the tag is back, for contents that the program can make again.

    Such contents need no copy: a region() of the tag that is opened after this call, and that names no backup, discards them.

    The functions of all resumed tags run in the order of registration, in the thread that calls resume(), before it returns. If
    one fails, resume() raises AmemError with the tag, whose memory is active; those that have not run are called by the next
    resume() of their tag. resume() of torch_memory_saver calls them too; amemResume() of C and a resume by an NCCL call do not.
    Returns an object whose remove() ends this.
    """
    encoded(tag)
    if not callable(function):
        raise AmemTypeError(f"the function of on_resume({tag!r}) is {shown(function)}, which cannot be called")
    added = OnResume(tag, function)
    with _mutex:
        _functions.append(added)
    return added


def is_remade(tag: str) -> bool:
    with _mutex:
        return any(each._tag == tag for each in tuple(_functions))


def note_paused(tags: Iterable[str] = ()) -> None:
    """The contents of tags that are paused now, and of these, must be made again."""
    with _mutex:
        for each in tuple(_functions):
            each._is_due |= each._tag in tags or state_of(encoded(each._tag)) == "paused"


def remake(tags: Iterable[str]) -> None:
    """After a resume of these tags, or of all. Outside the lock: a function may pause and resume, and take long."""
    selected = set(tags)
    while True:
        with _mutex:
            due = [each for each in tuple(_functions) if each._is_due and (not selected or each._tag in selected)]
            due = [each for each in due if state_of(encoded(each._tag)) == "active"]
            if not due:
                return
            due[0]._is_due = False
        due[0]._run()
