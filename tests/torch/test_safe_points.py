# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Unmodified trainings that amem pause pauses after a step of their optimizers: examples/train.py, and trainer.py by torchrun."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT, TIMEOUT_S, SimulatedTorch

RUN = ["amem", "run", "--tensors", "job", "--safe-point", "optimizer", "--group", "simulated", "--"]


def installed(folder: Path) -> str:
    """A path on which PyTorch finds amem's entry point, as after pip install."""
    (folder / "amem-0.dist-info").mkdir(parents=True)
    (folder / "amem-0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: amem\nVersion: 0\n")
    (folder / "amem-0.dist-info" / "entry_points.txt").write_text("[torch.backends]\namem = amem_torch:register\n")
    return f"{folder}:{ROOT / 'python'}"


class Training:
    """A training that writes a line for each iteration."""

    def __init__(self, simulated: SimulatedTorch, folder: Path, command: list[str]) -> None:
        self.variables = simulated.variables(PYTHONPATH=installed(folder / "site"), CUBLAS_WORKSPACE_CONFIG=":4096:8")
        self.variables["LD_PRELOAD"] += f":{simulated.build / 'sim' / 'libnccl.so.2'}"  # PyTorch would load the real NCCL
        self.written = folder / "losses.0"
        self.process = subprocess.Popen([*RUN, str(simulated.python), *command], env=self.variables)

    def amem(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["amem", *arguments, "--group", "simulated"]
        return subprocess.run(command, env=self.variables, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    def steps(self) -> int:
        return len(self.written.read_text().splitlines()) if self.written.exists() else 0

    def wait_for_steps(self, count: int) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while self.steps() < count and self.process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)  # allow: between two looks, under a deadline

    def pause_and_resume(self) -> None:
        """Somewhere; nothing happens in between."""
        self.wait_for_steps(self.steps() + 2)
        paused = self.amem("pause")
        assert paused.returncode == 0 and "MiB released" in paused.stdout, paused.stderr
        stopped = self.steps()
        time.sleep(0.2)  # allow: it shows that nothing happens
        assert self.steps() <= stopped + 1  # the loss of the step is written after it
        resumed = self.amem("resume")
        assert resumed.returncode == 0, resumed.stderr


@pytest.fixture
def started() -> Iterator[list[Training]]:
    trainings: list[Training] = []
    yield trainings
    for training in trainings:
        training.process.terminate()
        training.process.wait(TIMEOUT_S)


def test_training_stops_after_a_step_and_goes_on(simulated: SimulatedTorch, tmp_path: Path, started: list[Training]) -> None:
    command = [str(ROOT / "examples" / "train.py"), "--losses", str(tmp_path / "losses"), "--steps", "100000", "--gib", "0.25"]
    started.append(training := Training(simulated, tmp_path, command))
    for _ in range(3):
        training.pause_and_resume()


LONG = bool(os.environ.get("AMEM_TEST_LONG"))
KINDS = ["ddp", "fsdp2", "scaler", "optimizers", "accumulation"] if LONG else ["fsdp2", "scaler"]  # a minute each


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_of_torchrun_stop_together_and_compute_the_same(
    simulated: SimulatedTorch, tmp_path: Path, kind: str, started: list[Training]
) -> None:
    iterations, pauses = 300 if kind == "fsdp2" else 600, 3
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    written = []
    for name in ("alone", "paused"):
        (folder := tmp_path / name).mkdir()
        command = [*torchrun, str(Path(__file__).with_name("trainer.py")), kind, str(folder), str(iterations)]
        started.append(training := Training(simulated, folder, command))
        for _ in range(pauses if name == "paused" else 0):
            training.pause_and_resume()
            if LONG:  # at any moment, when no collective waits for a rank; a call resumes it
                paused = training.amem("pause", "--tag", "nccl")
                assert paused.returncode == 0, paused.stderr
        assert training.process.wait(TIMEOUT_S) == 0
        written.append([(folder / f"losses.{rank}").read_text() for rank in range(2)])
    assert written[0] == written[1]
    of_kind = {"scaler": [iterations * 2 // 3], "optimizers": [iterations, iterations // 2], "accumulation": [iterations // 3]}
    steps = of_kind.get(kind, [iterations])
    assert all(text.splitlines()[-1] == f"True {steps}" for text in written[1])
