# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem_bench on simulated GPUs: its lines hold what they promise, and it fails when a pause does.

The clock is not looked at. What is held is what does not depend on the machine: bytes, objects and
driver calls.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

TIMEOUT_S = 110
CYCLES = 3
COMMUNICATORS = (1, 2)
LARGEST_BYTES = 8192
SMALL = ["--gpus", "2", "--communicators", "1,2", "--cycles", str(CYCLES), "--counts", "17,16384"]
SMALL += ["--largest", str(LARGEST_BYTES), "--rounds", "2", "--block-ms", "5"]


def run_bench(json_path, *options, **variables):
    program = Path(os.environ["AMEM_TEST_BUILD"]) / "bin" / "amem_bench"
    ours = ("AMEM_", "GMM_", "LD_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        [program, "--simulate", "--json", json_path, *options],
        env={**clean, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture(scope="module", name="bench")
def fixture_bench(tmp_path_factory):
    """(the finished program, its records)"""
    path = tmp_path_factory.mktemp("bench") / "bench.jsonl"
    done = run_bench(path, *SMALL)
    assert done.returncode == 0, done.stderr
    return done, [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def those(bench, figures, **wanted):
    found = [record for record in bench[1] if record["figures"] == figures]
    return [one for one in found if all(one[key] == value for key, value in wanted.items())]


def test_every_line_says_what_it_was_measured_on(bench):
    for record in bench[1]:
        assert (record["gpus"], record["gpu"], record["nccl"]) == (2, "simulated", "minccl")
        assert record["date"].startswith("20") and record["driver"] and record["processor"]


def test_a_pause_frees_what_nccl_allocated(bench):
    records = those(bench, "pause")
    assert [record["communicators"] for record in records] == list(COMMUNICATORS)
    for record in records:
        assert record["verified"] is True
        assert record["freed_of_held"] >= 0.99
        for freed, held in zip(record["freed_bytes"], record["driver_bytes"]):
            assert held > 0 and freed >= 0.99 * held


def test_a_pause_copies_no_more_than_it_frees(bench):
    for record in those(bench, "pause"):
        allocated = max(record["allocated_bytes"])
        assert 0 < record["pause_copied_bytes"] <= allocated
        assert record["resume_copied_bytes"] <= record["pause_copied_bytes"]
        assert record["host_bytes"] >= record["pause_copied_bytes"]


def test_driver_calls_follow_the_number_of_objects(bench):
    """The law: about six memory calls an object, own or imported, and cycle, and a copy each way for each
    piece that is kept, of which an allocation has at most one. Slabs: many allocations to an object."""
    for record in those(bench, "pause"):
        objects = 2 * (record["own_objects"] + record["imported_objects"])
        allocations = 2 * record["allocations"]
        assert record["own_objects"] <= record["allocations"] / 2
        for calls in ("pause_driver_calls", "resume_driver_calls"):
            assert len(record[calls]["values"]) == CYCLES - 1
        cycle = record["pause_driver_calls"]["max"] + record["resume_driver_calls"]["max"]
        assert 0 < cycle <= 6 * objects + 2 * allocations


def test_times_are_of_every_cycle(bench):
    for record in those(bench, "pause"):
        assert record["first_pause_s"] > 0 and record["first_resume_s"] > 0
        for steady in (record["steady_pause_s"], record["steady_resume_s"]):
            assert len(steady["values"]) == CYCLES - 1
            assert 0 < steady["min"] <= steady["median"] <= steady["max"]
        assert all(value >= 0 for value in record["phases"].values()) and len(record["phases"]) == 7


def test_memory_in_use_is_not_more_than_without_amem(bench):
    for communicators in COMMUNICATORS:
        (plain,) = those(bench, "setup", communicators=communicators, contender="plain")
        for contender in ("amem", "forwarding"):
            (record,) = those(bench, "setup", communicators=communicators, contender=contender)
            assert record["setup_s"]["median"] > 0
            assert 0 < max(record["memory_bytes"]) <= max(plain["memory_bytes"])


def test_rivals_are_measured_or_say_why_not(bench):
    for communicators in COMMUNICATORS:
        (recreate,) = those(bench, "rival", communicators=communicators, contender="recreate")
        (plain,) = those(bench, "setup", communicators=communicators, contender="plain")
        assert recreate["verified"] is True and recreate["steady_resume_s"]["median"] > 0
        assert recreate["freed_bytes"] == plain["memory_bytes"]
        (suspend,) = those(bench, "rival", communicators=communicators, contender="suspend")
        assert "not in this NCCL" in suspend["note"]


def test_bandwidth_is_compared_at_every_size(bench):
    (record,) = those(bench, "bandwidth")
    sizes = record["sizes"]
    assert [row["bytes"] for row in sizes] == [8, 32, 128, 512, 2048, LARGEST_BYTES]
    for row in sizes:
        assert row["plain"]["of_plain"]["median"] == 1
        for contender in ("amem", "forwarding"):
            assert row[contender]["of_plain"]["median"] > 0 and row[contender]["gb_per_s"] > 0
    least = min(row["amem"]["of_plain"]["median"] for row in sizes)
    assert record["amem_of_plain"]["min"] == least <= record["amem_of_plain"]["geometric_mean"]


def test_the_tables_are_on_standard_output(bench):
    done = bench[0]
    for words in ("Pause and resume with amem", "Rivals", "all_reduce", "checked"):
        assert words in done.stdout
    assert "setting up" in done.stderr and "setting up" not in done.stdout


def test_a_pause_that_fails_ends_it_with_1(tmp_path):
    options = ["--gpus", "2", "--communicators", "1", "--what", "pause", "--counts", "17"]
    done = run_bench(tmp_path / "b.jsonl", *options, AMEM_SIM_FAULT="cuMemUnmap:1..=999")
    assert done.returncode == 1
    assert "bench failed" in done.stderr and "pause" in done.stderr


def test_a_rival_that_is_not_there_is_refused_before_anything_runs(tmp_path):
    done = run_bench(tmp_path / "b.jsonl", AMEM_BENCH_NCCL="/no/libnccl.so.2")
    assert (done.returncode, done.stdout) == (1, "")
    assert "/no/libnccl.so.2" in done.stderr and "setting up" not in done.stderr
