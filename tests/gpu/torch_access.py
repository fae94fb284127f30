# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A kernel that uses a paused tensor ends with an illegal address: AMEM_DEBUG=access names the tag, and without it nothing is
said. The CUDA context ends with the error, so each runs in a process of its own."""

import os
import subprocess
import sys
from typing import Any


def expect(condition: Any, what: str) -> None:
    if not condition:
        raise SystemExit(f"wrong: {what}")


def use_paused_memory() -> None:
    import torch

    import amem

    with amem.region("weights", backup=None):
        paused = torch.zeros(4 << 20, device="cuda")
    paused.add_(1)
    amem.pause("weights")
    try:
        paused.add_(1)
        torch.cuda.synchronize()
    except RuntimeError as error:
        expect("illegal memory access" in str(error), str(error))
        print("failed", flush=True)
    os._exit(0)  # without the destructors of a context that has ended


def main() -> None:
    for debug in ("access", "none"):
        variables = {**os.environ, "AMEM_DEBUG": debug, "GMM_LOG": "2"}
        done = subprocess.run(
            [sys.executable, __file__, "use"], env=variables, capture_output=True, text=True, check=True, timeout=120
        )
        expect(done.stdout.strip() == "failed", f"the kernel has not failed: {done.stdout}{done.stderr}")
        said = "reports an illegal address, and these tags are paused: weights (1 allocations" in done.stderr
        expect(said == (debug == "access"), f"AMEM_DEBUG={debug}: {done.stderr}")
    print("ok")


if len(sys.argv) > 1:
    use_paused_memory()
main()
