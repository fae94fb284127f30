# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The readers of reports, with good, bad and incomplete ones."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import reports
from reports import FAILED, PASSED, SKIPPED

HERE = Path(__file__).resolve().parent


def gtest_report(*test_cases: str) -> str:
    return f"<testsuites><testsuite name='Suite'>{''.join(test_cases)}</testsuite></testsuites>"


def gtest_case(result: str = "completed", inside: str = "", name: str = "Test") -> str:
    return f"<testcase name='{name}' classname='Suite' status='run' result='{result}'>{inside}</testcase>"


def skipped(reason: str) -> str:
    return gtest_case("skipped", f"<skipped message='a_test.cc:7&#x0A;{reason}&#x0A;'/>")


WRONG = gtest_case(inside="<failure message='wrong'/>")


@pytest.mark.parametrize(
    "test_case, outcome",
    [
        (gtest_case(), (PASSED, "")),
        (WRONG, (FAILED, "wrong")),
        (skipped("needs 3 GPUs, there are 2"), (SKIPPED, "needs 3 GPUs, there are 2")),
        (skipped("a stock NCCL has no function that amem does not know"),
         (SKIPPED, "a stock NCCL has no function that amem does not know")),
        (skipped("this NCCL has no ncclAlltoAll"), (SKIPPED, "this NCCL has no ncclAlltoAll")),
        (skipped("not today"), (FAILED, "skipped: not today")),
        (gtest_case("skipped", "<skipped/>"), (FAILED, "skipped: no reason given")),
        (gtest_case("suppressed"), (FAILED, "disabled")),
    ],
)
def test_gtest_report(tmp_path: Path, test_case: str, outcome: Any) -> None:
    path = tmp_path / "report.xml"
    path.write_text(gtest_report(gtest_case(name="Other"), test_case), encoding="utf-8")

    assert reports.read_gtest(path) == {"Suite.Other": (PASSED, ""), "Suite.Test": outcome}


def skips_on_real_gpus() -> Any:
    """What the tests say that need a simulated GPU."""
    sources = [source.read_text(encoding="utf-8") for source in (HERE.parent / "process").glob("*_test.cc")]
    return sorted(set(re.findall(r'if \(real_gpu\(\)\)\s+GTEST_SKIP\(\) << "([^"]+)"', "\n".join(sources))))


@pytest.mark.parametrize("reason", skips_on_real_gpus())
def test_a_test_that_needs_a_simulated_gpu_is_skipped(tmp_path: Path, reason: str) -> None:
    path = tmp_path / "report.xml"
    path.write_text(gtest_report(skipped(reason)), encoding="utf-8")

    assert reports.read_gtest(path) == {"Suite.Test": (SKIPPED, reason)}


def test_gtest_report_that_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    path.write_text(gtest_report(gtest_case())[:-20], encoding="utf-8")

    with pytest.raises(ValueError, match="no GoogleTest report"):
        reports.read_gtest(path)


DEMO = {"gpu": "H200", "ranks": 2, "communicators": 3, "nccl_bytes": [100 << 20] * 2, "freed_bytes": [99 << 20] * 2}
DEMO.update({"pause_ms": 109.4, "resume_ms": 268.0, "cycles": 3, "verified": True})


def read_demo(folder: Path, text: str) -> Any:
    path = folder / "demo.json"
    path.write_text(text, encoding="utf-8")
    return reports.demo_reader(2, 3)(path)


def test_demo_report(tmp_path: Path) -> None:
    said = "freed 99 MiB a GPU, 99.0% of NCCL's; pause 0.109 s, resume 0.268 s"

    assert read_demo(tmp_path, json.dumps(DEMO)) == said


@pytest.mark.parametrize(
    "changed, says",
    [
        ({"freed_bytes": [100 << 20, 98 << 20]}, "98.0% of NCCL's"),
        ({"verified": False}, "verified"),
        ({"gpu": "simulated"}, "no GPUs"),
        ({"ranks": 1}, r"\(1, 3, 2, 2\)"),
        ({"freed_bytes": [100 << 20]}, r"\(2, 3, 1, 2\)"),
        ({"nccl_bytes": [0, 0]}, "no report"),
        ({"pause_ms": None}, "no report"),
    ],
)
def test_demo_report_that_is_no_good_one(tmp_path: Path, changed: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_demo(tmp_path, json.dumps({**DEMO, **changed}))


SYMMETRIC = {"gpu": "H200", "ranks": 2, "freed_bytes": [98 << 20] * 2, "verified": True}


def read_symmetric_demo(folder: Path, report: Any) -> Any:
    path = folder / "symmetric.json"
    path.write_text(json.dumps(report), encoding="utf-8")
    return reports.symmetric_demo_reader(2)(path)


def test_report_of_the_symmetric_demo(tmp_path: Path) -> None:
    assert read_symmetric_demo(tmp_path, SYMMETRIC) == "freed 98 MiB a GPU"


@pytest.mark.parametrize(
    "changed, says",
    [
        ({"gpu": "simulated"}, "simulated"),
        ({"verified": False}, "False"),
        ({"ranks": 1}, "'H200', 1, True"),
        ({"freed_bytes": [98 << 20]}, "1 ranks"),
        ({"freed_bytes": [98 << 20, 63 << 20]}, "bytes only"),
        ({"freed_bytes": None}, "no report"),
    ],
)
def test_report_of_the_symmetric_demo_that_is_no_good_one(tmp_path: Path, changed: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_symmetric_demo(tmp_path, {**SYMMETRIC, **changed})


NCCL_TESTS = "vm:1:1 [-] AMEM INFO paused nccl in 0.01 s\n# Out of bounds values : 0 OK\n"


def test_output_of_nccl_tests(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(NCCL_TESTS, encoding="utf-8")

    assert reports.read_nccl_tests(path) == "1 pauses, no wrong value"


@pytest.mark.parametrize(
    "said", [NCCL_TESTS.replace("0 OK", "3 FAILED"), "", NCCL_TESTS.partition("\n")[2], NCCL_TESTS + " AMEM WARN no\n"]
)
def test_output_of_nccl_tests_that_is_no_good_one(tmp_path: Path, said: str) -> None:
    path = tmp_path / "log"
    path.write_text(said, encoding="utf-8")

    with pytest.raises(ValueError):
        reports.read_nccl_tests(path)
