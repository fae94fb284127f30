#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""PyTorch for the tests: a virtual environment in build/needs/torch/VERSION, and tests/torch with it.

Installs this version, or with --run runs these tests. Exit code 77: there is no package index, and so no PyTorch. Where an
index answers, a PyTorch that is missing is an error: these tests would otherwise be left out without a word.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build/needs/torch"
TESTED = "2.11"  # by ./dev test
NO_INDEX = 77
NOT_NEEDED = {
    "triton", "networkx", "jinja2", "markupsafe", "fsspec", "filelock",
    "setuptools", "cuda-bindings", "cuda-pathfinder", "cuda-toolkit",
}  # fmt: skip


def python_with(modules: str) -> str:
    """The Python that has these modules."""
    command = ["bash", str(ROOT / "tools/dev/python_with.sh"), modules]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def index_answers() -> bool:
    """Whether pip finds PyTorch in a package index."""
    command = [python_with("pip"), "-m", "pip", "--retries", "1", "--disable-pip-version-check", "index", "versions", "torch"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def make_environment(version: str, folder: Path) -> Path:
    """The Python of a virtual environment that can import this torch: without the packages that the tests do not need."""
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    subprocess.run([python_with("venv,ensurepip"), "-m", "venv", "--clear", folder], check=True)
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    wanted = "torch" if version == "newest" else f"torch=={version}.*"
    report = folder / "requirements.json"
    subprocess.run([*pip, "--dry-run", "--ignore-installed", "--report", str(report), wanted], check=True)
    resolved = [each["metadata"] for each in json.loads(report.read_text())["install"]]
    wheels = [
        f"{each['name']}=={each['version']}"
        for each in resolved
        if each["name"].lower().replace("_", "-") not in NOT_NEEDED
    ]
    subprocess.run([*pip, "--no-cache-dir", "--no-deps", *wheels], check=True)
    (folder / "complete").touch()
    return python


def run_tests(build: Path, python: Path, files: Iterable[Path] = (ROOT / "tests/torch",)) -> int:
    """The exit code of these tests with this PyTorch."""
    command = [python_with("pytest"), "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, files)]
    variables = {**os.environ, "AMEM_TEST_TORCH": str(python), "AMEM_TEST_BUILD": str(build)}
    return subprocess.run(command, env=variables, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", nargs="?", default=TESTED, help="e.g. 2.11, newest; %(default)s")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="the virtual environments")
    parser.add_argument("--build-dir", type=Path, help="with --run")
    parser.add_argument("--run", type=Path, nargs="+", metavar="TESTS")
    options = parser.parse_args()
    folder = options.folder / options.version
    if not (folder / "complete").exists():
        if not index_answers():
            print(f"skipped: no PyTorch {options.version}, and no package index", file=sys.stderr)
            return NO_INDEX
        if options.run:
            print(f"{folder} has no PyTorch, and a package index answers: ./dev test installs it", file=sys.stderr)
            return 1
    if options.run:
        return run_tests(options.build_dir, folder / "bin/python", options.run)
    folder.parent.mkdir(parents=True, exist_ok=True)
    make_environment(options.version, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
