# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Sessions of the documents: what is typed prints what they show, but for numbers, paths and the width of columns."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import TIMEOUT_S, Amem
from test_status import rank_of

SOURCE = Path(os.environ["AMEM_TEST_SOURCE"])
JOB = """
import ctypes, amem
library, cuda, context, p = ctypes.CDLL("libamem_nccl.so"), ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert library.amemMalloc(ctypes.byref(p), ctypes.c_size_t(150 << 20), b"weights", 0) == 0
assert cuda.cuMemsetD8_v2(p, 1, ctypes.c_size_t(150 << 20)) == 0
open("ready", "w").close()
while True:
    amem.safe_point()
"""


def session(page: str, typed: str) -> str:
    """The console block with this command."""
    blocks = re.findall(r"```console\n(.*?)```", (SOURCE / "docs" / page).read_text(), re.DOTALL)
    (found,) = [block for block in blocks if typed in block]
    return str(found)


def comparable(text: str) -> list[str]:
    """Lines without numbers, identifiers, folders and repeated spaces."""
    lines = (re.sub(r"(?<!\w)/\S*/(?=bin/)", "", line) for line in text.splitlines())
    return [" ".join(re.sub(r"GPU-[0-9a-f…-]+|[0-9]+(\.[0-9]+)?(e\+[0-9]+)?", "N", line).split()) for line in lines]


def type_in(amem: Amem, folder: Path, block: str) -> str:
    """The same in a shell, in which no other process of the user runs amem."""
    (folder / "job.py").write_text(JOB)
    script = ["mount -t tmpfs none /dev/shm", "set -m"]
    for line in block.splitlines():
        if line.startswith("$ "):
            script += [f"printf '%s\\n' {shlex.quote(line)}", line[2:].replace("python3", shlex.quote(sys.executable))]
            script += ["until [ -e ready ]; do sleep 0.05; done"] * line.endswith(" &")
    path = f"{Path(amem.command).parent}:{os.environ['PATH']}"
    variables = amem.variables(PATH=path, PYTHONPATH=str(SOURCE / "python"), PYTHONDONTWRITEBYTECODE="1", AMEM_SIM_DIR=str(folder / "machine"),
                               AMEM_SIM_MEMORY_MB="512", AMEM_LOG="1")
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", *user, "--mount", "bash", "-c", "\n".join([*script, "kill %1"])]
    done = subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.stderr == "", done.stderr
    return done.stdout.replace(sys.executable, "python3")


def test_pause_status_and_resume(amem: Amem, tmp_path: Path) -> None:
    block = session("from_outside.md", "$ amem status")
    assert comparable(type_in(amem, tmp_path, block)) == comparable(block)


def test_exporter(amem: Amem, tmp_path: Path) -> None:
    from test_exporter import exporter

    block = session("command_line.md", "$ amem exporter")
    with rank_of(amem, tmp_path, AMEM_GROUP="train", RANK="0") as (rank, order):
        order("tag_malloc weights keep 40000000")
        order("tag_pause")
        said = exporter(amem, "--once").communicate(timeout=TIMEOUT_S)[0]
    seen = "\n".join(line for line in said.splitlines() if "weights" in line and f'pid="{rank.pid}"' in line)
    assert comparable(seen) == [line for line in comparable(block) if line.startswith("amem_")]


def test_top(amem: Amem, tmp_path: Path) -> None:
    from test_top import terminal

    block = session("command_line.md", "$ amem top")
    machine = {"AMEM_SIM_MEMORY_MB": "81920", "AMEM_SIM_DEVICES": "1"}
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
    with rank_of(amem, tmp_path, AMEM_GROUP="infer", **machine) as (_, infer), rank_of(amem, tmp_path, AMEM_GROUP="train", RANK="0", **machine) as (_, train):
        for tag, gib in (("kv_cache", 30), ("weights", 15)):
            infer(f"tag_malloc {tag} discard {gib << 30}")
        infer("tag_pause")
        for tag, gib in (("optimizer", 6), ("weights", 14)):
            train(f"tag_malloc {tag} discard {gib << 30}")
        with terminal(amem, tmp_path, 80) as screen:
            screen.types(f"/name:{amem.folder}", "Enter")
            rows = r"kv_cache.*weights.*optimizer.*weights"
            shown = comparable(screen.shows(rf"(?s)4 of \d+ rows.*{rows}.*bin/amem_rank.*pauses: 1"))
    # Other processes of the user may have other GPUs, and what is typed after / may stand for its hint.
    missing = {line for line in comparable(block)[1:] if line and line not in shown}
    assert missing <= {"pid, group, tag or name; tag:kv"}


@pytest.mark.parametrize("typed", ["$ amem why"])
def test_why_has_the_lines_of_its_test(typed: str) -> None:
    """test_why.py compares the output with these lines."""
    test = (SOURCE / "tests" / "cli" / "test_why.py").read_text()
    lines = session("memory_owners.md", typed).splitlines()
    for line in lines[2:3] + lines[4:]:
        assert line.split("+0x")[0] in test, line
