# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Functions that make the contents of memory again when it has been resumed."""

import contextlib
import threading
from typing import Callable, Collection, Iterable, Iterator, List, Optional

from .calls import encoded
from .errors import NOTHING_CHANGED, AmemError, AmemTypeError, shown
from .library import state_of


class OnResume:
    """A function of on_resume()."""

    def __init__(self, tag: str, function: Callable[[], object]) -> None:
        self._tag, self._function = tag, function
        self._is_due = False  # the tag was paused since its last call
        self._thread: Optional[int] = None  # in which it runs

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
        finally:
            with _mutex:
                self._thread = None
                _has_run.notify_all()


_mutex = threading.RLock()  # a function may be removed in a finalizer, which can run in any of the loops
_has_run = threading.Condition(_mutex)
_functions: List[OnResume] = []  # in the order of registration


def on_resume(tag: str, function: Callable[[], object]) -> OnResume:
    """From now on, resume() calls `function` when memory with the tag is back, for contents that the program can make again.

    Such contents need no copy: a region() of the tag that is opened after this call, and that names no backup, discards them.

    The functions of all resumed tags run in the order of registration, in the thread that calls resume(), before it returns. If
    one fails, resume() raises AmemError with the tag, whose memory is active; those that have not run are called by the next
    resume() of their tag. A pause that fails calls those of its tags too, when they are active again: contents that are not
    kept may be lost. resume() of torch_memory_saver calls them too; amemResume() of C and a resume by an NCCL call do not.
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


@contextlib.contextmanager
def pausing(tags: Collection[str], resumed: Collection[str] = ()) -> Iterator[None]:
    """For a pause of these tags, with a resume of others in a switch."""
    note_paused(tags)  # another thread may resume them before this one has returned
    try:
        yield
    except AmemError as error:
        if error.code not in (None, NOTHING_CHANGED):
            remake({*tags, *resumed})
        raise
    note_paused()


def remake(tags: Iterable[str]) -> None:
    """After a resume of these tags, or of all. Outside the lock: a function may pause and resume, and take long. Returns when
    those have ended that other threads have called, except in such a function: two could wait for each other."""
    selected, thread = set(tags), threading.get_ident()
    while True:
        with _mutex:
            of_tags = [each for each in tuple(_functions) if not selected or each._tag in selected]
            due = [each for each in of_tags if each._is_due and state_of(encoded(each._tag)) == "active"]
            if due:
                due[0]._is_due, due[0]._thread = False, thread
            elif all(each._thread != thread for each in _functions) and any(each._thread is not None for each in of_tags):
                _has_run.wait()
                continue
            else:
                return
        due[0]._run()
