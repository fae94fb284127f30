# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""How the ranks of a group meet, for amem.symmetric.

A group has `rank`, `world_size`, `name` and `all_gather(mine: bytes) -> list of bytes`, by rank.
"""

import os
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Dict, List

from .errors import AmemError

_rounds: Dict[str, int] = {}
_mutex = threading.Lock()


def _next_round(name: str) -> int:
    """0, 1, ... for each name of this process."""
    with _mutex:
        _rounds[name] = _rounds.get(name, -1) + 1
        return _rounds[name]


class StoreGroup:
    """Ranks that meet over a torch.distributed Store, such as a TCPStore."""

    def __init__(self, store, rank: int, world_size: int, name: str = "amem", timeout_s: float = 300):
        self.rank, self.world_size, self.name = rank, world_size, name
        self._store, self._timeout = store, timedelta(seconds=timeout_s)

    def all_gather(self, mine: bytes) -> List[bytes]:
        prefix = f"amem/{self.name}/{_next_round(self.name)}"
        self._store.set(f"{prefix}/{self.rank}", mine)
        gathered = []
        for rank in range(self.world_size):
            key = f"{prefix}/{rank}"
            try:
                self._store.wait([key], self._timeout)
            except RuntimeError as error:
                raise AmemError(f"rank {rank} did not come to the rendezvous of group {self.name}: {error}") from error
            gathered.append(bytes(self._store.get(key)))
        return gathered


class MpiGroup:
    """The ranks of a communicator of mpi4py."""

    def __init__(self, communicator):
        self.rank, self.world_size = communicator.Get_rank(), communicator.Get_size()
        self.name = communicator.Get_name() or "mpi"
        self._communicator = communicator

    def all_gather(self, mine: bytes) -> List[bytes]:
        return self._communicator.allgather(mine)


class FileGroup:
    """Ranks that meet through files of a folder that all of them can write. A name is used once in a folder."""

    def __init__(self, folder, name: str, rank: int, world_size: int, timeout_s: float = 60):
        self.rank, self.world_size, self.name = rank, world_size, name
        self._folder, self._timeout_s, self._round = Path(folder), timeout_s, 0

    def _path(self, rank: int) -> Path:
        return self._folder / f"{self.name}.{self._round}.{rank}"

    def all_gather(self, mine: bytes) -> List[bytes]:
        own = self._path(self.rank)
        draft = own.with_name(own.name + ".draft")
        draft.write_bytes(mine)
        try:
            os.link(draft, own)
        except FileExistsError:
            raise AmemError(f"{own} exists: the name of a group is used once") from None
        finally:
            draft.unlink()
        end = time.monotonic() + self._timeout_s
        gathered = []
        for rank in range(self.world_size):
            while not self._path(rank).exists():
                if time.monotonic() > end:
                    raise AmemError(f"rank {rank} did not write {self._path(rank)} within {self._timeout_s} s")
                time.sleep(0.001)
            gathered.append(self._path(rank).read_bytes())
        self._round += 1
        return gathered


def of_torch(group):
    """The same for a ProcessGroup of torch.distributed, its name, or None for all ranks."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    if not dist.is_initialized():
        raise AmemError("torch.distributed has no process group: call init_process_group(), or pass a group of amem.groups")
    if isinstance(group, str):
        group = distributed_c10d._resolve_process_group(group)
    group = dist.group.WORLD if group is None else group
    store = distributed_c10d._get_process_group_store(group)
    return StoreGroup(store, dist.get_rank(group), dist.get_world_size(group), group.group_name)
