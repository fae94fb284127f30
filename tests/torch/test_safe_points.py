# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""An unmodified training that amem pause pauses after a step of its optimizer: examples/train.py."""

import subprocess
import time
from pathlib import Path

from conftest import ROOT, TIMEOUT_S, SimulatedTorch


def installed(folder: Path) -> str:
    """A path on which PyTorch finds amem's entry point, as after pip install."""
    (folder / "amem-0.dist-info").mkdir(parents=True)
    (folder / "amem-0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: amem\nVersion: 0\n")
    (folder / "amem-0.dist-info" / "entry_points.txt").write_text("[torch.backends]\namem = amem_torch:register\n")
    return f"{folder}:{ROOT / 'python'}"


def test_training_stops_after_a_step_and_goes_on(simulated: SimulatedTorch, tmp_path: Path) -> None:
    variables = simulated.variables(PYTHONPATH=installed(tmp_path / "site"), CUBLAS_WORKSPACE_CONFIG=":4096:8")

    def amem(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["amem", *arguments], env=variables, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    def steps() -> int:
        losses = tmp_path / "losses.0"
        return len(losses.read_text().splitlines()) if losses.exists() else 0

    def wait_for_steps(count: int) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while steps() < count:
            assert training.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)  # allow: between two looks, under a deadline

    command = ["amem", "run", "--tensors", "job", "--safe-point", "optimizer", "--group", "simulated", "--", str(simulated.python),
               str(ROOT / "examples" / "train.py"), "--losses", str(tmp_path / "losses"), "--steps", "100000", "--gib", "0.25"]
    with subprocess.Popen(command, env=variables) as training:
        try:
            for _ in range(3):
                wait_for_steps(steps() + 2)
                paused = amem("pause", "--group", "simulated")
                assert paused.returncode == 0 and "MiB released" in paused.stdout, paused.stderr
                assert int(paused.stdout.split()[2]) > 250
                stopped = steps()
                time.sleep(0.2)  # allow: it shows that nothing happens
                assert steps() <= stopped + 1  # the loss of the step is written after it
                assert amem("resume", "--group", "simulated").returncode == 0
        finally:
            training.kill()
