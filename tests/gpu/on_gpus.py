# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The cases as pytest items: each program runs once, with the selected tests, and each test has its own result.

A test passes if its program reports it as passed and ends with exit code 0. It is skipped only if the machine lacks
something that it needs. The output of the programs is in BUILD_DIR/gpu_logs.
"""

from typing import Any

import pytest

import programs
from case import REPORT, Case
from machine import Machine
from reports import FAILED, SKIPPED, read_gtest

MACHINE = pytest.StashKey[Machine]()
CASES = pytest.StashKey[list[Case]]()
_LAST_LINES = 25
_SAYS = "result: "


class OnGpus(pytest.File):
    def collect(self) -> Any:
        for case in self.config.stash[CASES]:
            yield Program.from_parent(self, name=case.name, nodeid=case.name, case=case)


class Program(pytest.Collector):
    """One case. `problem` is one of all of its tests."""

    def __init__(self, *, case: Case, **rest: Any) -> None:
        super().__init__(**rest)
        self.case, self.machine = case, self.config.stash[MACHINE]
        logs = self.machine.build / "gpu_logs"
        self.log, self._report = logs / f"{self.name}.log", logs / f"{self.name}.report"
        self.ran, self.problem, self.said, self.outcomes = False, "", "", {}

    def collect(self) -> Any:
        for test in self.case.tests if self.case.tests is not None else ["program"]:
            yield GpuTest.from_parent(self, name=test)

    def run(self) -> None:
        """Once, for the first of the tests that were chosen."""
        if self.ran:
            return
        self.ran = True
        self.log.parent.mkdir(exist_ok=True)
        self._report.unlink(missing_ok=True)  # an old one is no result
        command = [word.replace(REPORT, str(self._report)) for word in self.case.command]
        if self.case.tests is not None:
            tests = [item.name for item in self.session.items if item.parent is self]
            command += [f"--gtest_filter={':'.join(tests)}", f"--gtest_output=xml:{self._report}"]
        variables = {**self.machine.variables, **self.case.variables}
        self.problem = programs.run_program(command, variables, self.case.timeout_s, self.log) or ""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        self._read(lines)
        if self.problem:
            print("\n".join(lines[-_LAST_LINES:]))

    def _read(self, lines: list[str]) -> None:
        said = [line[len(_SAYS) :] for line in lines if line.startswith(_SAYS)]
        self.said = said[-1] if said else ""
        try:
            if self.case.tests is not None:
                self.outcomes = read_gtest(self._report)
            elif self.case.read_report is not None and not self.problem:
                has_report = any(REPORT in word for word in self.case.command)
                self.said = self.case.read_report(self._report if has_report else self.log)
        except (OSError, ValueError) as error:
            self.problem = f"{self.problem or 'exit code 0'}, no good report: {error}"
        if self.problem == "exit code 1" and any(outcome == FAILED for outcome, _ in self.outcomes.values()):
            self.problem = ""  # that of the tests that failed


class GpuTest(pytest.Item):
    """A test of a GoogleTest program, or the whole of another one."""

    def runtest(self) -> None:
        program, have = self.parent, self.parent.machine.gpus
        if have < program.case.gpus:
            pytest.skip(f"needs {program.case.gpus} GPUs, there are {have}")
        if program.case.lacks:
            pytest.skip(program.case.lacks)
        program.run()
        if program.problem:
            pytest.fail(f"{program.problem} ({program.log})", pytrace=False)
        if program.case.tests is None:
            self.user_properties.append(("result", program.said))
            return
        outcome, why = program.outcomes.get(self.name, (FAILED, "did not run"))
        if outcome == SKIPPED:
            pytest.skip(why)
        if outcome == FAILED:
            pytest.fail(f"{why} ({program.log})", pytrace=False)

    def reportinfo(self) -> Any:
        return self.path, None, self.nodeid
