#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Draws the lines that amem_bench wrote, for amem, destroy and recreate, and NCCL's own suspend.

`times` is pause and resume against the number of communicators: a point is the median of the steady
cycles, the bar goes from the fastest to the slowest. `timeline` is the memory in use on GPU 0 while each
of them works, pauses and resumes. Several files make one picture; of the same thing measured twice, the
last counts.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Patch

Record = dict[str, Any]  # a line of the benchmark
Records = list[dict[str, Any]]  # lines of the benchmark

PANELS = (("steady_pause_s", "pause"), ("steady_resume_s", "resume"))
LABELS = {"amem": "amem", "recreate": "destroy and recreate", "suspend": "ncclCommSuspend"}
COLORS = {"amem": "tab:blue", "recreate": "tab:orange", "suspend": "tab:green"}
FIGURES = {"times": ("pause", "rival"), "timeline": ("timeline",)}
STEP_COLOR, AWAY_COLOR = "0.72", "0.92"
GIB = 1 << 30
WIDTH_INCHES = 10


def read_records(paths: list[Path]) -> tuple[Records, Record]:
    """What was measured, in the order of LABELS, and the facts of the first line."""
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    records = [json.loads(line) for line in lines]
    wanted = [figures for kinds in FIGURES.values() for figures in kinds]
    drawn = [one for one in records if one["figures"] in wanted and "note" not in one]
    drawn.sort(key=lambda record: list(LABELS).index(record["contender"]))
    return drawn, records[0] if records else {}


def label_of(record: Record) -> str:
    return f"{LABELS[record['contender']]}, NCCL {record['nccl']}"


def duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def draw_curve(axes: Any, label: str, records: dict[int, Record], key: str) -> None:
    communicators = sorted(records)
    times = [records[count][key] for count in communicators]
    medians = [time["median"] for time in times]
    below = [time["median"] - time["min"] for time in times]
    above = [time["max"] - time["median"] for time in times]
    color = COLORS[records[communicators[0]]["contender"]]
    axes.errorbar(
        communicators, medians, yerr=(below, above), marker="o", capsize=3, label=label, color=color
    )


def draw_times(records: Records) -> tuple[Any, Any]:
    """A panel for pausing and one for resuming."""
    curves = {}
    for record in records:
        curves.setdefault(label_of(record), {})[record["communicators"]] = record
    figure, panels = plt.subplots(1, len(PANELS), figsize=(WIDTH_INCHES, 5), sharey=True)
    for axes, (key, title) in zip(panels, PANELS):
        for label, of_label in curves.items():
            draw_curve(axes, label, of_label, key)
        axes.set_xticks(sorted({record["communicators"] for record in records}))
        axes.set_title(title)
        axes.set_xlabel("communicators")
        axes.set_yscale("log")
        axes.grid(True, which="major", alpha=0.4)
        axes.grid(True, which="minor", alpha=0.15)
    panels[0].set_ylabel("seconds of the slowest rank")
    panels[0].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    return figure, panels[0].get_legend_handles_labels()


def steps_text(record: Record) -> str:
    """How long this contender pauses and resumes: medians of its cycles."""
    events = record["events"]
    words = []
    for name in ("pause", "resume"):
        seconds = [each["end_s"] - each["begin_s"] for each in events if each["name"] == name]
        words.append(f"{name} {duration(statistics.median(seconds))}")
    return ", ".join(words)


def draw_timeline(axes: Any, record: Record) -> None:
    origin_s = record["events"][0]["begin_s"]
    for event in record["events"]:
        if event["name"] == "work":
            continue
        color = AWAY_COLOR if event["name"] == "away" else STEP_COLOR
        axes.axvspan(event["begin_s"] - origin_s, event["end_s"] - origin_s, color=color, lw=0)
    seconds = [at_s - origin_s for at_s, _ in record["samples"]]
    gib = [used_bytes / GIB for _, used_bytes in record["samples"]]
    color = COLORS[record["contender"]]
    axes.fill_between(seconds, gib, color=color, alpha=0.25, lw=0)
    axes.plot(seconds, gib, color=color, lw=1.6)
    label = f"{label_of(record)}, {record['communicators']} communicators"
    axes.set_title(label, loc="left", fontsize=10, fontweight="bold")
    axes.set_title(steps_text(record), loc="right", fontsize=10)
    axes.grid(True, alpha=0.3)


def draw_timelines(records: Records) -> tuple[Any, Any]:
    """A panel for each contender, one under the other, on the same axes."""
    latest = {(label_of(record), record["communicators"]): record for record in records}
    figure, rows = plt.subplots(
        len(latest),
        1,
        figsize=(WIDTH_INCHES, 1.5 + 1.9 * len(latest)),
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    panels = [row[0] for row in rows]
    for axes, record in zip(panels, latest.values()):
        draw_timeline(axes, record)
    panels[0].set_ylim(bottom=0)
    panels[0].set_xlim(left=0)
    panels[-1].set_xlabel("seconds since the ranks began to work")
    figure.supylabel("GiB in use on GPU 0", fontsize=10)
    patches = [Patch(color=STEP_COLOR), Patch(color=AWAY_COLOR)]
    return figure, (patches, ["pausing, resuming", "paused"])


PICTURES = {"times": draw_times, "timeline": draw_timelines}


def draw(name: str, records: Records, facts: Record, out: Path) -> None:
    figure, (handles, labels) = PICTURES[name](records)
    day = facts["date"][:10]
    figure.suptitle(f"{facts['gpus']} x {facts['gpu']}, driver {facts['driver']}, {day}")
    # Below the panels, where there is no data.
    figure.legend(handles, labels, loc="lower center", ncol=len(labels), frameon=False)
    inch = 1 / figure.get_size_inches()[1]
    figure.tight_layout(rect=(0, 0.35 * inch, 1, 1))
    figure.savefig(out, dpi=150)
    print(f"written: {out}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", type=Path, nargs="+", help="what amem_bench --json wrote")
    parser.add_argument("--picture", choices=PICTURES, help="all that there are figures for, by default")
    parser.add_argument(
        "--out", type=Path, default=Path("bench.png"), help="the picture; X.png of several, X-NAME.png"
    )
    arguments = parser.parse_args()
    records, facts = read_records(arguments.lines)
    wanted = [arguments.picture] if arguments.picture else list(PICTURES)
    found = {name: [one for one in records if one["figures"] in FIGURES[name]] for name in wanted}
    found = {name: those for name, those in found.items() if those}
    if not found:
        print(f"plot.py: no line with figures for: {', '.join(wanted)}", file=sys.stderr)
        return 1
    for name, those in found.items():
        out = arguments.out
        if len(found) > 1:
            out = out.with_name(f"{out.stem}-{name}{out.suffix}")
        draw(name, those, facts, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
