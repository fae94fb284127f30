# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""How LD_PRELOAD is composed, and where amem finds its library."""

import os
import shutil
from pathlib import Path

import pytest

from conftest import Amem, assert_sentence


def tree(amem: Amem, folder: Path) -> str:
    """An installed amem: the command and a link to the built library."""
    for name in ("bin", "lib"):
        (folder / name).mkdir(parents=True)
    shutil.copy(amem.command, folder / "bin" / "amem")
    (folder / "lib" / "libamem_nccl.so").symlink_to(amem.preload)
    return str(folder / "bin" / "amem")


@pytest.mark.parametrize("before", ["", ":", " "])
def test_is_alone_where_nothing_was_preloaded(amem: Amem, before: str) -> None:
    assert amem.job_variables(LD_PRELOAD=before)["LD_PRELOAD"] == amem.preload


@pytest.mark.parametrize("before", ["libm.so.6", "libm.so.6:libdl.so.2", "libm.so.6 libdl.so.2"])
def test_comes_behind_what_was_preloaded(amem: Amem, before: str) -> None:
    assert amem.job_variables(LD_PRELOAD=before)["LD_PRELOAD"] == f"{before}:{amem.preload}"


def test_is_not_preloaded_twice(amem: Amem) -> None:
    detour = amem.preload.replace("/lib/", "/lib/../lib/")

    for before in (amem.preload, f"{amem.preload}:libm.so.6", f"libm.so.6 {amem.preload}", detour):
        assert amem.job_variables(LD_PRELOAD=before)["LD_PRELOAD"] == before


def test_runs_within_itself(amem: Amem) -> None:
    inner = amem("run", "--log", "2", "--", amem.command, "run", "--group", "1", "--", "env")

    lines = inner.stdout.splitlines()
    assert f"LD_PRELOAD={amem.preload}" in lines
    assert {"AMEM_LOG=2", "AMEM_GROUP=1"} <= set(lines)


def test_job_has_the_library_in_it(amem: Amem) -> None:
    maps = amem("run", "--", "cat", "/proc/self/maps").stdout

    assert os.path.realpath(amem.preload) in maps
    assert "libnccl" not in maps


def test_moved_tree_finds_its_own_library(amem: Amem, tmp_path: Path) -> None:
    command = tree(amem, tmp_path / "moved")

    assert f"export LD_PRELOAD='{tmp_path}/moved/lib/libamem_nccl.so'\n" in amem("env", command=command).stdout


def test_command_may_be_reached_by_a_link(amem: Amem, tmp_path: Path) -> None:
    link = tmp_path / "amem"
    link.symlink_to(amem.command)

    assert f"'{amem.preload}'" in amem("env", command=str(link)).stdout


@pytest.mark.parametrize("name", ["with space", "with:colon"])
def test_refuses_a_folder_that_ld_preload_cannot_carry(amem: Amem, tmp_path: Path, name: str) -> None:
    command = tree(amem, tmp_path / name)

    assert_sentence(amem("run", "--", "true", command=command), 125, name, "LD_PRELOAD")
    assert_sentence(amem("env", command=command), 1, name)


def test_says_where_the_library_is_missing(amem: Amem, tmp_path: Path) -> None:
    command = tree(amem, tmp_path / "usr")
    (tmp_path / "usr" / "lib" / "libamem_nccl.so").unlink()

    assert_sentence(amem("run", "--", "true", command=command), 125, str(tmp_path / "usr" / "lib"))
