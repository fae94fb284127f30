# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem status, against live processes."""

import contextlib
import json
import os
import signal
import subprocess
import time

import pytest
from conftest import TIMEOUT_S

MIB = 1 << 20
REPLY = {
    "pid": 1,  # the kernel knows better
    "group": 2,
    "state": "paused",
    "resident_bytes": 3 * MIB // 2,
    "released_bytes": 5 << 30,
    "saved_bytes": 512,
    "imported_bytes": 0,
}


@pytest.fixture
def start(amem):
    """Starts a process that answers with this text, or never."""
    with contextlib.ExitStack() as stack:

        def start_one(*reply):
            child = subprocess.Popen(
                [amem.folder / "tests" / "cli_status_peer", *reply],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(end, child)
            assert child.stdout.readline() == "ready\n"
            return child

        yield start_one


def end(child):
    child.send_signal(signal.SIGCONT)
    child.stdin.close()
    child.wait(TIMEOUT_S)
    child.stdout.close()


def rows(amem, *pids):
    """The lines of the table that are about these processes: others of this user may be there too."""
    done = amem("status")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    return [line for line in lines if set(map(str, pids)) & set(line.split())]


def listed(amem, *pids):
    done = amem("status", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    return [[row for row in found[name] if row["pid"] in pids] for name in ("processes", "silent")]


def test_shows_a_live_process(amem, start):
    child = start(json.dumps(REPLY))

    (row,) = rows(amem, child.pid)
    assert row.split() == [str(child.pid), "2", "paused", "1.5", "MiB", "5.0", "GiB", "512", "B", "0", "B"]
    assert listed(amem, child.pid) == [[{**REPLY, "pid": child.pid}], []]


def test_process_that_ended_is_gone(amem, start):
    child = start(json.dumps(REPLY))
    end(child)

    assert rows(amem, child.pid) == []


def test_several_processes_come_by_pid(amem, start):
    children = [start(json.dumps({**REPLY, "group": group})) for group in range(3)]
    pids = sorted(child.pid for child in children)

    assert [int(row.split()[0]) for row in rows(amem, *pids)] == pids


def test_mute_processes_are_named_and_cost_two_seconds_together(amem, start):
    mute, stopped, alive = start(), start(json.dumps(REPLY)), start(json.dumps(REPLY))
    os.kill(stopped.pid, signal.SIGSTOP)
    began = time.monotonic()

    answered, silent = listed(amem, mute.pid, stopped.pid, alive.pid)

    assert time.monotonic() - began < 15
    assert [row["pid"] for row in answered] == [alive.pid]
    assert sorted(row["pid"] for row in silent) == sorted([mute.pid, stopped.pid])
    assert all(row["reason"] for row in silent)
    (line,) = [row for row in rows(amem, mute.pid, stopped.pid) if f"pid {mute.pid} " in row]
    assert "did not answer" in line


@pytest.mark.parametrize("reply", ["", "no json", "[1]", '{"state": 5}', '{"group": "x", "state": "paused"}'])
def test_reply_that_cannot_be_read_is_named(amem, start, reply):
    child = start(reply)

    answered, silent = listed(amem, child.pid)

    assert answered == []
    assert [row["pid"] for row in silent] == [child.pid]


def test_two_commands_at_once_do_not_see_each_other(amem, start):
    child = start(json.dumps(REPLY))
    commands = [
        subprocess.Popen([amem.command, "status", "--json"], stdout=subprocess.PIPE, text=True) for _ in range(8)
    ]

    outputs = [json.loads(command.communicate(timeout=TIMEOUT_S)[0]) for command in commands]

    own = {command.pid for command in commands}
    for found in outputs:
        assert child.pid in [row["pid"] for row in found["processes"]]
        assert not own & {row["pid"] for row in found["processes"] + found["silent"]}
