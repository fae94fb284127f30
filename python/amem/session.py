# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Pause, resume, and what they need to know. Every function may be called from any thread."""

import contextlib
import ctypes
import math
from typing import Any, Collection, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from . import remaking, torch_cache
from .calls import Int, call, encoded
from .errors import AmemError, AmemTypeError, AmemValueError, OutOfMemory, shown
from .library import State, state_of
from .statistics import status


def _joined(tags: Tuple[str, ...]) -> ctypes.c_char_p:
    """The tags as the library takes them: NULL for all."""
    return ctypes.c_char_p(b",".join(encoded(tag) for tag in tags) or None)


def _milliseconds(seconds: Optional[float], name: str = "timeout", least: float = 0.001) -> int:
    """0 for None, which means a setting."""
    if seconds is None:
        return 0
    text = f"the {name} is {shown(seconds)}, not a number of seconds from {least:g} to 86400"
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise AmemTypeError(text)
    if not (0 < seconds <= 86400 or seconds == least == 0):
        raise AmemValueError(text)
    return math.ceil(seconds * 1000)


class Report(NamedTuple):
    """What a pause or resume has done. `seconds` and `copied_bytes` are 0 after a call that changed nothing."""

    seconds: float
    copied_bytes: int  # between the GPUs and the host
    # Selected memory of this process that is not on the GPUs now. The log adds the local memory of contexts.
    released_bytes: int
    resident_bytes: int  # of it, what is on the GPUs now
    unchanged_bytes: int = 0  # retained on the host, and not copied by a pause


def _sum(field: str, now: Dict[str, Any], tags: Collection[str], device: Optional[int] = None) -> int:
    """A field of amemTotals_t, of memory with these tags, or of all, on a device, or on all."""
    rows = [row for row in now.get("own", []) if device in (None, row["device"]) and (not tags or row["tag"] in tags)]
    return sum(row[field] for row in rows)


def _report(tags: Tuple[str, ...], before: Dict[str, Any], which: str) -> Report:
    now, calls = status(), f"{which}s"
    times = now["times"] if now["counters"][calls] != before["counters"][calls] else {}
    return Report(
        times.get(f"{which}_ms", 0) / 1e3,
        times.get(f"{which}_copied_bytes", 0),
        _sum("released_bytes", now, tags),
        _sum("resident_bytes", now, tags),
        times.get(f"{which}_unchanged_bytes", 0),
    )


def _with_own_memory(error: OutOfMemory) -> OutOfMemory:
    """The error of a resume that lacks memory, with what PyTorch has on the GPUs in this process."""
    own, now = {}, status()
    for device, reserved in torch_cache.reserved_bytes().items():
        others = _sum("released_bytes", now, ("nccl", "symmetric"), device)
        own[device] = reserved - _sum("released_bytes", now, (), device) + others
    held = ", ".join(f"{size >> 20} MiB on device {device}" for device, size in own.items() if size > 0)
    if held:
        error.args = (f"{error}; PyTorch holds {held} in this process",)
    return error


def _meet(group: Any, when: str, failed: bool = False) -> int:
    """Returns how many ranks of the group have failed, when all have called it. Without NCCL, whose call needs the memory."""
    try:
        import torch
        import torch.distributed

        if torch.distributed.get_rank(group) < 0:
            raise ValueError("this rank is not in it")
        count = torch.tensor([int(failed)], device="cpu")
        torch.distributed.all_reduce(count, group=group)
        return int(count[0])
    except (ImportError, RuntimeError, TypeError, ValueError) as error:
        raise AmemError(
            f"the ranks of the process group did not meet {when}: {error}. All of its ranks must call, and it needs Gloo: "
            'torch.distributed.new_group(backend="gloo")'
        ) from error


def _pause_together(tags: Tuple[str, ...], group: Any, timeout: Optional[float]) -> Report:
    _meet(group, "before the pause")
    try:
        report = pause(*tags, timeout=timeout)
    except BaseException:
        with contextlib.suppress(AmemError):  # the first error says more
            _meet(group, "after the pause", failed=True)
        raise
    failed = _meet(group, "after the pause, which has succeeded on this rank")
    if failed:
        raise AmemError(f"{failed} of the group's ranks could not pause; this rank has paused")
    return report


def _with_memory(status: Dict[str, Any], tags: Collection[str]) -> List[str]:
    return [tag for tag in status.get("tags", {}) if not tags or tag in tags]


def pause(*tags: str, group: Any = None, timeout: Optional[float] = None) -> Report:
    """Releases memory that has one of these tags; without tags, memory of all tags, including NCCL's. Returns when it
    has left the GPUs.

    "nccl" is the memory of NCCL; other tags are those of region() and amemMalloc(). Contents are kept on the
    host, unless the memory was allocated to be discarded. When all tags are paused, the local memory of the CUDA
    contexts is returned too.

    Local: no other rank has to call anything. With `group`, a process group of torch.distributed with Gloo (not that of
    set_group()), it is a collective call of the group's ranks: none pauses before all have called, so that no rank still waits
    in NCCL for one that has paused. It returns when all have paused, and raises AmemError on every rank if one has failed or
    the ranks do not meet within the group's timeout; ranks that have paused stay paused.

    Waits for work in flight, other processes and disks, at most AMEM_TIMEOUT_MS, or `timeout` seconds if it is not None.
    Ignores tags that are paused or were never used. After pause("nccl") NCCL's calls are refused until the resume, even if
    NCCL has no memory; after resume_on_call() they resume it. Raises AmemError if it was refused or failed; nothing is lost
    then, and the message says what to do.
    """
    if group is not None:
        return _pause_together(tags, group, timeout)
    selection, before = _joined(tags), status()
    with remaking.pausing(_with_memory(before, tags)), torch_cache.unused_ranges(tags):
        call("amemPauseWithTimeout", selection, _milliseconds(timeout))
    return _report(tags, before, "pause")


def _empty_cache_for(now: Dict[str, Any], tags: Tuple[str, ...], leaving: Tuple[str, ...] = ()) -> None:
    """Before a resume that may wait for other processes: PyTorch's cache of this one gives way first."""
    for device, reserved in torch_cache.reserved_bytes().items():
        wanted = _sum("released_bytes", now, tags, device) - (_sum("resident_bytes", now, leaving, device) if leaving else 0)
        if reserved > 0 and wanted > 0 and torch_cache.free_bytes(device) < wanted:
            torch_cache.empty_cache()
            return


def resume(*tags: str, timeout: Optional[float] = None, wait: Optional[float] = None) -> Report:
    """Restores the memory with these tags, or all memory without tags, at its addresses with its contents. Calls the functions
    of on_resume().

    Ignores tags that are not paused. Raises AmemError if it failed, for example if another process uses the
    GPU's memory; the tags stay paused then, and the call can be repeated. Waits at most AMEM_TIMEOUT_MS, or `timeout` seconds
    if it is not None. A call that misses this deadline keeps what it has restored, and the next call goes on from there, unless
    it has to wait for another process first.

    While a GPU lacks memory, waits `wait` seconds more, from 0 to 86400, for memory that other processes or other tags of
    this one release; None: AMEM_RESUME_WAIT_MS. It holds nothing until all fits, or will fit after the pauses that release
    memory now; then one job leaves while another comes. Processes that wait do so in turn (amemResumeWait() in amem.h). When
    the wait ends, raises OutOfMemory, with who holds the memory, and holds nothing. Other threads can pause and resume other
    tags meanwhile. Python's handlers of signals, such as that of Ctrl-C, run after the wait.
    """
    selection, before, timeout_ms, wait_ms = _joined(tags), status(), _milliseconds(timeout), _milliseconds(wait, "wait", 0)
    _empty_cache_for(before, tags)
    remaking.note_paused()
    for is_last in (False, True):
        try:
            if wait is None and not is_last:
                call("amemResumeWithTimeout", selection, timeout_ms)
            else:  # once for the whole wait
                call("amemResumeWait", selection, 0 if is_last else wait_ms, timeout_ms)
            break
        except OutOfMemory as error:
            if is_last or not torch_cache.empty_cache():
                raise _with_own_memory(error) from None
    remaking.remake(tags)
    return _report(tags, before, "resume")


def switch(
    *, pause: Sequence[str], resume: Sequence[str], wait: float = 0, timeout: Optional[float] = None
) -> Tuple[Report, Report]:
    """Pauses tags and resumes other tags at the same time, and returns the reports of both.

    Memory that leaves makes room for memory that comes, and copies run in both directions of the bus: model A leaves while
    model B comes, on a GPU that has no room for both. `wait` is how long the resume waits for memory after the pause has
    begun, in seconds: 0 if there is room for both. If the pause fails, the resume stops waiting, and the error is that of the
    pause; if the resume fails, the paused tags stay paused. `timeout` is that of each. The local memory of contexts stays.
    Calls the functions of on_resume() for the tags that it resumes.
    """
    for tags in (pause, resume):
        if isinstance(tags, str) or not isinstance(tags, (list, tuple, set, frozenset)):
            raise AmemTypeError(f"a switch needs a list of tags to pause and a list of tags to resume, not {shown(tags)}")
    out, into = tuple(pause), tuple(resume)
    selections = _joined(out), _joined(into)
    if not out or not into or not set(out).isdisjoint(into):
        raise AmemValueError(f"a switch needs tags to pause and other tags to resume, not {out} and {into}")
    before = status()
    wait_ms, timeout_ms = _milliseconds(wait, "wait", 0), _milliseconds(timeout)
    _empty_cache_for(before, into, leaving=out)
    remaking.note_paused()
    with remaking.pausing(_with_memory(before, out), into), torch_cache.unused_ranges(out):
        try:
            call("amemSwitch", selections[0], selections[1], wait_ms, timeout_ms)
        except OutOfMemory as error:
            raise _with_own_memory(error) from None
    remaking.remake(into)
    return _report(out, before, "pause"), _report(into, before, "resume")


@contextlib.contextmanager
def paused(*tags: str, timeout: Optional[float] = None) -> Iterator[None]:
    """`with amem.paused():` pauses for the length of the block and resumes however it ends. `timeout` is that of both."""
    try:  # also if a signal, such as Ctrl-C, ends the call after the pause
        pause(*tags, timeout=timeout)
        yield
    finally:
        resume(*tags, timeout=timeout)


def resume_on_call(enable: bool = True) -> None:
    """From now on, an NCCL call of this process that needs NCCL's memory while it is paused resumes it first.

    So does a call of another process that waits for this one, such as a late receiver's of a broadcast. Otherwise, and after
    resume_on_call(False), calls of this process fail, and calls of other processes wait. The launch of a CUDA graph with NCCL
    work is such a call.
    Other tags stay paused: such a call must not use their memory. AMEM_RESUME_ON_CALL=1 is the same from outside. Raises
    AmemError if amem is off.
    """
    call("amemResumeOnCall", Int(enable))


def set_group(group: int) -> None:
    """The logical group of this process (train, infer), 0 or greater.

    Shown in statistics and errors. Only before NCCL's first allocation; AmemError after it.
    AMEM_GROUP sets it from outside.
    """
    if isinstance(group, int) and -(1 << 31) <= group < 0:
        raise AmemValueError(f"a group is 0 or greater, not {group}")
    call("ncclSetGroupID", Int(group))


def state(tag: str = "nccl") -> State:
    """Of a tag: one of "active", "pausing", "paused", "resuming" and "off". A tag without memory is active.

    Off: amem is not in this process, AMEM_ENABLE is 0, or there is no CUDA driver.
    """
    return state_of(encoded(tag))


def enabled() -> bool:
    """True when pause() can work: amem is in this process and not off. Never raises."""
    return state() != "off"


def prepare_host_memory(size_bytes: int) -> None:
    """Pins host memory for this many bytes of contents, so that the first pause is faster.

    Returns at once; the memory is pinned in the background near the current CUDA device. Raises AmemError if amem is
    off or no device is in use yet.
    """
    if isinstance(size_bytes, int) and not 0 <= size_bytes <= 1 << 50:
        raise AmemValueError(f"the size is {size_bytes} bytes, not 0 to 2**50")
    call("amemPrepareHostMemory", size_bytes)


def trim_host_memory() -> int:
    """Gives back the pinned host memory that a pause has made, which is kept for the next one.

    Returns how many bytes it was. Memory with contents of paused tags stays; what another process has pinned stays
    allocated until that process returns it too. Raises AmemError if all of
    it has contents, or during a pause or resume.
    """
    size = ctypes.c_uint64(0)
    call("amemTrimHostMemory", ctypes.byref(size))
    return size.value
