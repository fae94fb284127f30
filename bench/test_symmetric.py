# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The tables and the picture of symmetric.py, from lines that it recorded on two H100s."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest

import symmetric
from symmetric import KIB, MIB

GPU = "NVIDIA H100 80GB HBM3"
TIMES = {  # all-reduce, µs
    "NCCL": {2 * KIB: 19.0, 512 * KIB: 21.2, 32 * MIB: 145.3},
    "torch symm_mem": {2 * KIB: 8.1, 512 * KIB: 8.8, 32 * MIB: 109.2},
    "amem": {2 * KIB: 2.7, 512 * KIB: 8.3, 32 * MIB: 97.6},
}
LINES = [
    {"figures": "facts", "gpu": GPU, "ranks": 2, "torch": "2.11.0+cu130", "nccl": "2.28.9", "shared": False},
    {"figures": "pause", "library": "amem", "bytes": 1024 * MIB, "ms": 22.41},
    {"figures": "resume", "library": "amem", "bytes": 1024 * MIB, "ms": 22.62},
    *(
        {"figures": "all_reduce", "library": library, "bytes": size_bytes, "us": us}
        for library, times in TIMES.items()
        for size_bytes, us in times.items()
    ),
    {"figures": "barrier", "library": "torch symm_mem", "us": 4.04},
    {"figures": "barrier", "library": "amem", "us": 3.71},
    {"figures": "matmul", "library": "nothing", "ms": 5.614},
    {"figures": "matmul", "library": "amem", "ms": 5.804},
    {"figures": "matmul", "library": "torch symm_mem", "ms": 5.936},
]
TABLES = f"""2 ranks, {GPU}, PyTorch 2.11.0+cu130, NCCL 2.28.9

| all-reduce, µs | NCCL | torch symm_mem | amem |
|---|---|---|---|
| 2 KiB | 19.0 | 8.1 | 2.7 |
| 512 KiB | 21.2 | 8.8 | 8.3 |
| 32 MiB | 145.3 | 109.2 | 97.6 |

| | |
|---|---|
| pause of 1024 MiB | 22.4 ms |
| resume of 1024 MiB | 22.6 ms |
| barrier, torch symm_mem | 4.0 µs |
| barrier, amem | 3.7 µs |
| 4 matmuls beside all-gathers of nothing | 5.61 ms |
| 4 matmuls beside all-gathers of amem | 5.80 ms |
| 4 matmuls beside all-gathers of torch symm_mem | 5.94 ms |
"""


def test_tables_have_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    symmetric.print_tables(LINES)
    assert capsys.readouterr().out == TABLES


def test_shared_gpus_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    symmetric.print_tables([{**LINES[0], "shared": True}, *LINES[1:]])
    assert capsys.readouterr().out.splitlines()[0].endswith(", which share a GPU: times mean nothing")


class Drawing:
    """A matplotlib that draws nothing and keeps what it was told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.curves: dict[str, Any] = {}
        self.axes: dict[str, Any] = {}
        self.legends, self.path = 0, Path()
        pyplot = types.SimpleNamespace(subplots=lambda **_: (self, self))
        matplotlib = types.SimpleNamespace(use=lambda backend: None, pyplot=pyplot)
        monkeypatch.setitem(sys.modules, "matplotlib", matplotlib)
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", pyplot)

    def plot(self, sizes: Any, times: Any, label: str, **_: Any) -> None:
        self.curves[label] = dict(zip(sizes, times))

    def set(self, **axes: Any) -> None:
        self.axes.update(axes)

    def legend(self) -> None:
        self.legends += 1

    def savefig(self, path: Path, **_: Any) -> None:
        self.path = path


def test_picture_has_a_curve_of_each_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drawing = Drawing(monkeypatch)
    symmetric.draw(LINES, tmp_path / "x.png")
    assert drawing.curves == TIMES and drawing.path == tmp_path / "x.png" and drawing.legends == 1
    assert (drawing.axes["xscale"], drawing.axes["yscale"], drawing.axes["ylabel"]) == ("log", "log", "µs")
    assert drawing.axes["title"] == f"all-reduce, bf16, 2 ranks, {GPU}"


def test_picture_is_a_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    symmetric.draw(LINES, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG\r\n")
