# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""run_gpu.py with the programs that it runs on GPUs, on simulated ones: LD_LIBRARY_PATH is the difference."""

import json
import os
import subprocess
import sys
from pathlib import Path

import reports
from rows import OK

BUILD = Path(os.environ["AMEM_TEST_BUILD"])
RUN_GPU = Path(__file__).resolve().with_name("run_gpu.py")
PATIENCE_S = 240


def run(command, folder, **more):
    """The result of a command on a machine with two simulated GPUs."""
    simulator = BUILD / "sim"
    variables = {
        **os.environ,
        **more,
        "LD_LIBRARY_PATH": str(simulator),
        "AMEM_NCCL_PATH": str(simulator / "libnccl.so.2"),
        "AMEM_SIM_DIR": str(folder / "machine"),
        "AMEM_SIM_DEVICES": "2",
        "AMEM_SIM_MEMORY_MB": "1024",
    }
    return subprocess.run(
        [str(word) for word in command], env=variables, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_the_contract_and_a_process_suite_give_good_rows(tmp_path):
    options = ["--build-dir", BUILD, "--report", tmp_path / "gpu.json", "--logs", tmp_path / "logs"]

    done = run([sys.executable, RUN_GPU, *options, "--only", r"^(contract|process\.PauseResume)$"], tmp_path)

    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))["rows"]
    assert [(row["name"], row["result"]) for row in rows] == [("contract", OK), ("process.PauseResume", OK)]


def test_four_ranks_share_two_gpus(tmp_path):
    name = "FirstIsRank/EveryOrder.OfLeavingAndReturning/0"
    command = [BUILD / "tests" / "process_test", f"--gtest_filter={name}"]
    variables = {"AMEM_TEST_REAL_GPU": "1", "AMEM_TEST_RANK_PROGRAM": str(BUILD / "bin" / "amem_rank")}

    alone = run(command, tmp_path, **variables)
    shared = run(command, tmp_path, **variables, AMEM_TEST_SHARED_GPUS="2")

    assert f"[  SKIPPED ] {name}" in alone.stdout and "needs 4 GPUs, there are 2" in alone.stdout
    assert f"[       OK ] {name}" in shared.stdout, shared.stdout
    assert shared.returncode == 0


def test_report_of_the_demo_is_understood(tmp_path):
    path = tmp_path / "demo.json"

    done = run([BUILD / "bin" / "amem_demo", "--simulate", "--ranks", 2, "--cycles", 1, "--json", path], tmp_path)

    assert done.returncode == 0, done.stderr
    path.write_text(path.read_text(encoding="utf-8").replace("simulated", "as if it were real"), encoding="utf-8")
    [(result, detail)] = reports.demo_reader(2, 3)(path)
    assert result == OK and "100.0% of NCCL's" in detail
