# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""./dev gpu reports failures: programs that pass, fail, skip, hang and leave processes behind."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cases
from machine import Machine
from test_reports import DEMO, WRONG, gtest_case, gtest_report, skipped

HERE = Path(__file__).resolve().parent
PATIENCE_S = 60

# Runs a program in a process of its own: whoever does so has no other children.
RUNNER = """
import os, sys
from pathlib import Path
import programs
programs.adopt_orphans()
print(programs.run_program(sys.argv[3:], dict(os.environ), float(sys.argv[2]), Path(sys.argv[1])))
"""


def run_program(log: Path, *command: str, timeout_s: float = 30, **variables: str) -> str | None:
    """What went wrong with it."""
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, str(log), str(timeout_s), *command],
        cwd=HERE, env={**os.environ, **variables}, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "script, problem",
    [
        ("true", "None"),
        ("exit 3", "exit code 3"),
        ("kill -9 $$", "ended by SIGKILL"),
        ("read line || exit 5", "exit code 5"),  # standard input is empty
    ],
)
def test_exit_code_judges_a_program(tmp_path: Path, script: str, problem: str | None) -> None:
    assert run_program(tmp_path / "log", "sh", "-c", script) == problem


def test_output_goes_to_a_file(tmp_path: Path) -> None:
    run_program(tmp_path / "log", "sh", "-c", "echo out; echo error >&2")

    assert (tmp_path / "log").read_text(encoding="utf-8") == "out\nerror\n"


def test_program_that_is_not_there_fails(tmp_path: Path) -> None:
    assert "/no/such/file" in str(run_program(tmp_path / "log", "/no/such/file"))


def is_gone(pid_file: Path) -> bool:
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text(encoding="utf-8")), 0)
    return True


def test_hanging_program_ends_with_what_it_started(tmp_path: Path) -> None:
    # As torchrun's workers are: in a session of their own, deaf to SIGTERM.
    worker = f"trap '' TERM; echo $$ > {tmp_path}/worker; while :; do tail -f /dev/null; done"
    leader = f"trap 'touch {tmp_path}/asked; exit' TERM; echo $$ > {tmp_path}/leader"
    script = f'{leader}; setsid sh -c "$WORKER" & wait'

    assert run_program(tmp_path / "log", "sh", "-c", script, timeout_s=2, WORKER=worker) == "not done after 2 s"
    assert is_gone(tmp_path / "leader") and is_gone(tmp_path / "worker") and (tmp_path / "asked").exists()


def test_what_a_good_program_leaves_behind_ends(tmp_path: Path) -> None:
    left = f"setsid tail -f /dev/null & echo $! > {tmp_path}/left"

    assert run_program(tmp_path / "log", "sh", "-c", left) == "None"
    assert is_gone(tmp_path / "left")


class Build:
    """A build folder of small programs, on a machine with as many GPUs as its simulated driver has."""

    GTEST = (
        'for word; do case $word in *list_tests) printf "${LISTED-main from a.cc\\nSuite.\\n  Test\\n}"; exit;; '
        '--gtest_output=*) [ -z "$GTEST" ] || echo "$GTEST" > "${word#*:}";; '
        '--gtest_filter=*) echo "$word";; esac; done\nexit ${GTEST_CODE:-0}'
    )
    PROGRAMS = {
        "bin/amem": "",
        "bin/amem_rank": '[ -z "$NO_NCCL" ] && [ "${EXPECT_NCCL:-$AMEM_NCCL_PATH}" = "$AMEM_NCCL_PATH" ] && '
        "echo ${NCCL_VERSION_NUMBER:-22809}",
        "bin/amem_demo": 'while [ "$1" != --json ]; do shift; done; echo said more; echo "$DEMO" > "$2"',
        "tests/process_test": '[ "$1" = "--gtest_list_tests" ] || [ "$AMEM_TEST_SHARED_GPUS" = "$EXPECT_SHARED" ] || '
        "[ -z \"$AMEM_TEST_REAL_GPU\" ] || exit 9\n" + GTEST,
        "tests/driver_contract_test": GTEST,
        "tests/hooked_contract_test": GTEST,
        "tests/contract.hooked.flags": "",
        "tests/contract.in_slabs.flags": "",
        "tests/seeded_fault_test": GTEST,
        "tests/seeded/bin/amem_rank": "",
        "tests/seeded/lib/libnccl.so.2": "",
        "tests/seeded/lib/libamem_nccl.so": "",
        "tests/seeded/lib/libamem_symmetric.so": "",
        "examples/symmetric": "",
        "lib/libnccl.so.2": "",
        "lib/libamem_cycles.so": "",
        "lib/torch_memory_saver_hook_mode_preload.abi3.so": "",
        "lib/libamem_nccl.so": "",
        "lib/libamem_symmetric.so": "",
    }

    def __init__(self, folder: Path) -> None:
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

    def command(self, *options: str) -> list[str]:
        pytest_on = [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", str(HERE / "cases.py")]
        return [*pytest_on, "--build-dir", str(self.folder), *options]

    def run(self, *options: str, **variables: str) -> Any:
        return subprocess.run(
            self.command(*options),
            env={**self.variables, **variables},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )


@pytest.fixture
def build(tmp_path: Path) -> Build:
    return Build(tmp_path)


WITHOUT_TORCH = ("-k", "contract or process or seeded or demo.3")


def test_everything_that_passes_is_counted(build: Build) -> None:
    done = build.run(*WITHOUT_TORCH)

    assert done.returncode == 0, done.stdout
    assert "\n2 GPUs, NCCL 2.28.9\n" in done.stdout
    assert "demo.3_communicators freed 99 MiB a GPU" in done.stdout
    assert "= 10 passed, " in done.stdout


def test_one_failure_fails_and_shows_its_output(build: Build) -> None:
    done = build.run(*WITHOUT_TORCH, DEMO="{}")

    assert done.returncode == 1
    assert "4 failed, 6 passed" in done.stdout
    assert "said more" in done.stdout and "demo.3_communicators.log" in done.stdout


@pytest.mark.parametrize(
    "variables, says",
    [
        ({"GTEST": gtest_report(WRONG), "GTEST_CODE": "1"}, "wrong ("),
        ({"GTEST": gtest_report(skipped("not today"))}, "skipped: not today"),
        ({"GTEST": gtest_report()}, "did not run"),
        ({"GTEST": gtest_report(gtest_case())[:-9]}, "exit code 0, no good report"),
        ({"GTEST_CODE": "1"}, "exit code 1"),
        ({"GTEST_CODE": "139"}, "exit code 139"),
        ({"GTEST": ""}, "exit code 0, no good report"),
    ],
)
def test_a_test_that_did_not_pass_fails(build: Build, variables: dict[str, str], says: str) -> None:
    (build.folder / "gpu_logs").mkdir()
    # That of an earlier run does not count.
    (build.folder / "gpu_logs" / "contract.report").write_text(gtest_report(gtest_case()), encoding="utf-8")

    done = build.run("-k", "contract and not contract.", **variables)

    assert done.returncode == 1 and " passed" not in done.stdout
    assert says in done.stdout and "Traceback" not in done.stdout + done.stderr


def test_of_one_that_crashes_after_a_failure_nothing_passes(build: Build) -> None:
    both = gtest_report(gtest_case(name="Other"), WRONG)

    done = build.run("-k", "seeded", GTEST=both, GTEST_CODE="134", LISTED="Suite.\\n  Test\\n  Other\\n")

    assert "= 2 failed, " in done.stdout


def test_only_tests_that_were_chosen_are_run(build: Build) -> None:
    both = gtest_report(gtest_case(name="Other"), gtest_case())

    done = build.run("-k", "Other", GTEST=both, LISTED="Suite.\\n  Test\\n  Other  # GetParam() = 1\\n")

    assert "= 6 passed, " in done.stdout
    for log in (build.folder / "gpu_logs").glob("*.log"):
        assert log.read_text(encoding="utf-8") == "--gtest_filter=Suite.Other\n"


def test_one_gpu_is_said_and_counted(build: Build) -> None:
    done = build.run(*WITHOUT_TORCH, AMEM_SIM_DEVICES="1")

    assert done.returncode == 0, done.stdout
    assert "SKIPPED [5]" in done.stdout and "needs 2 GPUs, there are 1" in done.stdout
    assert "5 passed, 5 skipped" in done.stdout


def test_a_missing_tool_is_said_and_counted(build: Build) -> None:
    done = build.run("-k", "symmetric.memcheck or symmetric.racecheck", PATH="/none", CUDA_HOME="/none")

    assert done.returncode == 5, done.stdout
    assert "SKIPPED [2]" in done.stdout and "there is no compute-sanitizer" in done.stdout


def test_the_kernels_run_under_the_sanitizer(build: Build) -> None:
    """Of one that finds an error the exit code counts."""
    tools = build.folder / "tools"
    tools.mkdir()
    sanitizer = tools / "compute-sanitizer"
    sanitizer.write_text('#!/bin/sh\n[ "$1 $3 $4" = "--tool --error-exitcode 9" ] && shift 4 && "$@"\n'
                         'echo "========= ERROR SUMMARY"\n[ -z "$FINDS" ] || exit 9\n', encoding="utf-8")
    sanitizer.chmod(0o755)
    (build.folder / "bin" / "amem_rank").unlink()
    (build.folder / "bin" / "amem_rank").symlink_to(Path(os.environ["AMEM_TEST_BUILD"], "bin", "amem_rank"))
    path, library = f"{tools}:{os.environ['PATH']}", str(Path(os.environ["AMEM_TEST_BUILD"], "sim", "libnccl.so.2"))
    variables = {"PATH": path, "AMEM_NCCL_PATH": library}

    good = build.run("-k", "symmetric.memcheck", **variables)
    bad = build.run("-k", "symmetric.memcheck", **variables, FINDS="1")

    assert good.returncode == 0 and "all kernels, two ranks: right results" in good.stdout, good.stdout + good.stderr
    assert bad.returncode == 1 and "rank 0: exit code 9" in bad.stdout, bad.stdout + bad.stderr


@pytest.mark.parametrize(
    "options, variables", [(["-k", "demo"], {"AMEM_SIM_DEVICES": "1"}), (["-k", "nothing_like_it"], {})]
)
def test_nothing_that_ran_is_no_success(build: Build, options: Any, variables: dict[str, str]) -> None:
    done = build.run(*options, **variables)

    assert done.returncode == 5, done.stdout
    assert not (build.folder / "gpu_logs" / "demo.3_communicators.log").exists()


@pytest.mark.parametrize("expected, says", [("2", "= 2 passed, "), ("", "= 2 failed, ")])
def test_ranks_share_the_gpus_that_there_are(build: Build, expected: Any, says: str) -> None:
    done = build.run("-k", "process", "--share-gpus", NCCL_VERSION_NUMBER="23003", EXPECT_SHARED=expected)

    assert says in done.stdout


@pytest.mark.parametrize(
    "options, variables, says",
    [
        (["--share-gpus"], {"AMEM_SIM_DEVICES": "1", "NCCL_VERSION_NUMBER": "23003"}, "2 GPUs, there are 1"),
        (["--share-gpus"], {"NCCL_VERSION_NUMBER": "23002"}, "NCCL 2.30.3, this is 2.30.2"),
        ([], {"LD_LIBRARY_PATH": "/none"}, "libcuda.so.1"),
        (["--build-dir", "/none"], {}, "has no bin/amem"),
        ([], {"NO_NCCL": "1"}, "AMEM_NCCL_PATH"),
        ([], {"LISTED": "main from a.cc"}, "has no tests"),
    ],
)
def test_refuses_in_a_sentence(build: Build, options: Any, variables: dict[str, str], says: str) -> None:
    done = build.run(*options, **variables)

    assert (done.returncode, done.stdout) == (pytest.ExitCode.USAGE_ERROR, "")
    assert says in done.stderr and "Traceback" not in done.stderr


def test_the_nccl_of_this_python_is_used(build: Build) -> None:
    library = build.folder / "packages" / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    library.parent.mkdir(parents=True)
    library.touch()

    packages = os.pathsep.join([str(build.folder / "packages"), os.environ.get("PYTHONPATH", "")])
    done = build.run("-k", "process", PYTHONPATH=packages, EXPECT_NCCL=str(library))

    assert done.returncode == 0, done.stdout + done.stderr


def test_list_runs_nothing_and_needs_no_gpu(build: Build) -> None:
    done = build.run("--collect-only", "-q", LD_LIBRARY_PATH="/none")

    assert done.returncode == 0
    names = done.stdout.split()
    assert {"contract::Suite.Test", "process.Suite::Suite.Test", "torch.rl_step::program"} <= set(names)
    assert not (build.folder / "gpu_logs").exists()


def test_ended_from_outside_leaves_nothing_and_tells_what_is_known(build: Build) -> None:
    fifo = build.folder / "started"
    os.mkfifo(fifo)
    hanging = f"#!/bin/sh\nsetsid sh -c 'echo $$ > {fifo}; exec tail -f /dev/null'\n"
    (build.folder / "bin" / "amem_demo").write_text(hanging, encoding="utf-8")
    command = build.command("-k", "(contract and not contract.) or demo")
    with subprocess.Popen(command, env=build.variables, stdout=subprocess.PIPE, text=True) as runner:
        pid = int(fifo.read_text(encoding="utf-8"))

        runner.terminate()
        output, _ = runner.communicate(timeout=PATIENCE_S)

    assert runner.returncode == 128 + signal.SIGTERM
    assert "= 1 passed, " in output
    # It has been killed; on a busy machine it takes a moment to be gone.
    with contextlib.suppress(ProcessLookupError):
        ending = os.pidfd_open(pid)
        assert select.select([ending], [], [], PATIENCE_S)[0]
        os.close(ending)


@pytest.mark.parametrize("header_version, count", [("9", 4), ("8", 3), (None, 3)])
def test_each_nccl_has_its_demos_and_with_its_headers_a_device_communicator(build: Build, header_version: str, count: Any) -> None:
    nccl, tools = build.folder / "nccl", build.folder / "tools"
    (nccl / "include").mkdir(parents=True)
    (nccl / "libnccl.so.2.28.9").touch()
    if header_version:
        numbers = zip(("MAJOR", "MINOR", "PATCH"), ("2", "28", header_version))
        text = "".join(f"#define NCCL_{name} {number}\n" for name, number in numbers)
        (nccl / "include" / "nccl.h").write_text(text, encoding="utf-8")
        (nccl / "include" / "nccl_device.h").touch()
    tools.mkdir()
    # What it compiles is a program that both ranks start.
    (tools / "nvcc").write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; echo built "$2"\n', encoding="utf-8")
    (tools / "nvcc").chmod(0o755)
    (build.folder / "bin" / "amem").write_text('#!/bin/sh\necho "rank $RANK of $WORLD_SIZE: $3"\n', encoding="utf-8")
    demo = build.folder / "bin" / "amem_demo"
    demo.write_text(demo.read_text(encoding="utf-8") + 'echo "by ${NCCL_PROTO:-any}"\n', encoding="utf-8")

    done = build.run(f"--nccl={nccl}", PATH=f"{tools}:{os.environ['PATH']}", NCCL_VERSION_NUMBER="22809")

    logs = build.folder / "gpu_logs"
    assert done.returncode == 0 and f"= {count} passed" in done.stdout, done.stdout
    assert (logs / "nccl.2.28.9.demo.log").read_text(encoding="utf-8").count("by any") == 1
    text = (logs / "nccl.2.28.9.demo.protocols.log").read_text(encoding="utf-8")
    by = [line for line in text.split("\n") if "by" in line]
    assert by == ["by LL", "by LL128", "by Simple"]
    log = logs / "nccl.2.28.9.device_communicator.log"
    ran = log.exists() and {f"rank {rank} of 2" in log.read_text(encoding="utf-8") for rank in (0, 1)} == {True}
    assert ran == (header_version == "9")


def test_programs_of_the_cases_are_there() -> None:
    machine = Machine(Path(os.environ["AMEM_TEST_BUILD"]), 2, "", False, dict(os.environ))
    for case in cases.every_case(machine):
        for word in case.command:
            assert not word.endswith(".py") or Path(word).is_file()
