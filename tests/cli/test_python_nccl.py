# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Which NCCL a Python job gets: the one of the wheel beside it."""

import os
import shutil
import sys
import time

import pytest


@pytest.fixture
def wheel(tmp_path):
    """A folder for PYTHONPATH with NVIDIA's package, and a torch that must not be imported."""
    library = tmp_path / "packages" / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    library.parent.mkdir(parents=True)
    library.touch()
    torch = tmp_path / "packages" / "torch"
    torch.mkdir()
    (torch / "__init__.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w').close()\n", encoding="utf-8")
    return library


def packages(wheel):
    return {"PYTHONPATH": str(wheel.parents[3])}


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def interpreter(folder, library):
    """What answers every question with one path."""
    return program(folder / "python3", f"#!/bin/sh\necho {library}\n")


def test_is_found_without_importing_torch(amem, wheel, tmp_path):
    assert amem.job_variables(**packages(wheel))["AMEM_NCCL_PATH"] == str(wheel)
    assert f"export AMEM_NCCL_PATH='{wheel}'" in amem("env", **packages(wheel)).stdout
    assert not (tmp_path / "imported").exists()


def test_is_not_set_where_there_is_none(amem, tmp_path):
    (tmp_path / "nvidia").mkdir()

    assert "AMEM_NCCL_PATH" not in amem.job_variables(PYTHONPATH=str(tmp_path))


def test_current_directory_is_not_searched(amem, wheel):
    done = amem("env", cwd=str(wheel.parents[3]))

    assert str(wheel) not in done.stdout


def test_user_has_the_last_word(amem, wheel, tmp_path):
    assert amem.job_variables(AMEM_NCCL_PATH="/mine", **packages(wheel))["AMEM_NCCL_PATH"] == "/mine"
    job = amem.job_variables("--nccl", wheel, AMEM_NCCL_PATH="/mine")
    assert job["AMEM_NCCL_PATH"] == str(wheel)

    (tmp_path / "libnccl.so.2").touch()
    assert "AMEM_NCCL_PATH" not in amem.job_variables(LD_LIBRARY_PATH=f"/none:{tmp_path}", **packages(wheel))


def test_interpreter_that_the_command_names_is_asked(amem, wheel, tmp_path):
    named = interpreter(tmp_path / "venv" / "bin", wheel)
    # It answers and does not run the script, so what it was started with is seen in a script of its own.
    program(named, f'#!/bin/sh\n[ "$1" = -c ] && echo {wheel} || echo "got $AMEM_NCCL_PATH"\n')

    for command in ([named, "train.py"], ["env", named, "train.py"]):
        assert amem("run", "--", *command).stdout == f"got {wheel}\n"


@pytest.mark.parametrize(
    "first", ["#!{python}\n", "#!{python} -u\n", "#!/usr/bin/env -S {python} -u\n", "#!/bin/sh\n'''exec' {python} \"$0\"\n"]
)
def test_interpreter_of_the_script_is_asked(amem, wheel, tmp_path, first):
    named = interpreter(tmp_path / "venv" / "bin", wheel)
    program(named, f'#!/bin/sh\n[ "$1" = -c ] && echo {wheel} || echo "got $AMEM_NCCL_PATH"\n')
    script = program(tmp_path / "torchrun", first.format(python=named))

    assert amem("run", "--", script).stdout == f"got {wheel}\n"


def test_native_program_with_nccl_keeps_its_own(amem, wheel, tmp_path):
    # Like a program that is linked with NCCL, as far as its bytes tell.
    native = tmp_path / "native"
    shutil.copy(shutil.which("env"), native)
    with open(native, "ab") as file:
        file.write(b"\0libnccl.so.2\0")

    done = amem("run", "--", native, **packages(wheel))

    assert "AMEM_ENABLE=1" in done.stdout
    assert "AMEM_NCCL_PATH" not in done.stdout


@pytest.mark.parametrize(
    "body", ["exit 1", "echo /no/such/file", "echo", "kill -9 $$", "echo complaint >&2; exit 3", "head -c 100000 /dev/zero"]
)
def test_python_that_fails_is_passed_over_in_silence(amem, tmp_path, body):
    program(tmp_path / "bin" / "python3", f"#!/bin/sh\n{body}\n")

    done = amem("run", "--", "sh", "-c", 'echo "[$AMEM_NCCL_PATH]"', PATH=f"{tmp_path}/bin:/usr/bin:/bin")

    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_python_that_hangs_is_given_up(amem, tmp_path):
    program(tmp_path / "bin" / "python3", f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 1000\n")
    start = time.monotonic()

    done = amem("run", "--", "true", PATH=f"{tmp_path}/bin:/usr/bin:/bin")

    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - start < 20
    pid = int((tmp_path / "pid").read_text(encoding="utf-8"))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_no_python_at_all(amem, tmp_path):
    program(tmp_path / "bin" / "job", "#!/bin/sh\nexit 4\n")

    assert amem("run", "--", "job", PATH=str(tmp_path / "bin")).returncode == 4


def test_real_python_is_quick(amem):
    start = time.monotonic()

    assert amem("run", "--", sys.executable, "-c", "").returncode == 0

    assert time.monotonic() - start < 20
