#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Prints the lines that amem_bench wrote as tables."""

import argparse
import json
from pathlib import Path
from typing import Any

Record = dict[str, Any]  # a line of the benchmark
Records = list[dict[str, Any]]  # lines of the benchmark


def table(title: str, layout: str, *rows: Any) -> None:
    """Rows are cells of the layout, or text as it stands."""
    print(f"\n{title}\n")
    for row in rows:
        print("  " + (row if isinstance(row, str) else layout.format(*row)))


def fixed(digits: int, *numbers: float) -> list[str]:
    return [f"{number:.{digits}f}" for number in numbers]


def mib(size_bytes: int) -> float:
    return size_bytes / (1 << 20)


def most_mib(ranks: Any) -> float:
    return mib(max(ranks))


def spread(summary: Any) -> str:
    """0.109 (0.105-0.121)"""
    return "{median:.3f} ({min:.3f}-{max:.3f})".format(**summary) if summary else "-"


def checked(record: Record) -> str:
    return "ok" if record["verified"] else "WRONG"


def cycles(r: Record) -> list[str]:
    return [*fixed(3, r["first_pause_s"], r["first_resume_s"]), spread(r["steady_pause_s"]), spread(r["steady_resume_s"])]


def name_of(record: Record) -> str:
    """The contender, and its NCCL where that may be another one than the rest's."""
    return f"suspend {record['nccl']}" if record["contender"] == "suspend" else record["contender"]


def not_measured(r: Record) -> str:
    return f"{r['communicators']:>5} | {r['contender']:<15} | {r['note']}"


def print_pauses(records: Records) -> None:
    heads = ("comms", "1st pause", "1st resume", "steady pause", "steady resume", "checked")
    rows = [(r["communicators"], *cycles(r), checked(r)) for r in records]
    title = "Pause and resume with amem: seconds of the slowest rank, steady as median (min-max)"
    table(title, "{:>5} | {:>9} {:>10} | {:>21} {:>21} | {:>7}", heads, *rows)

    of_memory = ("comms", "held", "freed", "freed %", "copied", "back", "host", "own", "imported")
    rows = [
        (
            r["communicators"],
            *fixed(0, most_mib(r["driver_bytes"]), most_mib(r["freed_bytes"])),
            *fixed(2, 100 * r["freed_of_held"]),
            *fixed(1, mib(r["pause_copied_bytes"]), mib(r["resume_copied_bytes"])),
            *fixed(0, mib(r["host_bytes"])),
            r["own_objects"],
            r["imported_objects"],
        )
        for r in records
    ]
    title = "What it moved, on the rank with the most, in MiB; objects of the driver"
    table(title, "{:>5} | {:>9} {:>8} {:>7} | {:>9} {:>9} | {:>8} | {:>6} {:>8}", of_memory, *rows)
    print_phases(records)


def print_phases(records: Records) -> None:
    heads = ["comms", "p.wait", "p.peers", "p.copy", "p.memory", "r.memory", "r.copy", "r.peers"] + ["driver calls"]
    rows = []
    for r in records:
        phases = [r["phases"][f"{head}_ms".replace("p.", "pause_").replace("r.", "resume_")] for head in heads[1:-1]]
        counts = [r[f"{step}_driver_calls"]["median"] for step in ("pause", "resume") if f"{step}_driver_calls" in r]
        rows.append((r["communicators"], *fixed(1, *phases), " + ".join(fixed(0, *counts)) or "-"))
    layout = "{:>5} | {:>8} {:>8} {:>8} {:>8} | {:>8} {:>8} {:>8} | {:>12}"
    table("Phases of the slowest rank in milliseconds, median of the steady cycles", layout, heads, *rows)


def print_setups(records: Records) -> None:
    names = ("amem", "forwarding", "plain")
    rows = []
    for communicators in sorted({r["communicators"] for r in records}):
        those = {r["contender"]: r for r in records if r["communicators"] == communicators}
        seconds = [those[name]["setup_s"]["median"] for name in names]
        memory = [most_mib(those[name]["memory_bytes"]) for name in names]
        cells = [*fixed(3, *seconds, seconds[0] / seconds[2]), *fixed(0, *memory), *fixed(3, memory[0] / memory[2])]
        rows.append((communicators, *cells))
    title = "Making and connecting the communicators, and what a GPU's memory in use grew by; the share is amem's of "
    above = f"{'':>5} | {'seconds (median)':^35} | {'MiB':^35}"
    layout = "{:>5} |{:>9} {:>10} {:>8} {:>7} |{:>9} {:>10} {:>8} {:>7}"
    table(title + "plain NCCL's", layout, above, ("comms", *names, "share", *names, "share"), *rows)


def print_rivals(records: Records) -> None:
    heads = ("comms", "", "1st pause", "1st resume", "steady pause", "steady resume", "freed MiB", "checked")
    rows = [
        not_measured(r)
        if "note" in r
        else (r["communicators"], name_of(r), *cycles(r), *fixed(0, most_mib(r["freed_bytes"])), checked(r))
        for r in records
    ]
    title = "Rivals: destroy and recreate; NCCL's own suspend and resume. Seconds"
    table(title, "{:>5} | {:<15} | {:>9} {:>10} | {:>21} {:>21} | {:>9} | {:>7}", heads, *rows)


def print_bystanders(records: Records) -> None:
    heads = ["comms", "bystanders", "phase", "lasts", "rounds", "typical", "longest", "most", "added", "most"]
    rows: list[Any] = []
    for r in records:
        for name in ("before", "pause", "away", "resume"):
            phase = r["phases"][name]
            gaps = [phase[key][value] for key in ("longest_gap_ms", "added_ms") for value in ("median", "max")]
            lasts = fixed(1, 1e3 * phase["seconds"]["median"])
            times = fixed(3, phase["round_ms"]["median"], *gaps)
            rows.append((r["communicators"], r["bystanders"], name, *lasts, phase["rounds"], *times))
        ranks = r["pausing"] + r["bystanders"]
        rows.append(f"{r['pausing']} of {ranks} ranks pause; a round: {r['work']}; results {checked(r)}")
    title = "Ranks that go on while their peers pause: milliseconds between two rounds, median and most of the cycles"
    layout = "{:>5} | {:>10} | {:<6} | {:>8} {:>7} | {:>9} | {:>9} {:>9} | {:>9} {:>9}"
    table(title, layout, heads, *rows)


def mib_at_end(timeline: Any, event: str) -> float:
    """What was in use when the last event of this name ended."""
    end_s = [each["end_s"] for each in timeline["events"] if each["name"] == event][-1]
    return mib([used_bytes for at_s, used_bytes in timeline["samples"] if at_s <= end_s][-1])


def print_timelines(records: Records) -> None:
    heads = ("comms", "", "working", "paused", "samples", "checked")
    rows: list[Any] = []
    for r in records:
        if "note" in r:
            rows.append(not_measured(r))
            continue
        used = fixed(0, mib_at_end(r, "work"), mib_at_end(r, "away"))
        rows.append((r["communicators"], name_of(r), *used, len(r["samples"]), checked(r)))
    title = "Memory in use on GPU 0 by the whole job, at the end of work and of the pause, in MiB"
    table(title, "{:>5} | {:<15} | {:>9} {:>9} | {:>8} | {:>7}", heads, *rows)


def print_bandwidth(records: Records) -> None:
    for r in records:
        rows: list[Any] = []
        for row in r["sizes"]:
            plain, forwarding, amem = (row[who] for who in ("plain", "forwarding", "amem"))
            median, least_most = spread(amem["of_plain"]).split()
            of_forwarding = spread(forwarding["of_plain"]).split()[0]
            rates = fixed(4, plain["gb_per_s"], forwarding["gb_per_s"], amem["gb_per_s"])
            rows.append((row["bytes"], *rates[:2], of_forwarding, rates[2], median, least_most))
        for who in ("amem", "forwarding"):
            mean, least = fixed(4, r[f"{who}_of_plain"]["geometric_mean"], r[f"{who}_of_plain"]["min"])
            rows.append(f"{who} of plain over all sizes: geometric mean {mean}, least {least}")
        heads = ("bytes", "plain", "forwarding", "share", "amem", "share", "(min-max)")
        title = f"{r['collective']}: GB/s (bytes over time), and the share of plain NCCL's"
        table(title, "{:>10} | {:>9} | {:>10} {:>6} | {:>9} {:>6} {:>13}", heads, *rows)


def print_calls(records: Records) -> None:
    for r in records:
        rows = []
        for how in ("alone", "grouped"):
            more = r[how]["added_ns"]
            quartiles = " - ".join(fixed(1, more["lower_quartile"], more["upper_quartile"]))
            direct_and_amem = fixed(0, *(r[how][name]["median"] for name in ("direct_ns", "amem_ns")))
            rows.append((how, *direct_and_amem, *fixed(1, more["median"]), quartiles))
        title = "An all_reduce without data through amem and past it, in turns: nanoseconds of one, and those that amem adds"
        table(title, "{:>8} | {:>7} {:>7} | {:>6} {:>13}", ("", "past", "through", "added", "(quartiles)"), *rows)


TABLES = {
    "pause": print_pauses,
    "setup": print_setups,
    "rival": print_rivals,
    "bystander": print_bystanders,
    "timeline": print_timelines,
    "bandwidth": print_bandwidth,
    "calls": print_calls,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", type=Path, help="what amem_bench --json wrote")
    records = [json.loads(line) for line in parser.parse_args().lines.read_text(encoding="utf-8").splitlines()]
    if records:
        print("{gpus} x {gpu}, driver {driver}, NCCL {nccl}, {date}".format(**records[0]))
    for figures, print_those in TABLES.items():
        those = [record for record in records if record["figures"] == figures]
        if those:
            print_those(those)


if __name__ == "__main__":
    main()
