# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""./dev gpu with the programs that it runs on GPUs, on simulated ones: only LD_LIBRARY_PATH differs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import reports

BUILD = Path(os.environ["AMEM_TEST_BUILD"])
CASES = Path(__file__).resolve().with_name("cases.py")
PATIENCE_S = 240 * int(os.environ.get("AMEM_TEST_SLOWDOWN", "1"))  # the factor of tests/slowdown.h


def run(command: Any, folder: Path, **more: Any) -> Any:
    """The result of a command on a machine with two simulated GPUs, unless `more` says otherwise."""
    simulator = BUILD / "sim"
    variables = {
        **os.environ,
        "LD_LIBRARY_PATH": str(simulator),
        "AMEM_NCCL_PATH": str(simulator / "libnccl.so.2"),
        "AMEM_SIM_DIR": str(folder / "machine"),
        "AMEM_SIM_DEVICES": "2",
        "AMEM_SIM_MEMORY_MB": "1024",
        **more,
    }
    done = subprocess.run(
        [str(word) for word in command], cwd=CASES.parents[2], env=variables, capture_output=True, text=True,
        timeout=PATIENCE_S, check=False,
    )
    shutil.rmtree(folder / "machine", ignore_errors=True)  # simulated GPU memory: pytest keeps tmp_path
    return done


def test_the_contract_a_process_suite_and_catching_pass(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--build-dir", BUILD, CASES]

    done = run([*command, "-k", "(contract and not contract.) or process.PauseResume or catching"], tmp_path)

    assert done.returncode == 0, done.stdout
    assert "\nprocess.PauseResume . " in done.stdout and "\ncatching.late late ok" in done.stdout and " passed, " in done.stdout and "skipped" not in done.stdout


def test_each_nccl_of_a_folder_is_tested(tmp_path: Path) -> None:
    (tmp_path / "libnccl.so.2").symlink_to(BUILD / "sim" / "libnccl.so.2")
    (tmp_path / "empty").mkdir()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--build-dir", BUILD, CASES]

    # Ranks of 2.28.9 share a GPU only as nodes that are connected by sockets.
    done = run([*command, f"--nccl={tmp_path}", "-k", "LL128SharedResources"], tmp_path, AMEM_SIM_DEVICES="1")
    empty = run([*command, f"--nccl={tmp_path / 'empty'}"], tmp_path)

    assert done.returncode == 0 and "1 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert empty.returncode != 0 and "has no libnccl*.so*" in empty.stdout + empty.stderr


@pytest.mark.parametrize("gpus, cycles", [("2", 20), ("1", 5)])
def test_ranks_of_any_nccl_take_turns_only_on_a_gpu_that_they_share(tmp_path: Path, gpus: int, cycles: int) -> None:
    command = [BUILD / "tests" / "process_test", "--gtest_filter=*EveryNccl*LL128SharedResources"]
    variables = {"AMEM_TEST_REAL_GPU": "1", "AMEM_TEST_RANK_PROGRAM": str(BUILD / "bin" / "amem_rank")}
    shared = {"AMEM_TEST_SHARED_GPUS": gpus, "AMEM_SIM_DEVICES": gpus}

    done = run([*command, f"--gtest_output=xml:{tmp_path}/report"], tmp_path, **variables, **shared)

    assert done.returncode == 0, done.stdout
    assert (tmp_path / "report").read_text(encoding="utf-8").count(f'name="cycles" value="{cycles}"') == 2


def test_programs_of_nccl_tests(tmp_path: Path) -> None:
    """Of two programs one has a wrong value; a folder without programs is none."""
    (tmp_path / "empty").mkdir()
    for name, values in (("all_reduce", "0 OK"), ("reduce", "2 FAILED")):
        program = tmp_path / f"{name}_perf"
        program.write_text(f'#!/bin/sh\n[ "$AMEM_CYCLE_EVERY" = 10 ] && echo "AMEM INFO paused nccl in 0 s"\n'
                           f'echo "# Out of bounds values : {values}"\n', encoding="utf-8")
        program.chmod(0o755)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--build-dir", BUILD, CASES]

    done = run([*command, f"--nccl-tests={tmp_path}"], tmp_path)
    empty = run([*command, f"--nccl-tests={tmp_path / 'empty'}"], tmp_path)

    assert done.returncode == 1 and "8 failed, 8 passed" in done.stdout, done.stdout + done.stderr
    assert "nccl_tests.reduce.g.graph" in done.stdout and "('2', 'FAILED')" in done.stdout
    assert empty.returncode != 0 and "has no *_perf" in empty.stdout + empty.stderr


def test_four_ranks_share_two_gpus(tmp_path: Path) -> None:
    name = "FirstIsRank/EveryOrder.OfLeavingAndReturning/0"
    command = [BUILD / "tests" / "process_test", f"--gtest_filter={name}"]
    variables = {"AMEM_TEST_REAL_GPU": "1", "AMEM_TEST_RANK_PROGRAM": str(BUILD / "bin" / "amem_rank")}

    alone = run(command, tmp_path, **variables)
    shared = run(command, tmp_path, **variables, AMEM_TEST_SHARED_GPUS="2")

    assert f"[  SKIPPED ] {name}" in alone.stdout and "needs 4 GPUs, there are 2" in alone.stdout
    assert f"[       OK ] {name}" in shared.stdout, shared.stdout
    assert shared.returncode == 0


def test_two_ranks_share_a_gpu(tmp_path: Path) -> None:
    tests = ["PauseResume.*", "Misuse.ResumeWithoutRoom*", "SeveralDevices.*"]
    variables = {"AMEM_TEST_REAL_GPU": "1", "AMEM_TEST_RANK_PROGRAM": str(BUILD / "bin" / "amem_rank")}

    command = [BUILD / "tests" / "process_test", f"--gtest_filter={':'.join(tests)}"]
    shared = run(command, tmp_path, **variables, AMEM_TEST_SHARED_GPUS="1", AMEM_SIM_DEVICES="1")

    assert shared.returncode == 0, shared.stdout
    assert "[  PASSED  ] 1 test." in shared.stdout and "[  SKIPPED ] 2 tests" in shared.stdout, shared.stdout
    assert shared.stdout.count("needs 2 GPUs, there are 1") == 2


def test_report_of_the_demo_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "demo.json"

    done = run([BUILD / "bin" / "amem_demo", "--simulate", "--ranks", 2, "--cycles", 1, "--json", path], tmp_path)

    assert done.returncode == 0, done.stderr
    path.write_text(path.read_text(encoding="utf-8").replace("simulated", "as if it were real"), encoding="utf-8")
    assert "100.0% of NCCL's" in reports.demo_reader(2, 3)(path)
