# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Functions that make the contents of memory again when it has been resumed."""

import contextlib
import threading
import time
from typing import Callable, Collection, Iterable, Iterator, List

from .calls import encoded
from .errors import NOTHING_CHANGED, AmemError, AmemTypeError, Timeout, shown
from .library import state_of


class OnResume:
    """A function of on_resume()."""

    def __init__(self, tag: str, function: Callable[[], object]) -> None:
        self._tag, self._function = tag, function
        self._is_due = False  # the tag was paused since its last call
        self._pauses = 0  # of the tag that are running
        self._threads: List[int] = []  # in which it runs

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
                self._threads.remove(threading.get_ident())


_mutex = threading.RLock()  # a function may be removed in a finalizer, which can run in any of the loops
_WAIT_S = 60.0
_functions: List[OnResume] = []  # in the order of registration


def on_resume(tag: str, function: Callable[[], object]) -> OnResume:
    """From now on, resume() calls `function` when memory with the tag is back, for contents that the program can make again.

    Such contents need no copy: a region() of the tag that is opened after this call, and that names no backup, discards them.

    The functions of all resumed tags run in the order of registration, in the thread that calls resume(), before it returns.
    If one fails, resume() raises AmemError with the tag, whose memory is active; those that have not run are called by the
    next resume() of their tag. A pause that fails calls those of its tags too, when they are active again: contents that are
    not kept may be lost. A resume() in another thread waits for them for up to a minute. resume() of torch_memory_saver calls
    them too; amemResume() of C and a resume by an NCCL call do not.
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
    with _mutex:
        functions = [each for each in _functions if each._tag in tags]
        for each in functions:
            each._pauses += 1
    try:
        yield
    except BaseException as error:
        # Another exception is that of a signal's handler, which takes the place of the pause's error.
        has_changed = not isinstance(error, AmemError) or error.code not in (None, NOTHING_CHANGED)
        _end_pause(functions, has_changed)
        try:
            if has_changed:
                remake({*tags, *resumed})
        except AmemError as second:
            error.args = (f"{error}; {second}",)
        raise
    _end_pause(functions, True)
    if tags:
        remake(tags)  # another thread may have resumed them


def _end_pause(functions: List[OnResume], has_changed: bool) -> None:
    with _mutex:
        for each in functions:
            each._pauses -= 1
            each._is_due |= has_changed
    note_paused()


def remake(tags: Iterable[str]) -> None:
    """After a resume of these tags, or of all. Outside the lock: a function may pause and resume, and take long. Waits until
    functions of these tags in other threads have ended; a call from inside a function does not wait."""
    selected, thread = set(tags), threading.get_ident()
    latest = time.monotonic() + _WAIT_S
    while True:
        with _mutex:
            of_tags = [each for each in tuple(_functions) if not selected or each._tag in selected]
            active = [each for each in of_tags if state_of(encoded(each._tag)) == "active"]
            busy = [each for each in active if any(other != thread for other in each._threads)]
            due = [each for each in active if each._is_due and each._pauses == 0 and each not in busy]
            if due:
                due[0]._is_due = False
                due[0]._threads.append(thread)
            elif not busy or any(thread in each._threads for each in _functions):
                return
        if due:
            due[0]._run()
        elif time.monotonic() > latest:
            raise Timeout(f"a function of on_resume({busy[0]._tag!r}) in another thread has not ended in {_WAIT_S:.0f} s")
        else:
            time.sleep(0.01)
