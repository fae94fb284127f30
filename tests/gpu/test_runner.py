# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""run_gpu.py cannot call a failure good: programs that pass, fail, skip, hang and leave others behind."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import cases
import reports
from rows import FAIL, OK, SKIP, Row, all_good, table

HERE = Path(__file__).resolve().parent
PATIENCE_S = 60

# Runs cases in a process of its own: whoever does so has no other children.
RUNNER = """
import json, os, sys
from pathlib import Path
import case_run, reports
case_run.adopt_orphans()
for case in json.loads(sys.argv[2]):
    if "report" in case:
        case.update(report=Path(case["report"]), read_report=reports.read_gtest)
    for row in case_run.run_case(case_run.Case(**case), 2, dict(os.environ), Path(sys.argv[1])):
        print(json.dumps([row.name, row.result, row.detail]))
"""


def run_cases(folder, *wanted):
    """[name, result, detail] of each row."""
    command = [sys.executable, "-c", RUNNER, str(folder), json.dumps(wanted)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def shell(script, **settings):
    return {"name": "case", "command": ["sh", "-c", script], "timeout_s": 30, **settings}


def gtest_report(*test_cases):
    return f"<testsuites><testsuite name='S'>{''.join(test_cases)}</testsuite></testsuites>"


def gtest_case(result="completed", inside=""):
    return f"<testcase name='T' status='run' result='{result}'>{inside}</testcase>"


def skipped(reason):
    return gtest_case("skipped", f"<skipped message='a_test.cc:7&#x0A;{reason}&#x0A;'/>")


FAILED = gtest_case(inside="<failure message='wrong'/>")


@pytest.mark.parametrize(
    "script, result, detail",
    [
        ("echo 'result: 7 MiB'; echo more", OK, "7 MiB"),
        ("true", OK, ""),
        ("echo 'result: 7 MiB'; exit 3", FAIL, "exit code 3"),
        ("kill -9 $$", FAIL, "ended by SIGKILL"),
        ("read line || exit 5", FAIL, "exit code 5"),  # standard input is empty
    ],
)
def test_exit_code_judges_a_program(tmp_path, script, result, detail):
    assert run_cases(tmp_path, shell(script)) == [["case", result, detail]]


def test_output_goes_to_a_file(tmp_path):
    run_cases(tmp_path, shell("echo out; echo error >&2"))

    assert (tmp_path / "case.log").read_text(encoding="utf-8") == "out\nerror\n"


def test_program_that_is_not_there_fails(tmp_path):
    [[_, result, detail]] = run_cases(tmp_path, {"name": "case", "command": ["/no/such/file"], "timeout_s": 30})

    assert result == FAIL
    assert "/no/such/file" in detail


def test_too_few_gpus_skip_without_running(tmp_path):
    assert run_cases(tmp_path, shell(f"touch {tmp_path}/ran", gpus=3)) == [["case", SKIP, "needs 3 GPUs, there are 2"]]
    assert not (tmp_path / "ran").exists()


def is_gone(pid_file):
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text(encoding="utf-8")), 0)
    return True


def test_hanging_program_ends_with_what_it_started(tmp_path):
    # As torchrun's workers are: in a session of their own, deaf to SIGTERM.
    worker = f"trap '' TERM; echo $$ > {tmp_path}/worker; while :; do tail -f /dev/null; done"
    script = f'setsid sh -c "$WORKER" & echo $$ > {tmp_path}/leader; wait'

    rows = run_cases(tmp_path, shell(script, timeout_s=2, variables={"WORKER": worker, "PATH": os.environ["PATH"]}))

    assert rows == [["case", FAIL, "not done after 2 s"]]
    assert is_gone(tmp_path / "leader") and is_gone(tmp_path / "worker")


def test_what_a_good_program_leaves_behind_ends(tmp_path):
    [row] = run_cases(tmp_path, shell(f"setsid tail -f /dev/null & echo $! > {tmp_path}/left"))

    assert row[1] == OK
    assert is_gone(tmp_path / "left")


def test_report_of_an_earlier_run_does_not_count(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(gtest_report(gtest_case()), encoding="utf-8")

    [[_, result, detail]] = run_cases(tmp_path, shell("true", report=str(report)))

    assert result == FAIL
    assert "no report" in detail


def test_good_report_does_not_hide_the_exit_code(tmp_path):
    report = tmp_path / "report.xml"
    text = gtest_report(gtest_case())

    rows = run_cases(tmp_path, shell(f'printf %s "{text}" > {report}; kill -SEGV $$', report=str(report)))

    assert [row[1:] for row in rows] == [[OK, "1 passed"], [FAIL, "ended by SIGSEGV"]]


@pytest.mark.parametrize(
    "test_cases, findings",
    [
        ([gtest_case(), gtest_case()], [(OK, "2 passed")]),
        ([gtest_case(), FAILED], [(FAIL, "1 passed, 1 failed: T")]),
        ([skipped("needs 3 GPUs, there are 2")] * 2, [(SKIP, "2 skipped: needs 3 GPUs, there are 2")]),
        ([gtest_case(), skipped("not today")], [(OK, "1 passed"), (FAIL, "1 skipped: not today")]),
        ([gtest_case("skipped", "<skipped/>")], [(FAIL, "1 skipped: no reason given")]),
        ([gtest_case(), gtest_case("suppressed")], [(OK, "1 passed"), (FAIL, "1 disabled")]),
        ([], [(FAIL, "ran no test")]),
    ],
)
def test_gtest_report(tmp_path, test_cases, findings):
    path = tmp_path / "report.xml"
    path.write_text(gtest_report(*test_cases), encoding="utf-8")

    assert reports.read_gtest(path) == findings


def test_gtest_report_that_is_cut_off(tmp_path):
    path = tmp_path / "report.xml"
    path.write_text(gtest_report(gtest_case())[:-20], encoding="utf-8")

    with pytest.raises(ValueError, match="no GoogleTest report"):
        reports.read_gtest(path)


DEMO = {"gpu": "H200", "ranks": 2, "communicators": 3, "nccl_bytes": [100 << 20] * 2, "freed_bytes": [99 << 20] * 2}
DEMO.update({"pause_ms": 109.4, "resume_ms": 268.0, "cycles": 3, "verified": True})


@pytest.mark.parametrize(
    "changed, result, detail",
    [
        ({}, OK, "freed 99 MiB a GPU, 99.0% of NCCL's; pause 0.109 s, resume 0.268 s"),
        ({"freed_bytes": [100 << 20, 98 << 20]}, FAIL, "98.0% of NCCL's"),
        ({"verified": False}, FAIL, "verified"),
        ({"gpu": "simulated"}, FAIL, "no GPUs"),
        ({"ranks": 1}, FAIL, "(1, 3, 2, 2)"),
        ({"freed_bytes": [100 << 20]}, FAIL, "(2, 3, 1, 2)"),
    ],
)
def test_demo_report(tmp_path, changed, result, detail):
    path = tmp_path / "demo.json"
    path.write_text(json.dumps({**DEMO, **changed}), encoding="utf-8")

    [(found, text)] = reports.demo_reader(2, 3)(path)

    assert found == result
    assert detail in text


@pytest.mark.parametrize("text", ["", "{}", json.dumps({**DEMO, "nccl_bytes": [0, 0]})])
def test_demo_report_that_is_none(tmp_path, text):
    path = tmp_path / "demo.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ValueError):
        reports.demo_reader(2, 3)(path)


def test_table_counts_and_judges():
    good, bad, left = Row("a.b", OK, 1.25, "x"), Row("c", FAIL, 0.0), Row("d", SKIP, 0.0, "needs 3 GPUs")

    assert table([good, bad, left]).splitlines() == [
        "test  result  seconds  detail",
        "a.b   ok          1.2  x",
        "c     FAIL        0.0",
        "d     skip        0.0  needs 3 GPUs",
        "1 ok, 1 FAIL, 1 skip",
    ]
    assert all_good([good, left])
    assert not all_good([good, bad])
    assert not all_good([left])
    assert not all_good([])


class Build:
    """A build folder of small programs, on a machine with as many GPUs as its simulated driver has."""

    PROGRAMS = {
        "bin/amem": "",
        "bin/amem_rank": '[ -z "$NO_NCCL" ] && [ "${EXPECT_NCCL:-$AMEM_NCCL_PATH}" = "$AMEM_NCCL_PATH" ] && '
        "echo ${NCCL_VERSION_NUMBER:-22809}",
        "bin/amem_demo": 'while [ "$1" != --json ]; do shift; done; echo "$DEMO" > "$2"',
        "tests/process_test": 'case $1 in *list_tests) printf "main from a.cc\\nSuite.\\n  Test\\n";; '
        '*) echo "$GTEST" > "${2#*:}"; [ "$AMEM_TEST_SHARED_GPUS" = "$EXPECT_SHARED" ];; esac',
        "tests/driver_contract_test": 'echo "$GTEST" > "${2#*:}"',
        "tests/hooked_contract_test": 'echo "$GTEST" > "${2#*:}"',
        "tests/contract.hooked.flags": "",
        "tests/contract.in_slabs.flags": "",
        "tests/seeded_fault_test": 'echo "$GTEST" > "${1#*:}"',
        "tests/seeded/bin/amem_rank": "",
        "tests/seeded/lib/libnccl.so.2": "",
        "tests/seeded/lib/libamem_nccl.so": "",
        "lib/libnccl.so.2": "",
        "lib/libamem_nccl.so": "",
    }

    def __init__(self, folder):
        self.folder = folder
        for name, script in self.PROGRAMS.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            (folder / name).chmod(0o755)
        self.variables = {
            **os.environ,
            "LD_LIBRARY_PATH": str(Path(os.environ["AMEM_TEST_BUILD"], "sim")),
            "AMEM_SIM_DIR": str(folder / "machine"),
            "AMEM_SIM_DEVICES": "2",
            "GTEST": gtest_report(gtest_case()),
            "DEMO": json.dumps(DEMO),
        }

    def command(self, *options):
        return [sys.executable, str(HERE / "run_gpu.py"), "--build-dir", str(self.folder), *options]

    def run(self, *options, **variables):
        return subprocess.run(
            self.command(*options),
            env={**self.variables, **variables},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )


@pytest.fixture
def build(tmp_path):
    return Build(tmp_path)


WITHOUT_TORCH = ("--only", r"^(contract|process|seeded|demo\.3)")


def test_prints_one_table_and_writes_the_report(build):
    done = build.run(*WITHOUT_TORCH)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 GPUs, NCCL 2.28.9\n")
    assert done.stdout.endswith("10 ok, 0 FAIL, 0 skip\n")
    report = json.loads((build.folder / "gpu.json").read_text(encoding="utf-8"))
    assert (report["gpus"], report["nccl"], len(report["rows"])) == (2, "2.28.9", 10)


def test_one_failure_fails_and_shows_its_output(build):
    done = build.run(*WITHOUT_TORCH, DEMO="{}")

    assert done.returncode == 1
    assert "6 ok, 4 FAIL, 0 skip" in done.stdout
    assert "demo.3_communicators.log" in done.stderr


def test_one_gpu_is_said_and_counted(build):
    done = build.run(*WITHOUT_TORCH, AMEM_SIM_DEVICES="1")

    assert "5 ok, 0 FAIL, 5 skip" in done.stdout
    assert "needs 2 GPUs, there are 1" in done.stdout


@pytest.mark.parametrize("expected, says", [("2", "2 ok, 0 FAIL"), ("", "2 FAIL")])
def test_ranks_share_the_gpus_that_there_are(build, expected, says):
    done = build.run("--only", "process", "--share-gpus", NCCL_VERSION_NUMBER="23003", EXPECT_SHARED=expected)

    assert says in done.stdout


@pytest.mark.parametrize(
    "options, variables, says",
    [
        (["--only", "nothing_like_it"], {}, "no case"),
        (["--share-gpus"], {"AMEM_SIM_DEVICES": "1", "NCCL_VERSION_NUMBER": "23003"}, "2 GPUs, there are 1"),
        (["--share-gpus"], {"NCCL_VERSION_NUMBER": "23002"}, "NCCL 2.30.3, this is 2.30.2"),
        ([], {"LD_LIBRARY_PATH": "/none"}, "libcuda.so.1"),
        (["--build-dir", "/none"], {}, "has no bin/amem"),
        ([], {"NO_NCCL": "1"}, "AMEM_NCCL_PATH"),
    ],
)
def test_refuses_in_a_sentence(build, options, variables, says):
    done = build.run(*options, **variables)

    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr and "Traceback" not in done.stderr


def test_the_nccl_of_this_python_is_used(build):
    library = build.folder / "packages" / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    library.parent.mkdir(parents=True)
    library.touch()

    done = build.run("--only", "process", PYTHONPATH=str(build.folder / "packages"), EXPECT_NCCL=str(library))

    assert done.returncode == 0, done.stderr


def test_list_runs_nothing_and_needs_no_gpu(build):
    done = build.run("--list", LD_LIBRARY_PATH="/none")

    names = done.stdout.split()
    assert len(names) == len(set(names))
    assert {"contract", "process.Suite", "demo.9_communicators", "torch.rl_step"} <= set(names)
    assert not (build.folder / "gpu_logs").exists()


def test_ended_from_outside_leaves_nothing_and_tells_what_is_known(build):
    fifo = build.folder / "started"
    os.mkfifo(fifo)
    hanging = f"#!/bin/sh\nsetsid sh -c 'echo $$ > {fifo}; exec tail -f /dev/null'\n"
    (build.folder / "bin" / "amem_demo").write_text(hanging, encoding="utf-8")
    command = build.command("--only", "contract$|demo")
    with subprocess.Popen(command, env=build.variables, stdout=subprocess.PIPE, text=True) as runner:
        pid = int(fifo.read_text(encoding="utf-8"))

        runner.terminate()
        output, _ = runner.communicate(timeout=PATIENCE_S)

    assert runner.returncode == 128 + signal.SIGTERM
    assert output.endswith("1 ok, 0 FAIL, 0 skip\n")
    # It has been killed; on a busy machine it takes a moment to be gone.
    with contextlib.suppress(ProcessLookupError):
        ending = os.pidfd_open(pid)
        assert select.select([ending], [], [], PATIENCE_S)[0]
        os.close(ending)


def test_programs_of_the_cases_are_there():
    for case in cases.every_case(Path(os.environ["AMEM_TEST_BUILD"]), 2, Path("/none"), False):
        for word in case.command:
            assert not word.endswith(".py") or Path(word).is_file()
