# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem run becomes the command."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import TIMEOUT_S, Amem, assert_sentence


@pytest.mark.parametrize("typed", ["--nosuch", "-x", "nosuch"])
def test_names_what_it_does_not_know(amem: Amem, typed: str) -> None:
    assert_sentence(amem(typed, "status"), 2, f" {typed}: see amem --help")


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_exit_code_is_the_commands(amem: Amem, code: int) -> None:
    assert amem("run", "--", "sh", "-c", f"exit {code}").returncode == code


def test_keeps_pid_and_streams(amem: Amem) -> None:
    script = 'read line; echo "$$ $line"; echo complaint >&2'
    with subprocess.Popen(
        [amem.command, "run", "--", "sh", "-c", script],
        env=amem.variables(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        output, errors = child.communicate("hello\n", TIMEOUT_S)

    assert (output, errors) == (f"{child.pid} hello\n", "complaint\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_signals_reach_the_command(amem: Amem, number: int) -> None:
    with subprocess.Popen(
        [amem.command, "run", "--", "sh", "-c", "echo ready; exec sleep 1000"],
        env=amem.variables(),
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        assert child.wait(TIMEOUT_S) == -number


def test_death_by_signal_is_the_commands(amem: Amem) -> None:
    assert amem("run", "--", "sh", "-c", "kill -9 $$").returncode == -signal.SIGKILL


def test_passes_arguments_as_they_are(amem: Amem) -> None:
    arguments = ["a b", "", "--", "--log", "9", "'$HOME'"]
    code = "import sys; print(sys.argv[1:])"

    done = amem("run", "--", sys.executable, "-c", code, *arguments)

    assert done.stdout == f"{arguments}\n"


@pytest.mark.parametrize("options", [[], ["--log", "2"], ["--log=2"]])
def test_separator_may_be_left_out(amem: Amem, options: list[str]) -> None:
    code = "import sys; print(sys.argv[1:])"

    done = amem("run", *options, sys.executable, "-c", code, "--log", "9", "--", "x")

    assert done.stdout == "['--log', '9', '--', 'x']\n"


def test_quiet_program_stays_quiet(amem: Amem) -> None:
    done = amem("run", "--", "true")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_command_that_does_not_exist(amem: Amem, tmp_path: Path) -> None:
    assert_sentence(amem("run", "--", "no-such-command"), 127, "no-such-command")
    assert_sentence(amem("run", "--", tmp_path / "nothing"), 127, "nothing")
    assert_sentence(amem("run", "--", ""), 127)


def test_command_that_cannot_be_run(amem: Amem, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program\n", encoding="utf-8")

    assert_sentence(amem("run", "--", tmp_path / "text"), 126, "text", "Permission denied")


def test_script_without_a_first_line_runs(amem: Amem, tmp_path: Path) -> None:
    (tmp_path / "script").write_text("exit 7\n", encoding="utf-8")
    (tmp_path / "script").chmod(0o755)

    assert amem("run", "--", "script", PATH=f"{tmp_path}:/usr/bin:/bin").returncode == 7


@pytest.mark.parametrize(
    "arguments", [["run"], ["run", "--"], ["run", "--bogus", "true"], ["run", "--bogus", "--", "true"], ["run", "--log"]]
)
def test_wrong_use_of_run_shows_the_right_one(amem: Amem, arguments: list[str]) -> None:
    assert_sentence(amem(*arguments), 2, "amem run ", *(word for word in arguments[1:2] if word != "--"))


@pytest.mark.parametrize("arguments", [["bogus"], ["help", "bogus"], ["--bogus"], ["status", "--bogus"], ["env", "--", "true"],
                                       ["demo", "--nosuch"], ["demo", "--ranks=99"], ["demo", "--what", "x"], ["demo", "extra"], ["completion"], ["completion", "csh"],
                                       ["doctor", "--nosuch"], ["version", "--nosuch"], ["version", "extra"], ["help", "run", "extra"]])  # fmt: skip
def test_wrong_use_is_one_sentence(amem: Amem, arguments: list[str]) -> None:
    assert_sentence(amem(*arguments), 2)


@pytest.mark.parametrize(
    "arguments",
    [[], ["help"], ["--help"], ["run", "--help"], ["env", "--help"], ["status", "--help"], ["demo", "--help"]],
)
def test_help(amem: Amem, arguments: list[str]) -> None:
    done = amem(*arguments)

    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: " in done.stdout


@pytest.mark.parametrize("name", ["run", "status", "doctor", "demo"])
def test_help_with_a_subcommand_prints_its_options(amem: Amem, name: str) -> None:
    assert amem("help", name).stdout == amem(name, "--help").stdout != ""


def test_demo_that_is_not_installed_is_one_sentence(amem: Amem, tmp_path: Path) -> None:
    shutil.copy(amem.command, tmp_path / "amem")

    assert_sentence(amem("demo", command=str(tmp_path / "amem")), 127, "amem_demo", "No such file")


@pytest.mark.parametrize("arguments", [["version"], ["--version"], ["-V"], ["demo", "--version"], ["demo", "-V"]])
def test_version(amem: Amem, arguments: list[str]) -> None:
    done = amem(*arguments)

    assert done.returncode == 0
    assert done.stdout.split()[0] == "amem" and done.stdout.split()[1][0].isdigit()


def test_help_of_run_shows_the_command(amem: Amem) -> None:
    assert "COMMAND" in amem("run", "--help").stdout.split("Options:")[0]
    assert "COMMAND" in amem("doctor", "--help").stdout.split("Options:")[0]


COMPLETED = [
    ("amem st", "status", "doctor"),
    ("amem run --si", "--simulate", "--log"),
    ("amem status --", "--watch", "--group"),
    ("amem run bas", "bash", "--log"),
    ("amem run --log 2 bas", "bash", "--log"),
    ("amem run --group=x bas", "bash", "--log"),
    ("amem doctor -- bas", "bash", "--json"),
    ("amem run bash --lo", None, "--log"),
    ("amem run -- bash --lo", None, "--log"),
    ("amem run --log ", None, "--log"),
    ("amem run --cumem ", "respect", "--log"),
    ("amem env --cumem f", "force", "--log"),
    ("amem env --log ", None, "--log"),
    ("amem status --pid ", None, "--pid"),
    ("amem -", "--version", "status"),
    ("amem demo --", "--simulate", "--group"),
    ("amem demo --what ", "symmetric", "--what"),
    ("amem exporter --", "--listen", "--group"),
    ("amem top --", "--interval", "--listen"),
    ("amem top --u", "--user", "--interval"),
    ("amem exporter --o", "--once", "--user"),
    ("amem completion ", "fish", "--help"),
    ("amem help s", "status", "--help"),
]


def completions(amem: Amem, shell: str, typed: str) -> list[str]:
    """What the shell offers; zsh by its functions for bash (bashcompinit)."""
    script = amem("completion", shell).stdout
    words = typed.split(" ")
    array = " ".join(f"'{word}'" for word in words)
    in_zsh = "emulate sh" if shell == "zsh" else ""
    code = f"{script}\n{in_zsh}\nCOMP_WORDS=({array}) COMP_CWORD={len(words) - 1} COMPREPLY=()\n_amem; echo ${{COMPREPLY[@]}}"
    command = {
        "bash": ["bash", "-c", code],
        "zsh": ["zsh", "-f", "-c", code],
        "fish": ["fish", "--no-config", "-c", f"{script}\ncomplete -C '{typed}'"],
    }[shell]
    path = f"{Path(amem.command).parent}:{os.environ['PATH']}"
    done = subprocess.run(command, env=amem.variables(PATH=path), capture_output=True, text=True, check=True, timeout=60)
    return [line.split("\t")[0] for line in done.stdout.replace(" ", "\n").splitlines()]


@pytest.mark.parametrize("shell", [pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed")) for name in ("bash", "zsh", "fish")])
@pytest.mark.parametrize("typed, expected, others", COMPLETED)
def test_completion(amem: Amem, shell: str, typed: str, expected: str | None, others: str) -> None:
    found = completions(amem, shell, typed)
    assert (expected in found) if expected else shell == "fish" or not any(found)  # fish adds files
    assert shell == "zsh" or others not in found  # zsh compares with what is typed later


@pytest.mark.parametrize("typed", ["~/no/amem st", '"$HOME/no/amem" st'])
def test_completion_of_a_command_that_the_shell_has_not_expanded(amem: Amem, typed: str) -> None:
    assert "status" in completions(amem, "bash", typed)


def test_completion_knows_the_options_of_the_demo(amem: Amem) -> None:
    listed = set(re.findall(r"(--\w+)", amem("demo", "--help").stdout))
    offered = set(amem("completion", "for", "demo", "--").stdout.split())
    assert offered <= listed and "--simulate" in offered


def test_completion_in_zsh(amem: Amem) -> None:
    script = amem("completion", "zsh").stdout
    assert "compinit" in script and "complete -o bashdefault -o default -F _amem amem" in script
    program = shutil.which("zsh")
    if program:
        subprocess.run([program, "-f", "-c", f"{script}\nwhence compdef complete"], text=True, check=True, timeout=60)
