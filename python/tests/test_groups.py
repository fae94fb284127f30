# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""How ranks meet: no rank takes data of an exchange that another one has given up, and the next exchange works."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from conftest import TIMEOUT_S, Build

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOON_S, LONG_S = 0.2, 20


class Store:
    """The part of torch.distributed.Store that StoreGroup uses, for threads."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: bytes) -> None:
        with self._changed:
            self._values[key] = bytes(value)
            self._changed.notify_all()

    def get(self, key: str) -> bytes:
        self.wait([key], timedelta(seconds=LONG_S))
        return self._values[key]

    def add(self, key: str, amount: int) -> int:
        with self._changed:
            total = int(self._values.get(key, b"0")) + amount
            self._values[key] = b"%d" % total
            self._changed.notify_all()
            return total

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: all(key in self._values for key in keys), timeout.total_seconds()):
                raise RuntimeError(f"wait timeout after {timeout}, keys: {keys}")


@pytest.fixture(params=["store", "files"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A rank of a group, a new object for each call."""
    monkeypatch.setenv("AMEM_ENABLE", "0")
    from amem.groups import FileGroup, StoreGroup

    store = Store()

    def group(rank: int, size: int = 2, timeout_s: float = LONG_S) -> Any:
        if request.param == "store":
            return StoreGroup(store, rank, size, "a", timeout_s)
        return FileGroup(tmp_path, "a", rank, size, timeout_s)

    return group


def failure(group: Any, mine: bytes) -> str:
    from amem import AmemError

    with pytest.raises(AmemError) as raised:
        group.all_gather(mine)
    return str(raised.value)


def meet(groups: Any, prefix: bytes) -> list[Any]:
    """What each rank has, after all have called."""
    with ThreadPoolExecutor(len(groups)) as pool:
        calls = [pool.submit(group.all_gather, prefix + b"%d" % group.rank) for group in groups]
        return [call.result(LONG_S) for call in calls]


def all_have_met(groups: Any, prefix: bytes) -> bool:
    return meet(groups, prefix) == [[prefix + b"%d" % group.rank for group in groups]] * len(groups)


@pytest.mark.parametrize("early", [0, 1])
def test_late_rank_does_not_take_data_of_an_exchange_that_has_failed(make: Callable[..., Any], early: int) -> None:
    assert f"rank {1 - early} did not" in failure(make(early, timeout_s=SOON_S), b"stale")
    assert f"rank {early} did not" in failure(make(1 - early, timeout_s=SOON_S), b"late")
    for prefix in (b"next", b"after"):
        assert all_have_met([make(rank) for rank in range(2)], prefix)


@pytest.mark.parametrize("early", [0, 1])
def test_late_rank_joins_the_next_call(make: Callable[..., Any], early: int) -> None:
    """With fresh data of the rank that gave up. The same objects go on."""
    groups = [make(rank, timeout_s=SOON_S if rank == early else LONG_S) for rank in range(2)]
    failure(groups[early], b"stale")
    groups[early]._timeout_s = LONG_S
    assert all_have_met(groups, b"fresh")
    assert all_have_met(groups, b"again")


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_all_ranks_fail_and_name_the_one_that_is_missing(make: Callable[..., Any], missing: int) -> None:
    others = [rank for rank in range(3) if rank != missing]
    with ThreadPoolExecutor(2) as pool:
        texts = list(pool.map(lambda rank: failure(make(rank, 3, SOON_S), b"stale"), others))
    assert all(f"rank {missing} did not" in text for text in texts), texts
    assert f"rank {0 if missing else 1} did not" in failure(make(missing, 3, SOON_S), b"late")
    assert all_have_met([make(rank, 3) for rank in range(3)], b"next")


def test_rank_0_that_was_interrupted_does_not_leave_its_data(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted = make(0)
    monkeypatch.setattr(interrupted, "_await", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        interrupted.all_gather(b"stale")
    late, came = make(1), threading.Event()
    put = late._put

    def put_and_tell(*data: Any) -> bool:
        done = put(*data)
        came.set()
        return bool(done)

    monkeypatch.setattr(late, "_put", put_and_tell)
    with ThreadPoolExecutor(1) as pool:
        failed = pool.submit(failure, late, b"late")
        assert came.wait(LONG_S)  # in the exchange that rank 0 has left
        assert "rank 1 did not" in failure(make(0, timeout_s=SOON_S), b"lonely")
        assert failed.result(LONG_S) == "rank 0 has left the exchange"
    assert all_have_met([make(rank) for rank in range(2)], b"next")


def test_ranks_of_many_exchanges_stay_together(make: Callable[..., Any]) -> None:
    """Whoever comes first, and however often a rank gives up."""
    from amem import AmemError

    end = time.monotonic() + LONG_S

    def rank_of(number: int) -> list[Any]:
        got, group = [], make(number, 3)
        for turn in range(60):
            group._timeout_s = 0.001 if turn % 10 == number else LONG_S
            while time.monotonic() < end:
                try:
                    got.append(group.all_gather(b"%d.%d" % (turn, number)))
                    break
                except AmemError:
                    group._timeout_s = LONG_S
        return got

    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(rank_of, range(3)))
    assert results[0] == results[1] == results[2] == [[b"%d.%d" % (turn, rank) for rank in range(3)] for turn in range(60)]


PROCESS = """
import sys
from amem.groups import FileGroup
rank = int(sys.argv[2])
for turn in range(20):  # as each rendezvous, with a new object
    got = FileGroup(sys.argv[1], "a", rank, 3, 60).all_gather(b"%d.%d" % (turn, rank))
    assert got == [b"%d.%d" % (turn, each) for each in range(3)], got
"""


def test_processes_meet_through_files(build: Build, tmp_path: Path) -> None:
    variables = build.variables(AMEM_ENABLE="0")
    begin = time.monotonic()
    ranks = [subprocess.Popen([sys.executable, "-c", PROCESS, str(tmp_path), str(rank)], env=variables) for rank in range(3)]
    assert [rank.wait(TIMEOUT_S) for rank in ranks] == [0, 0, 0]
    assert time.monotonic() - begin < 60
