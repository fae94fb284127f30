# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What amem run sets and amem env prints."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import TIMEOUT_S, Amem, assert_sentence


def test_sets_what_the_options_say(amem: Amem) -> None:
    options = ["--cumem", "respect", "--group", "3", "--log", "5", "--timeout-ms", "250"]

    job = amem.job_variables(*options)

    assert {name: value for name, value in job.items() if name.startswith(("AMEM_", "LD_"))} == {
        "AMEM_ENABLE": "1",
        "AMEM_CUMEM": "respect",
        "AMEM_GROUP": "3",
        "AMEM_LOG": "5",
        "AMEM_TIMEOUT_MS": "250",
        "LD_PRELOAD": amem.preload,
    }


def test_a_group_has_a_name_or_a_number(amem: Amem) -> None:
    assert amem.job_variables("--group", "train")["AMEM_GROUP"] == "train"
    assert amem.job_variables("--group", "7", AMEM_GROUP="train")["AMEM_GROUP"] == "7"
    assert_sentence(amem("run", "--group", "a b", "--", "true"), 2, "--group a b is not a name")


def test_keeps_everything_else(amem: Amem) -> None:
    job = amem.job_variables("--log", "2", AMEM_GROUPID="4", AMEM_LOG="5", AMEM_ENABLE="0", OTHER="a\nb '")

    assert (job["AMEM_GROUPID"], job["OTHER"]) == ("4", "a\nb '")
    assert (job["AMEM_LOG"], job["AMEM_ENABLE"]) == ("2", "1")


@pytest.mark.parametrize(
    "option", [("--log", "6"), ("--log", "x"), ("--group", "-1"), ("--timeout-ms", "0"), ("--cumem", "x"),
               ("--tensors", "nccl"), ("--simulate", "0"), ("--simulate", "x")]
)
def test_refuses_what_is_out_of_range(amem: Amem, option: tuple[str, str]) -> None:
    assert_sentence(amem("run", "=".join(option), "--", "true"), 2, " ".join(option) + " is ")
    assert_sentence(amem("env", *option), 2, " ".join(option) + " is ")


def test_refuses_an_empty_value(amem: Amem) -> None:
    assert_sentence(amem("run", "--log", "", "--", "true"), 2, "--log")
    assert_sentence(amem("run", "--log=", "--", "true"), 2, "--log")


def test_eval_of_env_equals_run(amem: Amem) -> None:
    settings = {"LD_PRELOAD": "/a'b/$HOME/`x`.so"}
    by_run = amem.job_variables("--group", "2", **settings)

    shell = subprocess.run(
        ["sh", "-c", 'eval "$("$0" env --group 2)"; exec env -0', amem.command],
        env=amem.variables(**settings),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )

    by_env = dict(row.split("=", 1) for row in shell.stdout.split("\0") if row)
    passing = ("_", "PWD", "OLDPWD", "SHLVL")  # the shell's own
    for name in passing:
        by_env.pop(name, None)
        by_run.pop(name, None)
    assert by_env == by_run
    assert by_env["LD_PRELOAD"].endswith(":" + amem.preload)


def test_env_prints_exports_only(amem: Amem) -> None:
    done = amem("env", "--log", "4")

    assert done.returncode == 0
    assert all(re.fullmatch(r"export [A-Z_]+='[^']*'", line) for line in done.stdout.splitlines())
    assert "export AMEM_LOG='4'" in done.stdout.splitlines()


def test_json_is_rays_runtime_env(amem: Amem) -> None:
    quotes = '/a"b\\.so'

    printed = json.loads(amem("env", "--json", "--group", "2", LD_PRELOAD=quotes).stdout)

    assert printed == {
        "env_vars": {"AMEM_ENABLE": "1", "AMEM_GROUP": "2", "LD_PRELOAD": f"{quotes}:{amem.preload}"}
    }


def test_env_passes_on_what_is_set(amem: Amem) -> None:
    """Workers of Ray inherit the environment of Ray, not that of this process."""
    settings = {"AMEM_TMS": "1", "AMEM_TMS_NCCL": "weights", "AMEM_LOG": "5", "GMM_LOG": "3", "TMS": "1", "AMEM_a;b": "1"}

    printed = json.loads(amem("env", "--json", "--log", "2", **settings).stdout)["env_vars"]

    assert printed == {
        "AMEM_ENABLE": "1",
        "AMEM_LOG": "2",
        "AMEM_TMS": "1",
        "AMEM_TMS_NCCL": "weights",
        "GMM_LOG": "3",
        "LD_PRELOAD": amem.preload,
    }
    assert "export AMEM_TMS_NCCL='weights'" in amem("env", **settings).stdout.splitlines()


def test_json_refuses_what_it_cannot_carry(amem: Amem, tmp_path: Path) -> None:
    library = tmp_path / os.fsdecode(b"\xff.so")
    library.symlink_to(amem.preload)

    assert_sentence(amem("env", "--json", LD_PRELOAD=str(library)), 1, "UTF-8")
    assert amem("env", LD_PRELOAD=str(library)).returncode == 0


def test_list_has_every_variable(amem: Amem) -> None:
    source = Path(os.environ["AMEM_TEST_SOURCE"]) / "src/base/environment.def"
    rows = re.findall(r"^AMEM_VARIABLE\((\w+), [\w.]+, (\w+), ", source.read_text(encoding="utf-8"), re.MULTILINE)

    listed = amem("env", "--list").stdout.splitlines()

    order = ["every_job", "experts", "other_name"]
    expected = [name for audience in order for of, name in rows if of == audience]
    assert [line.split()[0] for line in listed if re.match("AMEM_|GMM_", line)] == expected
    assert "AMEM_TIMEOUT_MS" in amem("env", "--help").stdout
    # Unset is neither 0 nor 1, as docs/settings.md says too.
    assert re.search(r"^AMEM_ENABLE +unset +0, 1 ", "\n".join(listed), re.MULTILINE)
    assert "also false, no, off and true, yes, on" in amem("env", "--help").stdout
    assert re.search(r"^AMEM_CUMEM +force +force, respect ", "\n".join(listed), re.MULTILINE)
    assert_sentence(amem("env", "--list", "--json"), 2)


def test_unknown_variable_is_named_once_by_the_job_and_never_by_others(amem: Amem, tmp_path: Path) -> None:
    # Asked twice: the complaint is one line all the same.
    code = "import ctypes; shim = ctypes.CDLL(None); shim.amemGetState(); shim.amemGetState()"
    driver = {"LD_LIBRARY_PATH": str(amem.folder / "sim"), "AMEM_SIM_DIR": str(tmp_path), "AMEM_TIMEOUT": "5"}

    job = amem("run", "--", sys.executable, "-c", code, **driver)

    assert job.returncode == 0
    assert job.stderr.count("\n") == 1 and "AMEM_TIMEOUT " in job.stderr
    assert amem("run", "--", "true", **driver).stderr == ""


def test_simulated_gpus_take_the_place_of_the_driver(amem: Amem) -> None:
    job = amem.job_variables("--simulate", "2", LD_LIBRARY_PATH="/x")
    assert job["AMEM_SIM_DEVICES"] == "2"
    assert job["LD_LIBRARY_PATH"] == f"{amem.folder / 'sim'}:/x"
    assert job["AMEM_NCCL_PATH"] == str(amem.folder / "sim/libnccl.so.2")
