# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Compiles a CUDA program that uses amem's symmetric memory, and runs it in two ranks: RANK WORLD_SIZE HOST:PORT.

compiled_ranks.py --nvcc NVCC --build BUILD_DIR source.cu
"""

import argparse
import subprocess
import sys
from pathlib import Path

from machine import ROOT
from one_gpu import free_port, wait_for

RANKS = 2


def compile_program(nvcc: Path, build: Path, source: Path) -> Path:
    program, libraries = build / "gpu_logs" / source.stem, build / "lib"
    # libcuda of the toolkit has no code; programs find the driver's when they run.
    stubs = [f"-L{nvcc.parent.parent / folder / 'stubs'}" for folder in ("lib64", "lib")]
    command = [str(nvcc), "-std=c++17", "-arch=native", "-O2", f"-I{ROOT / 'include'}", f"-I{ROOT / 'symmetric' / 'include'}", str(source), "-o", str(program)]
    command += [f"-L{libraries}", *stubs, "-lamem_symmetric", "-lamem_nccl", "-lcuda", "-Xlinker", f"-rpath={libraries}"]
    subprocess.run(command, check=True)
    return program


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc", type=Path, required=True)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("source", type=Path)
    options = parser.parse_args()
    program, place = compile_program(options.nvcc, options.build, options.source), f"127.0.0.1:{free_port()}"
    return wait_for([subprocess.Popen([program, str(rank), str(RANKS), place]) for rank in range(RANKS)])


if __name__ == "__main__":
    sys.exit(main())
