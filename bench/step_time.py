# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What amem costs a PyTorch job that does not pause: steps of tests/gpu/torch_step_time.py with and without amem.

Two jobs that run the same differ by the placement of their threads and memory, so many jobs run in turns, in both orders.
Each job gives the 10th percentile (p10) and the median of the milliseconds of 60 steps. Prints for both the median of the jobs,
and the fastest and the slowest job; the figures of each job go to stderr at its end.

  python3 bench/step_time.py [--pairs N] [--gpus N]       needs amem and torchrun on PATH
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

JOB = Path(__file__).resolve().parent.parent / "tests" / "gpu" / "torch_step_time.py"
LIMIT_S = 120


def read_steps(output: str) -> dict[str, Any]:
    """{figure: milliseconds of a step}"""
    found = re.search(r"^result: (.*)$", output, re.MULTILINE)
    works = json.loads(found[1]) if found else {}
    return {f"{work}, {name}": ms for work, each in works.items() for name, ms in each["before"].items()}


def run(prefix: list[str], gpus: int) -> Any:
    command = [*prefix, "torchrun", f"--nproc-per-node={gpus}", str(JOB), "--no-pauses"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    steps = read_steps(done.stdout)
    if done.returncode != 0 or not steps:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}")
    return steps


def row(name: str, with_amem: list[float], without: list[float]) -> str:
    """Of a table in Markdown."""
    cells = [f"{statistics.median(times):.2f} ({min(times):.2f}–{max(times):.2f})" for times in (without, with_amem)]
    ratios = [statistics.median(with_amem) / statistics.median(without), min(with_amem) / min(without)]
    return f"| {' | '.join([name, *cells, *(f'{ratio:.3f}' for ratio in ratios)])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--gpus", type=int, default=2)
    options = parser.parse_args()
    variants = {"without": [], "with": ["amem", "run", "--"]}
    found = {name: [] for name in variants}
    for pair in range(options.pairs):
        for name in sorted(variants, reverse=pair % 2 == 0):
            found[name].append(run(variants[name], options.gpus))
            print(json.dumps({name: found[name][-1]}), file=sys.stderr, flush=True)
    print("| a step, ms | without amem | with amem | ratio of the medians | ratio of the fastest |")
    print("|---|---|---|---|---|")
    for figure in found["with"][0]:
        print(row(figure, *([steps[figure] for steps in found[name]] for name in ("with", "without"))))


if __name__ == "__main__":
    main()
