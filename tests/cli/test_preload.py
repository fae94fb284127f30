# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""How LD_PRELOAD is composed, and where amem finds its libraries."""

import os
import shutil
from pathlib import Path

import pytest
from conftest import assert_sentence


def tree(amem, folder):
    """An installed amem: the command and links to the built libraries."""
    for name in ("bin", "lib"):
        (folder / name).mkdir(parents=True)
    shutil.copy(amem.command, folder / "bin" / "amem")
    for name in ("libnccl.so.2", "libamem_nccl.so"):
        (folder / "lib" / name).symlink_to(Path(amem.shim).parent / name)
    return str(folder / "bin" / "amem")


@pytest.mark.parametrize("before", ["", ":", " "])
def test_is_alone_where_nothing_was_preloaded(amem, before):
    assert amem.job_variables(LD_PRELOAD=before)["LD_PRELOAD"] == amem.preload


@pytest.mark.parametrize("before", ["libm.so.6", "libm.so.6:libdl.so.2", "libm.so.6 libdl.so.2"])
def test_comes_behind_what_was_preloaded(amem, before):
    assert amem.job_variables(LD_PRELOAD=before)["LD_PRELOAD"] == f"{before}:{amem.preload}"


def test_is_not_preloaded_twice(amem):
    detour = amem.preload.replace("/lib/", "/lib/../lib/")

    for before in (amem.preload, f"{amem.preload}:libm.so.6", f"libm.so.6 {amem.preload}", detour):
        assert amem.job_variables(LD_PRELOAD=before)["LD_PRELOAD"] == before


def test_adds_the_one_that_is_missing(amem):
    engine = amem.preload.removeprefix(f"{amem.shim}:")

    assert amem.job_variables(LD_PRELOAD=amem.shim)["LD_PRELOAD"] == amem.preload
    assert amem.job_variables(LD_PRELOAD=engine)["LD_PRELOAD"] == f"{engine}:{amem.shim}"


def test_runs_within_itself(amem):
    inner = amem("run", "--log", "2", "--", amem.command, "run", "--group", "1", "--", "env")

    lines = inner.stdout.splitlines()
    assert f"LD_PRELOAD={amem.preload}" in lines
    assert {"AMEM_LOG=2", "AMEM_GROUPID=1"} <= set(lines)


def test_job_has_the_library_in_it(amem):
    done = amem("run", "--", "cat", "/proc/self/maps")

    for name in ("libnccl.so.2", "libamem_nccl.so"):
        assert os.path.realpath(Path(amem.shim).with_name(name)) in done.stdout


def test_moved_tree_finds_its_own_library(amem, tmp_path):
    command = tree(amem, tmp_path / "moved")

    done = amem("env", command=command, AMEM_NCCL_PATH="/x")

    assert f"export LD_PRELOAD='{tmp_path}/moved/lib/libnccl.so.2:{tmp_path}/moved/lib/libamem_nccl.so'" in done.stdout


def test_command_may_be_reached_by_a_link(amem, tmp_path):
    link = tmp_path / "amem"
    link.symlink_to(amem.command)

    assert f"'{amem.preload}'" in amem("env", command=str(link)).stdout


@pytest.mark.parametrize("name", ["with space", "with:colon"])
def test_refuses_a_folder_that_ld_preload_cannot_carry(amem, tmp_path, name):
    command = tree(amem, tmp_path / name)

    assert_sentence(amem("run", "--", "true", command=command), 125, name, "LD_PRELOAD")
    assert_sentence(amem("env", command=command), 1, name)


def test_stock_nccl_in_its_place_is_not_taken_for_amems(amem, tmp_path):
    command = tree(amem, tmp_path / "usr")
    (tmp_path / "usr" / "lib" / "libamem_nccl.so").unlink()

    assert_sentence(amem("run", "--", "true", command=command), 125, str(tmp_path / "usr" / "lib"))
