# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Boolean variables mean the same in Python and in the library, written as people write them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import TIMEOUT_S, Build

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import amem_flags

ON = ["1", "true", "True", "YES", "on"]
OFF = ["0", "false", "FALSE", "no", "Off"]
NOT_READABLE = ["2", "maybe", " 1", "01", "-1", "y"]
WARNING = "is neither 1, true, yes or on, nor 0, false, no or off; using 0"

IN_PYTHON = "import amem; print(amem.enabled())"
IN_C = "import ctypes; print(ctypes.CDLL(None).amemGetState() != 4)"


def run(build: Build, code: str, **settings: str) -> tuple[str, str]:
    """What the code printed, and its log."""
    done = subprocess.run(
        [sys.executable, "-c", code], env=build.variables(**settings), capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize("text", ON + OFF + NOT_READABLE)
@pytest.mark.parametrize("preloaded", [False, True])
def test_enable_in_python(build: Build, text: str, preloaded: bool) -> None:
    where = {"LD_PRELOAD": build.preload} if preloaded else {"PATH": str(build.command.parent)}
    enabled, log = run(build, IN_PYTHON, AMEM_ENABLE=text, **where)
    assert enabled == str(text in ON)
    assert (f"AMEM_ENABLE={text} {WARNING}" in log) == (text in NOT_READABLE), log


@pytest.mark.parametrize("text", ON + OFF + NOT_READABLE)
def test_enable_in_c(build: Build, text: str) -> None:
    enabled, log = run(build, IN_C, AMEM_ENABLE=text, LD_PRELOAD=build.preload)
    assert enabled == str(text in ON)
    assert log.count(f"AMEM_ENABLE={text} {WARNING}") == (text in NOT_READABLE), log


def test_unset_and_empty_mean_the_same(build: Build) -> None:
    assert run(build, IN_PYTHON, AMEM_ENABLE="", PATH=str(build.command.parent)) == ("True", "")
    assert run(build, IN_C, AMEM_ENABLE="", LD_PRELOAD=build.preload) == ("False", "")


def test_warning_follows_the_log_level(build: Build) -> None:
    assert run(build, IN_C, AMEM_ENABLE="maybe", AMEM_LOG="1", LD_PRELOAD=build.preload) == ("False", "")


@pytest.mark.parametrize("text", amem_flags.TRUE + amem_flags.FALSE)
def test_words_of_python_are_those_of_the_library(build: Build, text: str) -> None:
    assert run(build, IN_C, AMEM_ENABLE=text.upper(), LD_PRELOAD=build.preload) == (str(text in amem_flags.TRUE), "")


def test_flags_of_python(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for text, value in [(None, None), ("", None), ("Yes", True), ("OFF", False), ("maybe", False), ("maybe", False)]:
        monkeypatch.delenv("AMEM_X", raising=False)
        if text is not None:
            monkeypatch.setenv("AMEM_X", text)
        assert amem_flags.flag("AMEM_X") is value, text
    assert [record.getMessage() for record in caplog.records] == [f"AMEM_X=maybe {WARNING}"]


@pytest.mark.parametrize(
    "settings, read",
    [
        ({}, (False, None)),
        ({"AMEM_TMS": "1"}, (True, None)),
        ({"AMEM_TMS": "Off"}, (False, None)),
        ({"AMEM_TMS": "weights"}, (True, "weights")),
        ({"AMEM_TMS": "weights", "AMEM_TMS_NCCL": "kv_cache"}, (True, "weights")),
        ({"AMEM_TMS": "1", "AMEM_TMS_NCCL": "weights"}, (True, "weights")),
        ({"AMEM_TMS_NCCL": "weights"}, (False, "weights")),
        ({"AMEM_TMS": "nccl"}, (False, None)),
        ({"AMEM_TMS": "a b"}, (False, None)),
        ({"AMEM_TMS": "2"}, (False, None)),
    ],
)
def test_setting_of_torch_memory_saver(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], read: Any) -> None:
    for name in ("AMEM_TMS", "AMEM_TMS_NCCL"):
        monkeypatch.delenv(name, raising=False)
    for name, text in settings.items():
        monkeypatch.setenv(name, text)
    amem_flags.torch_memory_saver.cache_clear()
    assert amem_flags.torch_memory_saver() == read
    amem_flags.torch_memory_saver.cache_clear()


def test_torch_memory_saver_reads_its_flags_so(build: Build) -> None:
    code = """
import sys
import amem.torch_memory_saver
saver = amem.torch_memory_saver.torch_memory_saver
print(amem.torch_memory_saver.torch_memory_saver._functions().tms_get_interesting_region(), saver.retain_cpu_backup)
"""
    settings = {"TMS_INIT_ENABLE": "On", "TMS_RETAIN_CPU_BACKUP": "enable"}
    seen, log = run(build, code, PATH=str(build.command.parent), **settings)
    assert seen == "True False"
    assert f"TMS_RETAIN_CPU_BACKUP=enable {WARNING}" in log


def test_startup_hook_of_torch_memory_saver_reads_its_flag_so(build: Build) -> None:
    """The line of the wheel's .pth file, which Python runs at its start."""
    line = (Path(amem_flags.__file__).parent / "amem_tms.pth").read_text(encoding="utf-8")
    for text in ["True", "on", "1", "weights", "False", "0", ""]:
        imported, log = run(
            build, line + "\nimport sys; print('amem' in sys.modules)", AMEM_TMS=text, PATH=str(build.command.parent)
        )
        assert (imported, log) == (str(text in ("True", "on", "1", "weights")), ""), text
