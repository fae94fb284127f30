#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Runs everything that needs GPUs, one case after another, and prints one table.

A build folder, or a copy of the files in cases.NEEDED, is all that it needs besides this repository,
a stock NCCL and, for the cases named torch.* and amem_run.*, PyTorch in this Python. Exit code 0 only
when nothing failed; a case is skipped only where the machine has too few GPUs for it. With --share-gpus
those suites of process_test that want three or four GPUs run on two.
"""

import argparse
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import case_run
import cases
from rows import FAIL, Row, all_good, table

_LAST_LINES = 25
# The first NCCL that lets ranks of one communicator share a GPU (NCCL_MULTI_RANK_GPU_ENABLE).
_FIRST_THAT_SHARES = (2, 30, 3)


def clean_variables() -> dict[str, str]:
    """The environment of the cases: this one's, less what would change what they show."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("AMEM_SIM_")
        or name == "AMEM_NCCL_PATH"
        or not (name.startswith(("AMEM_", "GMM_")) or name in ("LD_PRELOAD", "NCCL_PROTO"))
    }
    packages = [str(cases.ROOT / "python"), kept.get("PYTHONPATH", "")]
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, packages))
    kept["PYTHONDONTWRITEBYTECODE"] = "1"
    return kept


def ask(command: list[str], variables: dict[str, str], problem: str = "") -> str:
    """What a program prints; ends this one with the problem and its complaint when it fails."""
    done = subprocess.run(
        command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode != 0:
        sys.exit(f"run_gpu.py: {problem}{done.stderr.strip() or command}")
    return done.stdout


def stock_nccl() -> str:
    """The NCCL of this Python's nvidia packages, or else of the loader's cache; "" when neither has one."""
    try:
        package = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        package = None
    for folder in (package.submodule_search_locations if package else None) or ():
        library = Path(folder) / "lib" / "libnccl.so.2"
        if library.exists():
            return str(library)
    cached = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"libnccl\.so\.2 \(.*x86-64.*\) => (.+)", cached)
    return found[1] if found else ""


def find_nccl(build: Path, variables: dict[str, str]) -> tuple[int, int, int]:
    """The version of the stock NCCL that the cases use; sets AMEM_NCCL_PATH for programs linked with amem's."""
    if "AMEM_NCCL_PATH" not in variables and (found := stock_nccl()):
        variables["AMEM_NCCL_PATH"] = found
    problem = "no stock libnccl.so.2, AMEM_NCCL_PATH names one: "
    number = int(ask([str(build / "bin" / "amem_rank"), "version"], variables, problem))
    return number // 10000, number // 100 % 100, number % 100


def check_sharing(gpus: int, nccl: tuple[int, int, int]) -> None:
    """Ends this program where ranks cannot share GPUs."""
    # Some tests of two ranks look at the memory of a GPU as one rank's.
    if gpus < 2:
        sys.exit(f"run_gpu.py: --share-gpus needs 2 GPUs, there are {gpus}")
    if nccl < _FIRST_THAT_SHARES:
        first, found = (".".join(map(str, version)) for version in (_FIRST_THAT_SHARES, nccl))
        sys.exit(f"run_gpu.py: --share-gpus needs NCCL {first}, this is {found}; AMEM_NCCL_PATH names another")


def show_failure(log: Path) -> None:
    """The end of a case's output, for the person who watches."""
    if not log.exists():
        return
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    print("\n".join(f"    {line}" for line in lines[-_LAST_LINES:]), file=sys.stderr)
    print(f"    (all of it: {log})", file=sys.stderr)


def run_and_say(case: case_run.Case, gpus: int, variables: dict[str, str], logs: Path) -> list[Row]:
    """The rows of one case, said as soon as they are known."""
    print(f"{case.name} ...", file=sys.stderr, flush=True)
    rows = case_run.run_case(case, gpus, variables, logs)
    for row in rows:
        print(f"  {row.result} {row.seconds:.1f} s {row.detail}".rstrip(), file=sys.stderr, flush=True)
    if any(row.result == FAIL for row in rows):
        show_failure(logs / f"{case.name}.log")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, required=True)
    parser.add_argument("--report", type=Path, help="the rows as JSON; otherwise BUILD_DIR/gpu.json")
    parser.add_argument("--logs", type=Path, help="folder for the cases' output; otherwise BUILD_DIR/gpu_logs")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose names it is found in")
    parser.add_argument("--share-gpus", action="store_true", help="ranks share GPUs where there are too few")
    parser.add_argument("--list", action="store_true", help="print the names of the cases, run nothing")
    arguments = parser.parse_args()
    build = arguments.build_dir.resolve()
    missing = [name for name in cases.NEEDED if not (build / name).exists()]
    if missing:
        sys.exit(f"run_gpu.py: {build} has no {', '.join(missing)}: build it first")
    logs = (arguments.logs or build / "gpu_logs").resolve()
    variables = clean_variables()
    gpus = 0 if arguments.list else int(ask([sys.executable, str(cases.HERE / "gpu_count.py")], variables))
    all_cases = cases.every_case(build, gpus, logs, arguments.share_gpus)
    chosen = [case for case in all_cases if re.search(arguments.only, case.name)]
    if not chosen:
        sys.exit(f"run_gpu.py: no case has {arguments.only} in its name; --list prints them")
    if arguments.list:
        print("\n".join(case.name for case in chosen))
        return 0
    version = find_nccl(build, variables)
    nccl = ".".join(map(str, version))
    if arguments.share_gpus:
        check_sharing(gpus, version)
    logs.mkdir(parents=True, exist_ok=True)
    case_run.adopt_orphans()
    # Ended from outside, it ends what it started and says what is known, as for Ctrl-C.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    rows: list[Row] = []
    try:
        for case in chosen:
            rows += run_and_say(case, gpus, variables, logs)
    finally:
        report = {"gpus": gpus, "nccl": nccl, "rows": [asdict(row) for row in rows]}
        (arguments.report or build / "gpu.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        print(f"{gpus} GPUs, NCCL {nccl}\n\n{table(rows)}", flush=True)
    return 0 if all_good(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
