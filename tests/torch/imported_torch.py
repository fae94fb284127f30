# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A process that has imported PyTorch, and runs each program in a forked child of its own: the import takes 2 s."""

import json
import os
import select
import subprocess
from pathlib import Path

# Reads requests and prints exit codes. The child goes on at the end, so that it ends as any program does.
_SERVER = """
import json, os, sys
import torch
for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    os._exit(0)
os.environ.clear()
os.environ.update(request["variables"])
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
for number, path in enumerate(request["outputs"], 1):
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
exec(compile(request["code"], "<string>", "exec"))
"""


class ImportedTorch:
    def __init__(self, python: Path, variables: dict[str, str]) -> None:
        self._process = subprocess.Popen([python, "-c", _SERVER], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                         start_new_session=True)

    def run(self, code: str, variables: dict[str, str], outputs: tuple[Path, Path], timeout_s: float) -> int:
        """The exit code of the program. `outputs`: files for what it prints, and for its errors."""
        assert self._process.stdin is not None and self._process.stdout is not None
        request = {"code": code, "variables": variables, "outputs": [str(path) for path in outputs]}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], timeout_s)[0]:
            self.end()
            raise AssertionError(f"the program has not ended in {timeout_s:.0f} s")
        return int(self._process.stdout.readline())

    def end(self) -> None:
        os.killpg(self._process.pid, 9)
        self._process.wait()
