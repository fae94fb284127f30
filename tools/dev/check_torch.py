#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Imports PyTorch wheels with and without amem, on a machine without a GPU, and prints a table.

Each version has a virtual environment, created once (torch_environment.py). torch.cuda.nccl.unique_id() must end in the
same way with amem as without it. amem must have patched libtorch_cuda's slots of NCCL's functions, counted the call, and
patched libc10_cuda's slots of the CUDA runtime's allocator and of its look-ups of the driver. Exit code 1 otherwise. Then
tests/torch runs with each version on the simulated GPU; its tests of known faults are expected to fail, and must be changed
when they do not.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from torch_environment import FOLDER, make_environment, run_tests

ROOT = Path(__file__).resolve().parent.parent.parent
VERSIONS = ("2.8", "2.9", "2.11", "2.12", "2.13", "2.14", "newest")
CALL = "print(len(torch.cuda.nccl.unique_id()), torch.cuda.nccl.version())"
# What amem caught: the slots of NCCL's functions in libtorch_cuda, and the call's way through its door.
EVIDENCE = """
import ctypes, json
report = getattr(ctypes.CDLL(None), 'amemGetInterposition', None)
if report is None: print('nothing caught')
else:
    report.restype = ctypes.c_char_p
    seen = json.loads(report())
    slots = sum(s['count'] for s in seen['slots'] if 'libtorch_cuda.so' in s['path'] and s['symbol'].startswith('nccl'))
    c10 = {s['symbol'] for s in seen['slots'] if 'libc10_cuda.so' in s['path']}
    allocator = {'cudaMalloc', 'cudaFree', 'cudaIpcGetMemHandle', 'cudaIpcOpenMemHandle', 'cudaIpcCloseMemHandle'}
    allocator = allocator <= c10 and any(name.startswith('cudaGetDriverEntryPoint') for name in c10)
    calls = sum(n['calls'].get('ncclGetUniqueId', 0) for n in seen['nccl'] if not n['refusal'])
    print('caught' if slots > 0 and calls == 1 and allocator else 'nothing caught', slots, calls)
"""
TIMEOUT_S = 300


def run(command: Iterable[object], **settings: str) -> tuple[int, str, str]:
    """(exit code, stdout, last line of stderr); the environment has no trace of amem but `settings`."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("AMEM_", "GMM_", "LD_", "PYTHON"))}
    done = subprocess.run(
        list(map(str, command)),
        env={**clean, "PYTHONWARNINGS": "ignore", **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.returncode, done.stdout.strip(), (done.stderr.strip().splitlines() or [""])[-1]


def ways(build: Path, python: Path) -> Iterable[tuple[str, list[object], dict[str, str], str]]:
    """(name, command, variables, evidence) of each way to run the call; the first is without amem."""
    plain = f"import torch; {CALL}\n{EVIDENCE}"
    imported = f"import torch; import amem; {CALL}\n{EVIDENCE}"
    with_amem = {"PYTHONPATH": str(ROOT / "python"), "PATH": f"{build / 'bin'}:{os.environ['PATH']}"}
    return (
        ("plain", [python, "-c", plain], {}, "nothing caught"),
        ("amem run", [build / "bin/amem", "run", "--", python, "-c", plain], {}, "caught"),
        ("import amem", [python, "-c", imported], with_amem, "caught"),
    )


def check_version(build: Path, version: str, folder: Path) -> bool:
    """Prints one row for each way; whether all of them ended as without amem."""
    python = make_environment(version, folder)
    _, torch_version, _ = run([python, "-c", "from importlib.metadata import version as v; print(v('torch'))"])
    expected, same = None, True
    for name, command, variables, evidence in ways(build, python):
        code, lines, error = run(command, **variables)
        output, _, found = lines.rpartition("\n")
        if expected is None:
            expected = (code, output)
        as_expected = (code, output) == expected and code == 0 and found.startswith(evidence)
        same &= as_expected
        detail = output if code == 0 else f"exit code {code}: {error}"
        print(f"{torch_version:8} {name:12} {'ok' if as_expected else 'FAIL':5} {detail}; {found or '-'}", flush=True)
    return same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build/dev")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="virtual environments")
    parser.add_argument("versions", nargs="*", default=VERSIONS, help="e.g. 2.14, newest")
    options = parser.parse_args()
    build, folder = options.build_dir.resolve(), options.folder.resolve()
    if not (build / "bin/amem").exists():
        sys.exit(f"{build} has no bin/amem: build it first")
    folder.mkdir(parents=True, exist_ok=True)
    results = [check_version(build, version, folder / version) for version in options.versions]
    results += [run_tests(build, folder / version / "bin/python") == 0 for version in options.versions]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
