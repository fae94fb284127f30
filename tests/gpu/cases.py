# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Every case that needs GPUs, in the order in which they run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from case_run import Case
from reports import demo_reader, read_gtest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Of suites that count them; 0.13 s each on H200s.
CYCLES = {"Cycles": 1000, "TwoJobs": 20}
PROTOCOLS = ("LL", "LL128", "Simple")
MOST_RANKS = 4
# The contract through amem's hooks: what AMEM_SLAB is. The tests left out are in a file of each (contract/CMakeLists.txt).
HOOKED = {"contract.hooked": "0", "contract.in_slabs": "1"}

# What a build folder needs to have; a copy of these alone will do (and of tests/libamem_nvtx_recorder.so, where NVTX
# was there to build it with).
NEEDED = (
    "bin/amem",
    "bin/amem_demo",
    "bin/amem_rank",
    "lib/libamem_nccl.so",
    "lib/libnccl.so.2",
    *(f"tests/{name}.flags" for name in HOOKED),
    "tests/driver_contract_test",
    "tests/hooked_contract_test",
    "tests/process_test",
    "tests/seeded/bin/amem_rank",
    "tests/seeded/lib/libamem_nccl.so",
    "tests/seeded/lib/libnccl.so.2",
    "tests/seeded_fault_test",
)


def _contract(build: Path, logs: Path) -> list[Case]:
    """The driver as amem relies on it, and as NCCL sees it under amem: without slabs and in them."""
    # What only the simulated driver has is tested without GPUs.
    cases = [_contract_case("contract", build, logs, "driver_contract_test", "--gtest_filter=-Simulator*", {})]
    for name, slab in HOOKED.items():
        left_out = f"--gtest_flagfile={build / 'tests' / name}.flags"
        variables = {"AMEM_ENABLE": "1", "AMEM_SLAB": slab}
        cases.append(_contract_case(name, build, logs, "hooked_contract_test", left_out, variables))
    return cases


def _contract_case(
    name: str, build: Path, logs: Path, program: str, option: str, variables: dict[str, str]
) -> Case:
    report = logs / f"{name}.xml"
    command = [str(build / "tests" / program), option, f"--gtest_output=xml:{report}"]
    return Case(name, command, 120, 1, variables, report, read_gtest)


def _suites(program: Path) -> list[str]:
    """The names of a GoogleTest program's suites."""
    command = [str(program), "--gtest_list_tests"]
    listed = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True)
    # "Suite." with its tests below it, indented; GoogleTest's main says something else before.
    return re.findall(r"^([\w/]+)\.(?:\s|$)", listed.stdout, re.MULTILINE)


def _process(build: Path, logs: Path, shared_gpus: int) -> list[Case]:
    """Each suite of process_test, with real GPUs in the place of simulated ones; ranks may share so many."""
    program = build / "tests" / "process_test"
    variables = {
        "AMEM_TEST_REAL_GPU": "1",
        "AMEM_TEST_RANK_PROGRAM": str(build / "bin" / "amem_rank"),
    }
    if shared_gpus > 0:
        variables["AMEM_TEST_SHARED_GPUS"] = str(shared_gpus)
    cases = []
    for suite in _suites(program):
        # Of a suite with parameters the name has a slash: "When/ExitOfNeighbour".
        name = f"process.{suite.replace('/', '.')}"
        report = logs / f"{name}.xml"
        command = [str(program), f"--gtest_filter={suite}.*", f"--gtest_output=xml:{report}"]
        cycles = {"AMEM_TEST_CYCLES": str(CYCLES[suite])} if suite in CYCLES else {}
        cases.append(Case(name, command, 600, 1, {**variables, **cycles}, report, read_gtest))
    # All of them once more with a driver object for each buffer.
    report = logs / "process.without_slabs.xml"
    command = [str(program), "--gtest_filter=-Cycles.*:Orders.*", f"--gtest_output=xml:{report}"]
    cases.append(
        Case("process.without_slabs", command, 900, 1, {**variables, "AMEM_SLAB": "0"}, report, read_gtest)
    )
    return cases


def _seeded(build: Path, logs: Path) -> Case:
    """What a job notices when the library breaks a rule on purpose, under a stock NCCL."""
    report = logs / "seeded_faults.xml"
    command = [str(build / "tests" / "seeded_fault_test"), f"--gtest_output=xml:{report}"]
    rank_program = str(build / "tests" / "seeded" / "bin" / "amem_rank")
    variables = {"AMEM_TEST_REAL_GPU": "1", "AMEM_TEST_SEEDED_RANK_PROGRAM": rank_program}
    return Case("seeded_faults", command, 300, 2, variables, report, read_gtest)


def _demo(build: Path, logs: Path, ranks: int) -> list[Case]:
    """Memory leaves and comes back, every collective and a CUDA graph bit-exact, with each protocol."""
    cases = []
    for communicators, protocol in [(3, ""), *((3, protocol) for protocol in PROTOCOLS), (9, "")]:
        name = f"demo.{communicators}_communicators" + (f".{protocol}" if protocol else "")
        report = logs / f"{name}.json"
        options = {"--ranks": ranks, "--communicators": communicators, "--cycles": 3, "--json": report}
        command = [str(build / "bin" / "amem_demo"), *(str(word) for pair in options.items() for word in pair)]
        variables = {"NCCL_PROTO": protocol} if protocol else {}
        cases.append(Case(name, command, 180, 2, variables, report, demo_reader(ranks, communicators)))
    return cases


def torchrun(ranks: int) -> list[str]:
    """The torchrun of this Python, which has PyTorch, on a port of its own."""
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which("torchrun", path=beside)
    program = [found] if found else [sys.executable, "-m", "torch.distributed.run"]
    return [*program, "--standalone", "--nproc-per-node", str(ranks)]


def _torch(build: Path, ranks: int) -> list[Case]:
    amem_run = [str(build / "bin" / "amem"), "run", "--"]
    job = [*amem_run, *torchrun(ranks)]
    example, memory = str(ROOT / "examples" / "torch_pause.py"), str(HERE / "torch_memory.py")
    cases = []
    for groups in ("1", "8"):
        cases.append(Case(f"torch.example.{groups}_groups", [*job, example, groups], 180))
        cases.append(Case(f"torch.memory.{groups}_groups", [*job, memory, "--groups", groups], 180))
    cases.append(Case("torch.graph", [*job, str(HERE / "torch_graph.py")], 180))
    rl_step = str(ROOT / "examples" / "rl_step.py")
    cases.append(Case("torch.rl_step", [*amem_run, sys.executable, rl_step], 240))
    same = [sys.executable, str(HERE / "same_results.py"), "--amem", amem_run[0], "--ranks", str(ranks)]
    cases.append(Case("amem_run.same_results", same, 400))
    return cases


def every_case(build: Path, gpus: int, logs: Path, share: bool) -> list[Case]:
    """The cases for a machine with this many GPUs; they use 4 at most. Ranks of process_test may share them."""
    ranks = min(gpus, MOST_RANKS)
    process = _process(build, logs, gpus if share else 0)
    return [*_contract(build, logs), *_demo(build, logs, ranks), *process, _seeded(build, logs), *_torch(build, ranks)]
