# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""./dev prints its usage before it builds anything."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(os.environ["AMEM_TEST_SOURCE"])
VERBS = ["demo", "test", "build", "wheel", "gpu", "bench", "check", "docs", "kernels", "fmt", "help"]


@pytest.fixture
def dev(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs ./dev on a machine whose cmake, pip and compilers say that they were called."""
    for name in ("cmake", "ctest", "ninja", "pip", "apt-get", "nvcc", "python3"):
        (tmp_path / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/called-{name}\nexit 1\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
        done = subprocess.run(
            [SOURCE / "dev", *arguments], env=variables, capture_output=True, text=True, timeout=60, check=False
        )
        assert list(tmp_path.glob("called-*")) == []
        return done

    return run


def test_every_verb_is_tested_here(dev: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    listed = [line.split()[0] for line in dev("help").stdout.splitlines() if line.startswith("  ")]
    assert sorted(listed) == sorted(VERBS)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_of_a_verb(dev: Callable[..., subprocess.CompletedProcess[str]], verb: str, option: str) -> None:
    for arguments in ([verb, option], [verb, "--json=x", option] if verb == "demo" else [verb, option]):
        done = dev(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"usage: ./dev {verb} ") and done.stdout.count("\n") == 1


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "gpu"])  # pytest knows its own
def test_unknown_option_of_a_verb(dev: Callable[..., subprocess.CompletedProcess[str]], verb: str) -> None:
    done = dev(verb, "--nosuch=1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"usage: ./dev {verb} ") and "it has no option --nosuch" in done.stderr


@pytest.mark.parametrize("arguments", [["test", "a", "b"], ["wheel", "x"], ["wheel", "--arch"], ["wheel", "--arch=mips"], ["wheel", "--arch", "aarch64", "x"], ["fmt", "x"], ["kernels", "x"], ["check", "x"], ["nosuch"]])
def test_wrong_words(dev: Callable[..., subprocess.CompletedProcess[str]], arguments: list[str]) -> None:
    done = dev(*arguments)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("usage: ./dev ")
