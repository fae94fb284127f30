# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What the cases run on: a build, GPUs, a stock NCCL and an environment; or a message about what is missing."""

import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# The contract through amem's hooks: what AMEM_SLAB is. The tests left out are in a file of each (contract/CMakeLists.txt).
HOOKED = {"contract.hooked": "0", "contract.in_slabs": "1"}

# What a build folder needs to have; a copy of these alone will do (and of tests/libamem_nvtx_recorder.so, where NVTX
# was there to build it with).
NEEDED = (
    "bin/amem",
    "bin/amem_demo",
    "bin/amem_rank",
    "examples/symmetric",
    "lib/libamem_cycles.so",
    "lib/libamem_nccl.so",
    "lib/libamem_symmetric.so",
    "lib/libnccl.so.2",
    "lib/torch_memory_saver_hook_mode_preload.abi3.so",
    *(f"tests/{name}.flags" for name in HOOKED),
    "tests/driver_contract_test",
    "tests/hooked_contract_test",
    "tests/process_test",
    "tests/seeded/bin/amem_rank",
    "tests/seeded/lib/libamem_nccl.so",
    "tests/seeded/lib/libamem_symmetric.so",
    "tests/seeded/lib/libnccl.so.2",
    "tests/seeded_fault_test",
)
# The first NCCL that lets ranks of one communicator share a GPU (NCCL_MULTI_RANK_GPU_ENABLE).
FIRST_THAT_SHARES = (2, 30, 3)


@dataclass(frozen=True)
class Machine:
    build: Path
    gpus: int
    nccl: str
    share: bool  # ranks of process_test share GPUs where there are too few
    variables: dict[str, str]  # the environment of the cases


def _clean_variables() -> dict[str, str]:
    """This process' environment, less what would change what the cases show."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("AMEM_SIM_")
        or name == "AMEM_NCCL_PATH"
        or not (name.startswith(("AMEM_", "GMM_")) or name in ("LD_PRELOAD", "NCCL_PROTO"))
    }
    packages = [str(ROOT / "python"), kept.get("PYTHONPATH", "")]
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, packages))
    kept["PYTHONDONTWRITEBYTECODE"] = "1"
    return kept


def ask(command: list[str], variables: dict[str, str], problem: str = "") -> str:
    """What a program prints."""
    done = subprocess.run(
        command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode != 0:
        raise pytest.UsageError(f"{problem}{done.stderr.strip() or command}")
    return done.stdout


def _library(package: str, name: str, cached: str) -> str:
    """A library of this Python's nvidia packages, or else of the loader's cache; "" when neither has one."""
    nvidia = importlib.util.find_spec("nvidia")
    for folder in (nvidia.submodule_search_locations if nvidia else None) or ():
        if found := sorted(Path(folder).glob(f"{package}/lib/{name}")):
            return str(found[0])
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    match = re.search(rf"{cached} \(.*(?:x86-64|AArch64).*\) => (.+)", known)
    return match[1] if match else ""


def nccl_version(build: Path, variables: dict[str, str], problem: str = "") -> tuple[int, int, int]:
    """Of the NCCL that AMEM_NCCL_PATH names."""
    number = int(ask([str(build / "bin" / "amem_rank"), "version"], variables, problem))
    return number // 10000, number // 100 % 100, number % 100


def find_machine(build: Path, share: bool, looks_only: bool) -> Machine:
    """`looks_only`: the cases are only named, and the machine may be any."""
    missing = [name for name in NEEDED if not (build / name).exists()]
    if missing:
        raise pytest.UsageError(f"{build} has no {', '.join(missing)}: build it first")
    variables = _clean_variables()
    if looks_only:
        return Machine(build, 0, "", share, variables)
    gpus = int(ask([sys.executable, str(HERE / "gpu_count.py")], variables))
    # For programs linked with amem's, too.
    if "AMEM_NCCL_PATH" not in variables and (found := _library("nccl", "libnccl.so.2", r"libnccl\.so\.2")):
        variables["AMEM_NCCL_PATH"] = found
    # Not on the loader's path where it is a Python package.
    if found := _library("*", "libcudart.so.*", r"libcudart\.so\.\d+"):
        variables["AMEM_TEST_CUDART"] = found
    version = nccl_version(build, variables, "no stock libnccl.so.2, AMEM_NCCL_PATH names one: ")
    nccl, first = (".".join(map(str, each)) for each in (version, FIRST_THAT_SHARES))
    # Some tests of two ranks look at the memory of a GPU as one rank's.
    if share and gpus < 2:
        raise pytest.UsageError(f"--share-gpus needs 2 GPUs, there are {gpus}")
    if share and version < FIRST_THAT_SHARES:
        raise pytest.UsageError(f"--share-gpus needs NCCL {first}, this is {nccl}; AMEM_NCCL_PATH names another")
    return Machine(build, gpus, nccl, share, variables)
