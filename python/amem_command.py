# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The `amem` command of the wheel: becomes the program that lies in the package.

A module of its own, because `import amem` loads amem's library into the process.
"""

import os
import sys
from pathlib import Path


def main(program: str = str(Path(__file__).resolve().parent / "amem" / "bin" / "amem")) -> None:
    arguments = sys.argv[1:]
    if arguments in (["help", "exporter"], ["help", "top"]):
        arguments = [arguments[1], "--help"]
    if arguments[:1] in (["exporter"], ["top"]) and sys.executable:
        module = str(Path(__file__).resolve().with_name(f"amem_{arguments[0]}.py"))
        os.execv(sys.executable, [sys.executable, module, program, *arguments[1:]])
    # Without a command, the doctor would examine the Python on PATH, which may be that of another environment.
    if arguments in (["doctor"], ["doctor", "--json"]) and sys.executable:
        arguments.append(sys.executable)
    os.execv(program, [program, *arguments])
