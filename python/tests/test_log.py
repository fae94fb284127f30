# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Where lines of the log go, and their form."""

import json
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

from conftest import TIMEOUT_S, Build

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
# A complaint with all that has to be escaped.
SETTINGS = {"AMEM_TIMEOUT_MS": 'a "quoted\\ value\n'}
MESSAGE = "AMEM_TIMEOUT_MS=" + SETTINGS["AMEM_TIMEOUT_MS"] + " is not a number from 1 to 86400000; using 60000"


def lines_of(build: Build, folder: Path, **settings: str) -> list[str]:
    """What a process and its forked child have logged, a file each."""
    build.job("import os, amem; amem.pause(); os.fork()", AMEM_LOG_FILE=str(folder / "%h-%p.log"), **{**SETTINGS, **settings})
    files = [file for file in folder.iterdir() if file.suffix == ".log"]
    assert all(file.name.startswith(socket.gethostname()) for file in files)
    return [line for file in files for line in file.read_text().splitlines(keepends=True)]


def test_json_is_appended_to_a_file_of_the_process(build: Build, tmp_path: Path) -> None:
    entry = json.loads(lines_of(build, tmp_path, AMEM_LOG_FORMAT="json", RANK="3")[0])
    assert re.fullmatch(TIME, entry.pop("time"))
    assert entry.pop("pid") == entry.pop("tid") > 0
    assert entry == {"level": "warn", "host": socket.gethostname(), "rank": 3, "msg": MESSAGE}


def test_json_has_no_bytes_that_are_not_utf_8(build: Build, tmp_path: Path) -> None:
    code = r"""
import ctypes, amem
ctypes.CDLL(None).amemLogWarning(b'\xff"\xc3\xa9\xed\xa0\x80\xe2\x82')
"""
    build.job(code, AMEM_LOG_FORMAT="json", AMEM_LOG_FILE=str(tmp_path / "log"))
    message = json.loads((tmp_path / "log").read_bytes().splitlines()[-1].decode())["msg"]
    assert message == '\ufffd"\u00e9' + "\ufffd" * 5


def test_logfmt(build: Build, tmp_path: Path) -> None:
    line = lines_of(build, tmp_path, AMEM_LOG_FORMAT="logfmt", SLURM_PROCID="0")[0]
    fields = dict(field.split("=", 1) for field in shlex.split(line))
    assert fields["level"] == "warn" and fields["rank"] == "0" and "device" not in fields
    assert fields["msg"] == MESSAGE.replace("\n", "\\u000a")


def test_text_has_a_time(build: Build, tmp_path: Path) -> None:
    text = "".join(lines_of(build, tmp_path, RANK="no number"))
    assert re.match(TIME + r" \S+:\d+:\d+ \[-\] AMEM WARN AMEM_TIMEOUT_MS=", text)


def test_file_that_cannot_be_opened_leaves_standard_error(build: Build, tmp_path: Path) -> None:
    done = subprocess.run(
        [build.command, "run", "--", sys.executable, "-c", "import amem; amem.pause()"],
        env=build.variables(AMEM_LOG_FILE=str(tmp_path / "no" / "log"), **SETTINGS),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert "AMEM WARN AMEM_TIMEOUT_MS" in done.stderr


def test_form_that_is_none_is_said(build: Build, tmp_path: Path) -> None:
    assert any("AMEM_LOG_FORMAT=xml is neither text, logfmt nor json; using text" in line for line in lines_of(build, tmp_path, AMEM_LOG_FORMAT="xml"))
