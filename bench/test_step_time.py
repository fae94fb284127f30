# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""step_time.py with stand-ins for amem and torchrun."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import step_time

# A step takes 3 ms in each job with amem, and 2, 3 and 4 ms in those without.
TORCHRUN = """#!/bin/sh
FAILURE
cd "$(dirname "$0")"
echo "${VARIANT:-without} $*" >> jobs
if [ "$VARIANT" = with ]; then ms=3; else ms=$(($(grep -c without jobs) + 1)); fi
printf 'result: {"Launches": {"before": {"p10": %d}}}' $ms
"""
AMEM = """#!/bin/sh
shift 2
VARIANT=with exec "$@"
"""


@pytest.fixture(name="on_path")
def fixture_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes the stand-ins."""

    def write(failure: str = "") -> Path:
        for name, text in (("torchrun", TORCHRUN.replace("FAILURE", failure)), ("amem", AMEM)):
            (tmp_path / name).write_text(text, encoding="utf-8")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        return tmp_path / "jobs"

    return write


def test_jobs_run_in_turns_in_both_orders(
    on_path: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = on_path()
    monkeypatch.setattr(sys, "argv", ["step_time.py", "--pairs", "3", "--gpus", "4"])
    step_time.main()
    words = [line.split() for line in jobs.read_text().splitlines()]
    assert [each[0] for each in words] == ["without", "with", "with", "without", "without", "with"]
    assert {tuple(each[1:]) for each in words} == {("--nproc-per-node=4", str(step_time.JOB), "--no-pauses")}
    assert capsys.readouterr().out.splitlines()[-1] == "| Launches, p10 | 3.00 (2.00–4.00) | 3.00 (3.00–3.00) | 1.000 | 1.500 |"


@pytest.mark.parametrize("failure", ["echo no GPU >&2; exit 1", "exit 0"])
def test_job_that_fails_is_shown(on_path: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, failure: str) -> None:
    on_path(failure)
    monkeypatch.setattr(sys, "argv", ["step_time.py"])
    with pytest.raises(SystemExit, match=r"torchrun.*failed"):
        step_time.main()
