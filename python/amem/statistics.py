# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What amem manages in this process, as data."""

import ctypes
import json
import os
from typing import Any, Dict, Literal, TypedDict, Union

from .library import (
    KINDS,
    STATES,
    DriverObjects,
    DriverTotals,
    Kind,
    MemoryTotals,
    OperationTimes,
    State,
    Times,
    Totals,
    fields_of,
    require_library,
)

_ALL = -1
# More than a process can see; the search ends at the last device that has something.
_MAX_DEVICES = 64
_DeviceTotals = Dict[Union[Literal["total"], Kind], MemoryTotals]


class TagTotals(TypedDict):
    """The state of a tag, and sums in bytes."""

    state: State
    allocated_bytes: int
    resident_bytes: int
    released_bytes: int
    saved_bytes: int
    fixed_bytes: int
    disk_bytes: int


class Stats(TypedDict):
    """What stats() returns."""

    pid: int
    group: int
    group_name: str
    state: State
    version: str
    total: MemoryTotals
    devices: Dict[int, _DeviceTotals]
    tags: Dict[str, TagTotals]
    persistent: Dict[str, int]
    context_bytes: int
    imports: MemoryTotals
    driver_objects: DriverTotals
    times: OperationTimes


def _totals(library: ctypes.CDLL, device: int, kind: int) -> MemoryTotals:
    totals = Totals()
    library.amemGetTotals(device, kind, ctypes.byref(totals))  # all zero if it fails, as when amem is off
    values: MemoryTotals = fields_of(totals)
    return values


def _devices(library: ctypes.CDLL, objects: int) -> Dict[int, _DeviceTotals]:
    """The devices that hold NCCL memory of this process, which has `objects` allocations."""
    found: Dict[int, _DeviceTotals] = {}
    for device in range(_MAX_DEVICES):
        if objects <= 0:
            break
        total = _totals(library, device, _ALL)
        if total["objects"] == 0:
            continue
        objects -= total["objects"]
        kinds = {name: _totals(library, device, kind) for kind, name in enumerate(KINDS)}
        found[device] = {"total": total}
        found[device].update((name, part) for name, part in kinds.items() if part["objects"] > 0)
    return found


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

    The parts are read one after another: while NCCL allocates, they may be of different moments.
    """
    library = require_library()
    group = ctypes.c_int(0)
    state = STATES[library.amemGetState()]
    if state != "off":
        library.ncclGetGroupID(ctypes.byref(group))
    imports, objects, times = Totals(), DriverObjects(), Times()
    library.amemGetImports(ctypes.byref(imports))
    library.amemGetDriverObjects(ctypes.byref(objects))
    library.amemGetTimes(ctypes.byref(times))
    total = _totals(library, _ALL, _ALL)
    status: Dict[str, Any] = json.loads(library.amemGetStatus())
    return {
        "pid": os.getpid(),
        "group": group.value,
        "group_name": status.get("group_name", ""),
        "state": state,
        "version": library.amemGetVersion().decode(),
        "total": total,
        "devices": _devices(library, total["objects"]),
        "tags": status.get("tags", {}),
        "persistent": status.get("persistent", {}),
        "context_bytes": status.get("context_bytes", 0),
        "imports": fields_of(imports),
        "driver_objects": fields_of(objects),
        "times": fields_of(times),
    }
