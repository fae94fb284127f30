#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Draws the lines that amem_bench wrote: pause and resume against the number of communicators.

One curve for each contender: amem, destroy and recreate, NCCL's own suspend. A point is the median of
the steady cycles, the bar goes from the fastest to the slowest. Several files make one picture.
"""

import argparse
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402 - the backend is chosen before

PANELS = (("steady_pause_s", "pause"), ("steady_resume_s", "resume"))
LABELS = {"amem": "amem", "recreate": "destroy and recreate", "suspend": "ncclCommSuspend"}


def read_curves(paths):
    """({label: {communicators: record}}, the facts of the first line)"""
    curves, facts = {}, None
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            facts = facts or record
            if record["figures"] not in ("pause", "rival") or "note" in record:
                continue
            label = f"{LABELS[record['contender']]}, NCCL {record['nccl']}"
            curves.setdefault(label, {})[record["communicators"]] = record
    return curves, facts


def draw_panel(axes, curves, key, title):
    axes.set_xticks(sorted({count for records in curves.values() for count in records}))
    for label, records in curves.items():
        communicators = sorted(records)
        times = [records[count][key] for count in communicators]
        medians = [time["median"] for time in times]
        below = [time["median"] - time["min"] for time in times]
        above = [time["max"] - time["median"] for time in times]
        axes.errorbar(communicators, medians, yerr=(below, above), marker="o", capsize=3, label=label)
    axes.set_title(title)
    axes.set_xlabel("communicators")
    axes.set_yscale("log")
    axes.grid(True, which="both", alpha=0.3)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", type=Path, nargs="+", help="what amem_bench --json wrote")
    parser.add_argument("--out", type=Path, default=Path("bench.png"), help="the picture")
    arguments = parser.parse_args()
    curves, facts = read_curves(arguments.lines)
    if not curves:
        print("plot.py: no line with figures of a pause or a rival", file=sys.stderr)
        return 1
    figure, panels = plt.subplots(1, len(PANELS), figsize=(10, 4.5), sharey=True)
    for axes, (key, title) in zip(panels, PANELS):
        draw_panel(axes, curves, key, title)
    panels[0].set_ylabel("seconds of the slowest rank")
    panels[0].legend()
    day = facts["date"][:10]
    figure.suptitle(f"{facts['gpus']} x {facts['gpu']}, driver {facts['driver']}, {day}")
    figure.tight_layout()
    figure.savefig(arguments.out, dpi=150)
    print(f"written: {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
