# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem_bench on simulated GPUs: its lines hold what they promise, and it fails when a pause does.

The clock is not looked at. What is held is what does not depend on the machine: bytes, objects and
driver calls.
"""

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

Record = dict[str, Any]  # a line of the benchmark
Records = list[dict[str, Any]]  # lines of the benchmark
Bench = tuple[subprocess.CompletedProcess[str], Records]  # the program that has ended, and its lines

TIMEOUT_S = 110 * int(os.environ.get("AMEM_TEST_SLOWDOWN", "1"))  # the factor of tests/slowdown.h
CYCLES = 3
COMMUNICATORS = (1, 2)
LARGEST_BYTES = 8192
SMALL = ["--gpus", "2", "--communicators", "1,2", "--cycles", str(CYCLES), "--counts", "17,16384"]
SMALL += ["--largest", str(LARGEST_BYTES), "--rounds", "2", "--block-ms", "5"]
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv")
SIZES = [8, 32, 128, 512, 2048, LARGEST_BYTES]
PHASES = ("before", "pause", "away", "resume")


def run_bench(json_path: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    program = Path(os.environ["AMEM_TEST_BUILD"]) / "bin" / "amem_bench"
    ours = ("AMEM_", "GMM_", "LD_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    # The local memory of contexts grows with the first kernels, and is not NCCL's: figures are compared to the byte.
    clean["AMEM_SIM_LOCAL_MB"] = "0"
    return subprocess.run(
        [program, "--simulate", "--json", json_path, *options],
        env={**clean, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def read_lines(path: Path) -> Records:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module", name="lines")
def fixture_lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the lines of the fixture "bench" go."""
    return Path(tmp_path_factory.mktemp("bench"), "bench.jsonl")


@pytest.fixture(scope="module", name="bench")
def fixture_bench(lines: Path) -> Bench:
    """(the finished program, its records)"""
    done = run_bench(lines, *SMALL)
    assert done.returncode == 0, done.stderr
    return done, read_lines(lines)


def those(bench: Bench, figures: str, **wanted: Any) -> Records:
    found = [record for record in bench[1] if record["figures"] == figures]
    return [one for one in found if all(one[key] == value for key, value in wanted.items())]


def test_every_line_says_what_it_was_measured_on(bench: Bench) -> None:
    for record in bench[1]:
        nccl = "2.28.9" if record.get("contender") == "suspend" else "minccl"
        assert (record["gpus"], record["gpu"], record["nccl"]) == (2, "simulated", nccl)
        assert record["date"].startswith("20") and record["driver"] and record["processor"]


def test_a_pause_frees_what_nccl_allocated(bench: Bench) -> None:
    records = those(bench, "pause")
    assert [record["communicators"] for record in records] == list(COMMUNICATORS)
    for record in records:
        assert record["verified"] is True
        assert record["freed_of_held"] >= 0.99
        for freed, held in zip(record["freed_bytes"], record["driver_bytes"]):
            assert held > 0 and freed >= 0.99 * held


def test_a_pause_copies_a_tenth_of_what_it_frees_at_most(bench: Bench) -> None:
    """Most is zero, here too, where FIFOs are smaller and so headers a larger part."""
    for record in those(bench, "pause"):
        assert 0 < record["pause_copied_bytes"] <= max(record["allocated_bytes"]) / 10
        assert record["resume_copied_bytes"] == record["pause_copied_bytes"]
        assert record["host_bytes"] >= record["pause_copied_bytes"]


def test_driver_calls_follow_the_number_of_objects(bench: Bench) -> None:
    """The law: six calls an object, own or imported, and cycle, and a few for all together, however
    many allocations and copies there are."""
    for record in those(bench, "pause"):
        objects = 2 * (record["own_objects"] + record["imported_objects"])
        for calls in ("pause_driver_calls", "resume_driver_calls"):
            assert len(record[calls]["values"]) == CYCLES - 1
        cycle = record["pause_driver_calls"]["max"] + record["resume_driver_calls"]["max"]
        assert 0 < cycle <= 6 * objects + 16


def test_slabs_carry_a_further_communicator_with_two_objects_more(bench: Bench) -> None:
    one, two = those(bench, "pause")
    assert (one["communicators"], two["communicators"]) == (1, 2)
    assert two["allocations"] == 2 * one["allocations"] >= 2 * one["own_objects"]
    for objects in ("own_objects", "imported_objects"):
        assert one[objects] < two[objects] <= one[objects] + 2


def test_without_slabs_the_law_is_noticed_to_be_broken(lines: Path, bench: Bench) -> None:
    """As many objects as allocations, of the same job."""
    broken = lines.with_name("without_slabs.jsonl")
    done = run_bench(broken, *SMALL, "--what", "pause", AMEM_SLAB="0")
    assert done.returncode == 0, done.stderr
    records = (done, read_lines(broken))
    with pytest.raises(AssertionError):
        test_slabs_carry_a_further_communicator_with_two_objects_more(records)
    test_driver_calls_follow_the_number_of_objects(records)
    assert len(those(bench, "pause")) == len(those(records, "pause"))


def test_times_are_of_every_cycle(bench: Bench) -> None:
    for record in those(bench, "pause"):
        assert record["first_pause_s"] > 0 and record["first_resume_s"] > 0
        for steady in (record["steady_pause_s"], record["steady_resume_s"]):
            assert len(steady["values"]) == CYCLES - 1
            assert 0 < steady["min"] <= steady["median"] <= steady["max"]
        assert all(value >= 0 for value in record["phases"].values()) and len(record["phases"]) == 7


def test_memory_in_use_is_not_more_than_without_amem(bench: Bench) -> None:
    for communicators in COMMUNICATORS:
        (plain,) = those(bench, "setup", communicators=communicators, contender="plain")
        for contender in ("amem", "forwarding"):
            (record,) = those(bench, "setup", communicators=communicators, contender=contender)
            assert record["setup_s"]["median"] > 0
            assert 0 < max(record["memory_bytes"]) <= max(plain["memory_bytes"])


def test_rivals_are_measured(bench: Bench) -> None:
    for communicators in COMMUNICATORS:
        (recreate,) = those(bench, "rival", communicators=communicators, contender="recreate")
        (plain,) = those(bench, "setup", communicators=communicators, contender="plain")
        (suspend,) = those(bench, "rival", communicators=communicators, contender="suspend")
        for rival in (recreate, suspend):
            assert rival["verified"] is True and rival["steady_resume_s"]["median"] > 0
        assert recreate["freed_bytes"] == plain["memory_bytes"]
        for freed, of_all in zip(suspend["freed_bytes"], plain["memory_bytes"]):
            assert 0 < freed < of_all  # NCCL keeps what is not a buffer of a connection


def test_bandwidth_of_every_collective_is_compared_at_every_size(bench: Bench) -> None:
    records = those(bench, "bandwidth")
    assert [record["collective"] for record in records] == list(COLLECTIVES)
    for record in records:
        assert [row["bytes"] for row in record["sizes"]] == SIZES
        for row in record["sizes"]:
            assert row["plain"]["of_plain"]["median"] == 1
            for contender in ("amem", "forwarding"):
                assert row[contender]["of_plain"]["median"] > 0 and row[contender]["gb_per_s"] > 0
        least = min(row["amem"]["of_plain"]["median"] for row in record["sizes"])
        assert record["amem_of_plain"]["min"] == least <= record["amem_of_plain"]["geometric_mean"]


def test_calls_through_amem_and_past_it_are_compared(bench: Bench) -> None:
    (calls,) = those(bench, "calls")
    for measured in (calls["alone"], calls["grouped"]):
        for figure in ("direct_ns", "amem_ns"):
            spread = measured[figure]
            assert 0 < spread["lower_quartile"] <= spread["median"] <= spread["upper_quartile"]


def test_collectives_can_be_chosen(tmp_path: Path) -> None:
    options = ["--gpus", "2", "--what", "bandwidth", "--communicators", "1", "--collectives", "send_recv", "--largest", "8"]
    done = run_bench(tmp_path / "b.jsonl", *options, "--rounds", "1", "--block-ms", "1")
    assert done.returncode == 0, done.stderr
    assert [record["collective"] for record in read_lines(tmp_path / "b.jsonl")] == ["send_recv"]
    refused = run_bench(tmp_path / "c.jsonl", "--collectives", "ncclSend")
    assert refused.returncode != 0 and "ncclSend" in refused.stderr


def used_at(timeline: Any, at_s: float) -> Any:
    return [used_bytes for sample_s, used_bytes in timeline["samples"] if sample_s <= at_s][-1]


def assert_leaves_and_returns(timeline: Any, freed_bytes: int) -> None:
    """That at least so much is gone at the end of each stay away, and all is back after the next work."""
    events = timeline["events"]
    for i, event in enumerate(events):
        if event["name"] == "away":
            before = used_at(timeline, events[i - 1]["begin_s"])
            assert before - used_at(timeline, event["end_s"]) >= freed_bytes > 0
            assert used_at(timeline, events[i + 2]["end_s"]) == before


def test_every_contender_that_ran_has_a_timeline(bench: Bench) -> None:
    timelines = those(bench, "timeline")
    assert [one["contender"] for one in timelines] == ["amem", "recreate", "suspend"]
    for timeline in timelines:
        assert timeline["verified"] is True and timeline["communicators"] == max(COMMUNICATORS)


def test_the_events_of_a_timeline_follow_one_another(bench: Bench) -> None:
    for timeline in those(bench, "timeline"):
        events = timeline["events"]
        assert [one["name"] for one in events] == ["work", *("pause", "away", "resume", "work") * 2]
        times = [event[key] for event in events for key in ("begin_s", "end_s")]
        assert times[0] == 0 and times == sorted(times)


def test_samples_go_from_the_first_event_to_the_last(bench: Bench) -> None:
    for timeline in those(bench, "timeline"):
        times = [at_s for at_s, _ in timeline["samples"]]
        assert times == sorted(set(times))
        assert times[0] <= 0 and times[-1] >= timeline["events"][-1]["begin_s"]
        used = [used_bytes for _, used_bytes in timeline["samples"]]
        assert not any(one == two == three for one, two, three in zip(used, used[1:], used[2:]))


def test_memory_leaves_in_each_pause_of_a_timeline_and_returns(bench: Bench) -> None:
    amem, recreate, _ = those(bench, "timeline")
    (pause,) = those(bench, "pause", communicators=max(COMMUNICATORS))
    assert_leaves_and_returns(amem, pause["freed_bytes"][0])
    (rival,) = those(bench, "rival", communicators=max(COMMUNICATORS), contender="recreate")
    assert_leaves_and_returns(recreate, rival["freed_bytes"][0])


def test_a_timeline_in_which_memory_stays_is_noticed(bench: Bench) -> None:
    amem = those(bench, "timeline")[0]
    (pause,) = those(bench, "pause", communicators=max(COMMUNICATORS))
    spoilt = copy.deepcopy(amem)
    working = max(size_bytes for _, size_bytes in spoilt["samples"])
    for sample in spoilt["samples"]:
        sample[1] = working
    with pytest.raises(AssertionError):
        assert_leaves_and_returns(spoilt, pause["freed_bytes"][0])


def assert_went_on(record: Record, cycles: int) -> None:
    """That a bystander worked all the while: results right, rounds and gaps in every phase."""
    assert record["verified"] is True and record["cycles"] == cycles
    assert sorted(record["phases"]) == sorted(PHASES)
    for phase in record["phases"].values():
        for key in ("seconds", "round_ms", "longest_gap_ms", "added_ms"):
            assert len(phase[key]["values"]) == cycles
        for longest_ms, round_ms in zip(phase["longest_gap_ms"]["values"], phase["round_ms"]["values"]):
            assert longest_ms >= round_ms > 0
    for name in ("before", "away"):
        assert record["phases"][name]["rounds"] >= 3 * cycles


def test_a_bystander_alone_goes_on(bench: Bench) -> None:
    records = those(bench, "bystander")
    assert [record["communicators"] for record in records] == list(COMMUNICATORS)
    for record in records:
        assert_went_on(record, CYCLES)
        assert (record["pausing"], record["bystanders"]) == (1, 1) and "one rank" in record["work"]


def test_bystanders_go_on_together(tmp_path: Path) -> None:
    options = ["--gpus", "3", "--communicators", "1", "--what", "bystander", "--counts", "17,16384"]
    done = run_bench(tmp_path / "b.jsonl", *options, "--cycles", str(CYCLES))
    assert done.returncode == 0, done.stderr
    (record,) = read_lines(tmp_path / "b.jsonl")
    assert_went_on(record, CYCLES)
    assert (record["pausing"], record["bystanders"]) == (1, 2) and "2 GPUs" in record["work"]


def test_gaps_are_as_long_as_what_delays_the_rounds(tmp_path: Path) -> None:
    """Each round reads its result back once, which is made to take 20 ms."""
    options = ["--gpus", "2", "--communicators", "1", "--what", "bystander", "--counts", "17"]
    done = run_bench(
        tmp_path / "b.jsonl", *options, "--cycles", "2", AMEM_SIM_DELAY_US="cuMemcpyDtoH=20000"
    )
    assert done.returncode == 0, done.stderr
    (record,) = read_lines(tmp_path / "b.jsonl")
    assert record["round_ms"] >= 20
    for name in PHASES:
        phase = record["phases"][name]
        assert phase["longest_gap_ms"]["min"] >= phase["round_ms"]["min"] >= 20
        # One of them may have begun before the phase.
        assert phase["rounds"] <= sum(s // 0.020 + 1 for s in phase["seconds"]["values"])


def run_script(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    script = Path(__file__).with_name(name)
    return subprocess.run(
        [sys.executable, script, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def run_plot(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run_script("plot.py", *arguments)


def is_png(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG\r\n") and path.stat().st_size > 10000


def test_both_pictures_are_drawn(bench: Bench, lines: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert bench[0].returncode == 0
    done = run_plot(lines, "--out", tmp_path / "all.png")
    assert done.returncode == 0, done.stderr
    assert is_png(tmp_path / "all-times.png") and is_png(tmp_path / "all-timeline.png")


def test_a_picture_without_figures_is_refused(bench: Bench, lines: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    only_pauses = [record for record in bench[1] if record["figures"] == "pause"]
    path = tmp_path / "pauses.jsonl"
    path.write_text("\n".join(json.dumps(record) for record in only_pauses), encoding="utf-8")
    assert run_plot(path, "--picture", "timeline", "--out", tmp_path / "x.png").returncode == 1
    done = run_plot(path, lines, "--picture", "timeline", "--out", tmp_path / "y.png")
    assert done.returncode == 0, done.stderr
    assert sorted(one.name for one in tmp_path.glob("*.png")) == ["y.png"] and is_png(tmp_path / "y.png")


def test_where_the_lines_are_is_on_standard_output(bench: Bench, lines: Path) -> None:
    assert bench[0].stdout == f"{lines}\n"
    assert "setting up" in bench[0].stderr


def tables_of(records: Records, folder: Path) -> str:
    path = folder / "some.jsonl"
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    done = run_script("tables.py", path)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_is_a_table_of_every_figure(bench: Bench, tmp_path: Path) -> None:
    tables = tables_of(bench[1], tmp_path)
    assert tables.startswith("2 x simulated, driver simulated, NCCL minccl, 20")
    for words in ("Pause and resume with amem", "Rivals", "peers pause", "GPU 0", "all_reduce", "through amem and past it", "ok"):
        assert words in tables
    assert "WRONG" not in tables
    for record in those(bench, "pause"):
        own, imported = record["own_objects"], record["imported_objects"]
        assert re.search(rf"^ +{record['communicators']} \|.* \| +{own} +{imported}$", tables, re.MULTILINE)


def test_tables_say_what_is_wrong_and_of_which_nccl_a_rival_is(bench: Bench, tmp_path: Path) -> None:
    (recreate,) = those(bench, "rival", communicators=1, contender="recreate")
    wrong = {**recreate, "contender": "suspend", "nccl": "2.30.7", "verified": False, "steady_pause_s": None}
    rows = tables_of([recreate, wrong], tmp_path).splitlines()[-2:]
    assert [row.split("|")[1].strip() for row in rows] == ["recreate", "suspend 2.30.7"]
    assert rows[0].endswith("ok") and rows[1].endswith("WRONG") and " - " in rows[1]


def test_a_pause_that_fails_ends_it_with_1(tmp_path: Path) -> None:
    options = ["--gpus", "2", "--communicators", "1", "--what", "pause", "--counts", "17"]
    done = run_bench(tmp_path / "b.jsonl", *options, AMEM_SIM_FAULT="cuMemUnmap:1..=999")
    assert done.returncode == 1
    assert "bench failed" in done.stderr and "pause" in done.stderr


def test_a_rival_that_is_not_there_is_refused_before_anything_runs(tmp_path: Path) -> None:
    done = run_bench(tmp_path / "b.jsonl", AMEM_BENCH_NCCL="/no/libnccl.so.2")
    assert (done.returncode, done.stdout) == (1, "")
    assert "/no/libnccl.so.2" in done.stderr and "setting up" not in done.stderr
