# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Which calls amem catches in this process, for diagnosis."""

import json
from typing import Dict, List, TypedDict

from .library import require_library


class NcclLibrary(TypedDict):
    """One NCCL library of this process."""

    path: str
    refusal: str  # why the process cannot pause because of this library; "" when it can
    calls: Dict[str, int]  # how often each of its functions was called through amem, where it was


class Slots(TypedDict):
    """The relocation slots of one symbol in one other library that lead to amem."""

    path: str  # "" is the program itself
    symbol: str
    count: int


class Interposition(TypedDict):
    """What interposition() returns."""

    nccl: List[NcclLibrary]
    slots: List[Slots]


def interposition() -> Interposition:
    """Which calls amem catches in this process; raises AmemError when amem is not in it.

    nccl: the NCCL libraries whose calls are caught, with the number of calls of each function;
    slots: the relocation slots of other libraries that lead to amem.

    Both are empty until amem is enabled and in a forked child, and `nccl` until an NCCL library is loaded.
    """
    found: Interposition = json.loads(require_library().amemGetInterposition().decode("utf-8", "replace"))
    return found
