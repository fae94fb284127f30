# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""./dev gpu: pytest with the options below, on cases.py. Defines when a run counts as empty, and its output."""

import signal
from pathlib import Path
from typing import Any

import pytest

import cases
import programs
from machine import find_machine
from on_gpus import CASES, MACHINE, OnGpus


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("amem on GPUs")
    group.addoption("--build-dir", type=Path, help="run cases.py with the programs of this build folder")
    group.addoption("--nccl", type=Path, help="run the tests of any NCCL, with each libnccl*.so* of this folder")
    group.addoption("--nccl-tests", type=Path, help="run the programs of nccl-tests in this folder, with AMEM_CYCLE_EVERY")
    group.addoption("--share-gpus", action="store_true", help="ranks share GPUs where there are too few")


def pytest_configure(config: Any) -> None:
    if config.option.build_dir is None:
        return
    option = config.option
    config.stash[MACHINE] = find_machine(option.build_dir.resolve(), option.share_gpus, option.collectonly)
    machine = config.stash[MACHINE]
    if option.nccl:
        config.stash[CASES] = cases.cases_of_each_nccl(machine, option.nccl)
    elif option.nccl_tests:
        config.stash[CASES] = cases.cases_of_nccl_tests(machine, option.nccl_tests.resolve())
    else:
        config.stash[CASES] = cases.every_case(machine)
    if not option.collectonly:
        programs.adopt_orphans()
        # Ended from outside, it ends what it started and says what is known, as for Ctrl-C.
        signal.signal(signal.SIGTERM, lambda number, frame: pytest.exit("SIGTERM", 128 + number))


def pytest_report_header(config: Any) -> Any:
    found = config.stash.get(MACHINE, None)
    return [f"{found.gpus} GPUs, NCCL {found.nccl}"] if found and found.gpus else []


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Any:
    if MACHINE in parent.config.stash and file_path == Path(cases.__file__):
        return OnGpus.from_parent(parent, path=file_path)
    return None


def pytest_report_teststatus(report: Any) -> Any:
    """A program that passed has what it said in the place of the dot."""
    said = isinstance(report, pytest.TestReport) and dict(report.user_properties).get("result")
    if said and report.when == "call" and report.passed:
        return "passed", said, f"PASSED ({said})"
    return None


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A run in which nothing passed is no good one."""
    config = session.config
    has_run = MACHINE in config.stash and exitstatus == 0 and not config.option.collectonly
    if has_run and not config.pluginmanager.get_plugin("terminalreporter").stats.get("passed"):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
