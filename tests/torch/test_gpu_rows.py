# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""tests/gpu/torch_rows.py on the simulated GPU."""

import re
import subprocess
import sys

from conftest import ROOT, SimulatedTorch


def test_rows_say_whether_they_are_right(simulated: SimulatedTorch) -> None:
    variables = {**simulated.variables(), "AMEM_TEST_TORCH": str(simulated.python)}
    command = [sys.executable, str(ROOT / "tests" / "gpu" / "torch_rows.py")]

    done = subprocess.run([*command, "5", "9", "12"], env=variables, capture_output=True, text=True, check=False)
    small = subprocess.run([*command, "6"], env={**variables, "AMEM_SIM_MEMORY_MB": "2048", "AMEM_SIM_DIR": f"{simulated.machine}.small"},
                           capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"^row (\d+): ok .*\w", done.stdout, re.M) == ["5", "9", "12"], done.stdout
    assert "544 MiB held of 544 live, 0 after deletion" in done.stdout
    assert small.returncode == 1 and "row 6: WRONG" in small.stdout and "OutOfMemoryError" in small.stdout
