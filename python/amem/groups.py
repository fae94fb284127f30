# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""How the ranks of a group meet, for amem.symmetric.

A group has `rank`, `world_size`, `name` and `all_gather(mine: bytes) -> list of bytes`, by rank.
"""

import abc
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, List, Protocol, Union

from .errors import AmemError, AmemTypeError, AmemValueError, shown

_LIMIT, _OUTCOME = "limit", "outcome"


class Group(Protocol):
    """What amem.symmetric needs of a group."""

    rank: int
    world_size: int
    name: str

    def all_gather(self, mine: bytes) -> List[bytes]: ...


class _Rounds(abc.ABC):
    """Exchanges in numbered rounds. Rank 0 begins a round and decides its outcome, once for all ranks: "" when all have come, or
    why it has failed. The others give their data to a round that has begun, and wait for its outcome as long as rank 0 does.
    So no rank takes data of a round that another one has given up.

    Files or keys: NUMBER.RANK, the data of a rank; NUMBER.limit, the timeout of rank 0; NUMBER.outcome. _number() is the first
    round without an outcome.
    """

    def __init__(self, rank: int, world_size: int, name: str, timeout_s: float) -> None:
        if not 0 < timeout_s <= 86400:
            raise AmemValueError(f"the timeout is {shown(timeout_s)}, not a number of seconds from 0 to 86400")
        self.rank, self.world_size, self.name = rank, world_size, name
        self._timeout_s = timeout_s

    @abc.abstractmethod
    def _number(self) -> int: ...

    @abc.abstractmethod
    def _put(self, number: int, what: Union[int, str], data: bytes) -> bool: ...

    @abc.abstractmethod
    def _get(self, number: int, what: Union[int, str]) -> bytes: ...

    @abc.abstractmethod
    def _await(self, number: int, what: Union[int, str], end: float) -> bool: ...

    @abc.abstractmethod
    def _end(self, number: int, outcome: str) -> None: ...

    def all_gather(self, mine: bytes) -> List[bytes]:
        if not isinstance(mine, bytes):
            raise AmemTypeError(f"ranks exchange bytes, not {shown(mine)}")
        try:
            return self._gather(mine)
        except OSError as error:
            raise AmemError(f"the ranks of group {self.name} cannot meet: {error}") from error

    def _gather(self, mine: bytes) -> List[bytes]:
        end = time.monotonic() + self._timeout_s
        number = self._lead(mine, end) if self.rank == 0 else self._follow(mine, end)
        outcome = self._get(number, _OUTCOME).decode()
        if outcome:
            raise AmemError(outcome)
        return [self._get(number, rank) for rank in range(self.world_size)]

    def _lead(self, mine: bytes, end: float) -> int:
        while not self._put(number := self._number(), 0, mine):
            self._end(number, "rank 0 has left the exchange")  # an earlier call of rank 0 that was interrupted
        self._put(number, _LIMIT, str(self._timeout_s).encode())
        missing = next((rank for rank in range(1, self.world_size) if not self._await(number, rank, end)), 0)
        self._end(number, self._absence(number, missing) if missing else "")
        return number

    def _follow(self, mine: bytes, end: float) -> int:
        number = self._number()
        if not self._await(number, _LIMIT, end):
            raise AmemError(self._absence(number, 0))
        if not self._put(number, self.rank, mine):
            raise AmemError(
                f"rank {self.rank} of group {self.name} is in this exchange already: an earlier call was interrupted, or "
                "two ranks have the same number"
            )
        # Until rank 0 has decided, the data cannot be taken back.
        end = time.monotonic() + float(self._get(number, _LIMIT)) + self._timeout_s
        if not self._await(number, _OUTCOME, end):
            raise AmemError(f"rank 0 of group {self.name} has not finished the exchange within its timeout")
        return number

    def _absence(self, number: int, rank: int) -> str:
        return f"rank {rank} did not come to the rendezvous of group {self.name} within {self._timeout_s} s"


class StoreGroup(_Rounds):
    """Ranks that meet over a torch.distributed Store, such as a TCPStore."""

    def __init__(self, store: Any, rank: int, world_size: int, name: str = "amem", timeout_s: float = 300) -> None:
        super().__init__(rank, world_size, name, timeout_s)
        self._store, self._key = store, f"amem/{name}"

    def _number(self) -> int:
        return int(self._store.add(self._key, 0))

    def _put(self, number: int, what: Union[int, str], data: bytes) -> bool:
        if self._store.add(f"{self._key}/{number}/{what}/count", 1) > 1:
            return False
        self._store.set(f"{self._key}/{number}/{what}", data)
        return True

    def _get(self, number: int, what: Union[int, str]) -> bytes:
        return bytes(self._store.get(f"{self._key}/{number}/{what}"))

    def _await(self, number: int, what: Union[int, str], end: float) -> bool:
        left = max(end - time.monotonic(), 0.001)  # a Store takes 0 for no limit
        try:
            self._store.wait([f"{self._key}/{number}/{what}"], timedelta(seconds=left))
        except RuntimeError:
            return False
        return True

    def _end(self, number: int, outcome: str) -> None:
        self._store.add(self._key, 1)  # before any rank can come to the next round
        self._store.set(f"{self._key}/{number}/{_OUTCOME}", outcome.encode())


class MpiGroup:
    """The ranks of a communicator of mpi4py."""

    def __init__(self, communicator: Any) -> None:
        self.rank, self.world_size = communicator.Get_rank(), communicator.Get_size()
        self.name = communicator.Get_name() or "mpi"
        self._communicator = communicator

    def all_gather(self, mine: bytes) -> List[bytes]:
        return list(self._communicator.allgather(mine))


class FileGroup(_Rounds):
    """Ranks that meet through files of a folder that all of them can write. A name is used once in a folder."""

    def __init__(self, folder: Union[str, Path], name: str, rank: int, world_size: int, timeout_s: float = 60) -> None:
        super().__init__(rank, world_size, name, timeout_s)
        if not isinstance(folder, (str, Path)):
            raise AmemTypeError(f"the folder of a group is a path, not {shown(folder)}")
        if not name or "/" in name or "\0" in name:
            raise AmemValueError(f"the name of a group is part of a file name, unlike {shown(name)}")
        self._folder, self._first = Path(folder), 0

    def _path(self, number: int, what: Union[int, str]) -> Path:
        return self._folder / f"{self.name}.{number}.{what}"

    def _number(self) -> int:
        while self._path(self._first, _OUTCOME).exists():
            self._first += 1
        return self._first

    def _put(self, number: int, what: Union[int, str], data: bytes) -> bool:
        """Complete from the moment at which it has its name."""
        path = self._path(number, what)
        draft = path.with_name(path.name + ".draft")
        try:
            draft.write_bytes(data)
            os.link(draft, path)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        return True

    def _get(self, number: int, what: Union[int, str]) -> bytes:
        return self._path(number, what).read_bytes()

    def _await(self, number: int, what: Union[int, str], end: float) -> bool:
        while not self._path(number, what).exists():
            if time.monotonic() > end:
                return False
            time.sleep(0.001)
        return True

    def _end(self, number: int, outcome: str) -> None:
        self._put(number, _OUTCOME, outcome.encode())

    def _absence(self, number: int, rank: int) -> str:
        return f"rank {rank} did not write {self._path(number, rank)} within {self._timeout_s} s"


def of_torch(group: Any) -> StoreGroup:
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
