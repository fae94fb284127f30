# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A job that never pauses gives the same results, output and exit code with amem, without, and with amem off.

same_results.py --amem build/dev/bin/amem --ranks 2
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from cases import torchrun

JOB = str(Path(__file__).with_name("torch_results.py"))
TIMEOUT_S = 90
EXIT_CODES = (0, 1, 7)


def run(command: list[str], **variables: str) -> tuple[int, str]:
    """(exit code, standard output); ends this program when amem has said something."""
    done = subprocess.run(
        command,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    print(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}", flush=True)
    if "AMEM" in done.stdout + done.stderr:
        sys.exit("amem wrote something")
    return done.returncode, done.stdout


def check_same(job: list[str], amem_run: list[str], exit_code: int) -> str:
    """Runs it in the three ways; returns what all printed."""
    plain = run(job)
    ways = {"with amem": run([*amem_run, *job]), "with AMEM_ENABLE=0": run([*amem_run, "env", "AMEM_ENABLE=0", *job])}
    for way, (code, output) in ways.items():
        if code != plain[0]:
            sys.exit(f"{way} the exit code is {code}, without amem {plain[0]}")
        if output != plain[1]:
            sys.exit(f"{way} the output differs")
    if plain[0] != exit_code:
        sys.exit(f"the job ended with {plain[0]} instead of {exit_code}")
    return plain[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--amem", required=True, help="the amem command")
    parser.add_argument("--ranks", type=int, required=True)
    arguments = parser.parse_args()
    amem_run = [arguments.amem, "run", "--"]
    digests = check_same([*torchrun(arguments.ranks), JOB], amem_run, 0).splitlines()
    if not digests:
        sys.exit("the job printed nothing")
    for code in EXIT_CODES:
        check_same([sys.executable, "-c", f"raise SystemExit({code})"], amem_run, code)
    print(f"result: {len(digests)} results and {len(EXIT_CODES) + 1} exit codes are the same in three ways", flush=True)


if __name__ == "__main__":
    main()
