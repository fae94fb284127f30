# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Two ranks under `amem run`, with minccl on the simulated GPU: what a user's job does."""

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import TIMEOUT_S, Build

JOB = Path(__file__).with_name("rank_job.py")


class RankProcess:
    """One rank; every answer is waited for with a deadline."""

    def __init__(self, build: Build, rank: int, *arguments: Any) -> None:
        command = [build.command, "run", "--log", "2", "--"]
        self.child = subprocess.Popen(
            [*map(str, command), sys.executable, str(JOB), str(rank), *arguments],
            env=build.variables(MINCCL_TIMEOUT_MS=str(500 * TIMEOUT_S), NCCL_DEBUG="WARN"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.unread = b""

    def send(self, step: str) -> None:
        self.child.stdin.write(f"{step}\n".encode())
        self.child.stdin.flush()

    def answer(self) -> Any:
        deadline = time.monotonic() + TIMEOUT_S
        while b"\n" not in self.unread:
            ready, _, _ = select.select([self.child.stdout.fileno()], [], [], max(0, deadline - time.monotonic()))
            assert ready, "no answer in time"
            read = os.read(self.child.stdout.fileno(), 65536)
            assert read, f"the rank ended with {self.child.wait(TIMEOUT_S)}"
            self.unread += read
        line, _, self.unread = self.unread.partition(b"\n")
        return json.loads(line)

    def ask(self, step: str) -> Any:
        self.send(step)
        return self.answer()

    def finish(self) -> int:
        """Ends the rank by the end of its input; returns its exit code."""
        self.child.stdin.close()
        return self.child.wait(TIMEOUT_S)

    def close(self) -> None:
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait(TIMEOUT_S)
        self.child.stdin.close()
        self.child.stdout.close()


@pytest.fixture
def ranks(build: Build) -> Iterator[tuple[RankProcess, ...]]:
    with contextlib.ExitStack() as stack:
        first = RankProcess(build, 0, "2")
        stack.callback(first.close)
        second = RankProcess(build, 1, "2", first.answer())
        stack.callback(second.close)
        assert [first.answer(), second.answer()] == ["ready", "ready"]
        yield first, second


def reduce_on_all(ranks: tuple[RankProcess, ...]) -> list[Any]:
    for rank in ranks:
        rank.send("reduce")
    return [rank.answer() for rank in ranks]


def test_job_pauses_and_resumes(ranks: tuple[RankProcess, ...]) -> None:
    assert reduce_on_all(ranks) == [[3.0], [3.0]]
    before = [rank.ask("used") for rank in ranks]
    assert ranks[0].ask("stats")["devices"]["0"]["total"]["resident_bytes"] > 0

    for rank in ranks:
        assert rank.ask("pause")
    paused = [rank.ask("stats") for rank in ranks]
    assert [stats["state"] for stats in paused] == ["paused", "paused"]
    for rank, stats, used in zip(ranks, paused, before):
        assert stats["total"]["released_bytes"] > 0
        assert rank.ask("used") <= used - stats["total"]["released_bytes"]
        assert stats["imports"]["resident_bytes"] == 0

    for rank in ranks:
        assert rank.ask("resume")
    assert [rank.ask("used") for rank in ranks] == before
    assert reduce_on_all(ranks) == [[3.0], [3.0]]
    assert [rank.finish() for rank in ranks] == [0, 0]


def test_one_rank_pauses_alone(ranks: tuple[RankProcess, ...]) -> None:
    assert reduce_on_all(ranks) == [[3.0], [3.0]]
    used = ranks[0].ask("used")

    assert ranks[0].ask("pause")
    assert ranks[0].ask("used") < used
    assert ranks[1].ask("stats")["state"] == "active"
    assert ranks[0].ask("resume")

    assert reduce_on_all(ranks) == [[3.0], [3.0]]


def test_paused_rank_refuses_work_and_says_why(ranks: tuple[RankProcess, ...]) -> None:
    assert reduce_on_all(ranks) == [[3.0], [3.0]]
    assert ranks[0].ask("pause")

    refused = ranks[0].ask("reduce")

    assert "ncclAllReduce returned 5" in refused["error"]
    assert "paused" in refused["error"]


def test_the_command_sees_both_ranks(build: Build, ranks: tuple[RankProcess, ...]) -> None:
    assert reduce_on_all(ranks) == [[3.0], [3.0]]
    assert ranks[1].ask("pause")

    printed = subprocess.run([build.command, "status", "--json"], capture_output=True, timeout=TIMEOUT_S, check=True)

    seen = {row["pid"]: row for row in json.loads(printed.stdout)["processes"]}
    assert [seen[rank.child.pid]["state"] for rank in ranks] == ["active", "paused"]
    assert seen[ranks[0].child.pid]["resident_bytes"] > 0
    assert seen[ranks[1].child.pid]["released_bytes"] > 0


def test_group_cannot_be_set_once_nccl_has_allocated(ranks: tuple[RankProcess, ...]) -> None:
    refused = ranks[0].ask("set_group")

    assert refused["code"] == 5
    assert "AMEM_GROUP" in refused["error"]
