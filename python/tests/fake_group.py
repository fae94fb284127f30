# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A stand-in for torch.distributed in programs of the tests."""

import sys
import types
from collections.abc import Callable
from typing import Any


def install(meet: Callable[..., Any]) -> Any:
    """`import torch.distributed` then finds it. `meet(count, group)`: an all-reduce of [number of ranks that failed]."""
    torch: Any = types.ModuleType("torch")
    distributed: Any = types.ModuleType("torch.distributed")
    sys.modules.update({"torch": torch, "torch.distributed": distributed})
    torch.tensor = lambda values, device: values
    torch.cuda = types.SimpleNamespace(is_initialized=lambda: False)
    torch.distributed = distributed
    distributed.group = types.SimpleNamespace(WORLD="all trainers")
    distributed.new_group = lambda backend: backend
    distributed.get_rank = lambda group: 0
    distributed.all_reduce = meet
    return distributed
