# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What amem manages in this process, as data."""

import json
import os
from typing import Any, Dict, Iterable, List, Literal, Mapping, Tuple, TypedDict, Union, cast

from .library import State, require_library, state_of

Kind = Literal["keep", "discard", "persistent", "disk", "zero", "retain"]  # amemKind_t


class _Sizes(TypedDict):
    """Sums over allocations, in bytes."""

    allocated_bytes: int
    resident_bytes: int
    released_bytes: int
    saved_bytes: int
    fixed_bytes: int
    disk_bytes: int


class MemoryTotals(_Sizes):
    """The same, and their number."""

    objects: int


class TagTotals(_Sizes):
    """The same of a tag, and its state."""

    state: State


class DriverTotals(TypedDict):
    """What the driver has: own and imported objects, and bytes of the own ones."""

    own: int
    own_bytes: int
    imported: int


class OperationTimes(TypedDict):
    """The last completed pause and resume."""

    pause_ms: float
    pause_wait_ms: float
    pause_peers_ms: float
    pause_copy_ms: float
    pause_memory_ms: float
    resume_ms: float
    resume_memory_ms: float
    resume_copy_ms: float
    resume_peers_ms: float
    pause_copied_bytes: int
    resume_copied_bytes: int
    host_capacity_bytes: int
    pause_context_bytes: int
    pause_unchanged_bytes: int


class Stats(TypedDict):
    """What stats() returns."""

    pid: int
    group: int
    group_name: str
    state: State
    version: str
    total: MemoryTotals
    devices: Dict[int, Dict[Union[Literal["total"], Kind], MemoryTotals]]
    tags: Dict[str, TagTotals]
    persistent: Dict[str, int]
    context_bytes: int
    imports: MemoryTotals
    driver_objects: DriverTotals
    times: OperationTimes


def status() -> Dict[str, Any]:
    """amemGetStatus(), which has nothing while amem is off."""
    found: Dict[str, Any] = json.loads(require_library().amemGetStatus())
    return found


def _sum(rows: Iterable[Mapping[str, Any]]) -> MemoryTotals:
    rows = list(rows)
    return cast(MemoryTotals, {name: sum(row[name] for row in rows) for name in MemoryTotals.__annotations__})


def _by(field: str, rows: List[Any]) -> List[Tuple[Any, List[Any]]]:
    values = sorted({row[field] for row in rows})
    return [(value, [row for row in rows if row[field] == value]) for value in values]


def stats() -> Stats:
    """What amem manages in this process; raises AmemError when amem is not in it.

    pid, group, group_name, state, version;
    total: sums of this process' allocations (objects, and in bytes: allocated, resident, released,
        saved on the host, fixed: never released, disk: saved in files);
    devices: {ordinal: {"total": sums, and by kind, where there are any: "keep", "discard",
        "persistent", "disk", "zero", "retain": sums}};
    tags: {tag: state and sums in bytes};
    persistent: {reason: bytes of memory that is never released for this reason};
    context_bytes: local memory of CUDA contexts that is returned now;
    imports: sums of other processes' allocations that are mapped here;
    driver_objects: what the driver has of it: own and imported objects, bytes of the own ones;
    times: the last completed pause and resume, in milliseconds and bytes.
    """
    now = status()
    own = now.get("own", [])
    return {
        "pid": os.getpid(),
        "group": now.get("group", 0),
        "group_name": now.get("group_name", ""),
        "state": state_of(b"nccl"),
        "version": require_library().amemGetVersion().decode(),
        "total": _sum(own),
        "devices": {
            device: {"total": _sum(rows), **{kind: _sum(of_kind) for kind, of_kind in _by("kind", rows)}}
            for device, rows in _by("device", own)
        },
        "tags": now.get("tags", {}),
        "persistent": now.get("persistent", {}),
        "context_bytes": now.get("context_bytes", 0),
        "imports": now.get("imports", _sum([])),
        "driver_objects": now.get("driver", dict.fromkeys(DriverTotals.__annotations__, 0)),
        "times": now.get("times", dict.fromkeys(OperationTimes.__annotations__, 0)),
    }
