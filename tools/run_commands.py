#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Runs the commands of the documents, in order, in a fresh copy of the repository.

Without --build those of README.md; with it those of docs/, with the amem that is built there on PATH and its folder in $AMEM.

Runs only fenced blocks that begin with ```sh test, those of a document in one bash, so that `cd` and `export` remain in
effect. A block that begins with ```sh test index installs Python packages: it runs in a subshell with a new virtual
environment, and is left out, with a message, where there is no package index. Stops at the first command that fails. The copy
contains tracked files and untracked files that are not ignored. AMEM_README_TEST=1 makes `./dev test`, which runs this
test, run the tests of one library only.
Exit codes: 0 all commands ran; 1 one failed; 2 there is no such block.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import markdown_text
import source_tree

MARK = "sh test"
INSTALLS = "sh test index"
# Whether there is an index is asked as pip asks it, for what builds the wheel.
IN_ENVIRONMENT = """\
bash tools/dev/prepare.sh wheel
readme_python=$(bash tools/dev/python_with.sh venv,ensurepip)
"$readme_python" -m venv "$PWD/../environment"
if "$PWD/../environment/bin/pip" --disable-pip-version-check --retries 1 download --quiet --no-deps \\
  --dest "$PWD/../index" scikit-build-core; then
(
export PATH=$PWD/../environment/bin:$PATH
{commands}
)
else
echo "skipped: no package index"
fi"""


def blocks_of(text: str) -> list[tuple[int, str]]:
    """(line, commands) of each block to run."""
    blocks = []
    for line, info, commands in markdown_text.fenced_blocks(text):
        mark = " ".join(info.split())
        if mark == INSTALLS:
            blocks.append((line, IN_ENVIRONMENT.replace("{commands}", commands)))
        elif mark == MARK:
            blocks.append((line, commands))
    return blocks


def copy_tree(root: Path, target: Path) -> None:
    """Copies what a commit of the working tree would hold."""
    for path in source_tree.all_files(root):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, target / path, follow_symlinks=False)


def script_of(name: Path, blocks: list[tuple[int, str]]) -> str:
    """One bash script; it says where in the document it is before each block."""
    parts = ["set -euo pipefail"]
    for line, commands in blocks:
        parts.append(f"echo '== {name}:{line}'")
        parts.append(commands)
    return "\n".join(parts) + "\n"


def run(script: str, folder: Path, variables: dict[str, str], timeout_s: int) -> int | None:
    """The exit code of the script; None after the deadline."""
    # The tests that run beside it have deadlines.
    command = ["nice", "-n", "19", "bash", "-c", script]
    # A group of its own: what a block leaves behind after the deadline goes with it.
    with subprocess.Popen(command, cwd=folder, env={**os.environ, **variables}, start_new_session=True) as shell:
        try:
            return shell.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, 9)
            return None


def documents_of(root: Path, build: Path | None) -> list[Path]:
    return sorted(path.relative_to(root) for path in (root / "docs").rglob("*.md")) if build else [Path("README.md")]


def variables_for(build: Path | None, copy: Path) -> dict[str, str]:
    if build is None:
        return {"AMEM_README_TEST": "1"}
    return {
        "AMEM": str(build),
        "AMEM_SIM_DIR": str(copy.parent / "gpus"),
        "PATH": f"{build / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(copy / "python"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--build", type=Path)
    parser.add_argument("--timeout-s", type=int, default=900)
    arguments = parser.parse_args()
    root, build = arguments.root.resolve(), arguments.build and arguments.build.resolve()
    try:
        found = {name: blocks_of(source_tree.require(root, str(name))) for name in documents_of(root, build)}
    except source_tree.CannotRun as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    if not any(found.values()):
        print(f"cannot run: no document has a block that opens with ```{MARK}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="amem-commands-") as folder:
        copy = Path(folder, "amem")
        copy_tree(root, copy)
        (copy.parent / "gpus").mkdir()
        for name, blocks in found.items():
            code = run(script_of(name, blocks), copy, variables_for(build, copy), arguments.timeout_s) if blocks else 0
            if code != 0:
                what = f"is not done after {arguments.timeout_s} s" if code is None else f"failed with exit code {code}"
                print(f"a command of {name} {what}", file=sys.stderr)
                return 1
    print(f"{sum(map(len, found.values()))} blocks of {len(found)} documents ran")
    return 0


if __name__ == "__main__":
    sys.exit(main())
