# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""tools/dev/torch_environment.py where PyTorch is missing: an error where a package index answers, else a skipped test."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from sample_tree import TOOLS


def run_tests(index: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs the tests with a PyTorch that is not there."""
    script = str(TOOLS / "dev" / "torch_environment.py")
    command = [sys.executable, script, "2.11", "--folder", str(folder), "--build-dir", str(folder)]
    environment = {**os.environ, "PIP_INDEX_URL": index.as_uri(), "PIP_CONFIG_FILE": os.devnull, "PIP_EXTRA_INDEX_URL": ""}
    return subprocess.run(
        [*command, "--run", str(folder)], env=environment, capture_output=True, text=True, check=False, timeout=120
    )


class Torch(unittest.TestCase):
    def test_missing_where_an_index_answers_fails(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            index = Path(folder, "index")
            page = index / "torch" / "index.html"
            page.parent.mkdir(parents=True)
            name = "torch-2.11.0-py3-none-any.whl"
            page.write_text(f'<!DOCTYPE html><html><body><a href="{name}">{name}</a></body></html>', encoding="utf-8")
            done = run_tests(index, Path(folder))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("has no PyTorch, and a package index answers", done.stderr)

    def test_missing_without_an_index_is_skipped(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = run_tests(Path(folder, "nothing"), Path(folder))
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        self.assertIn("skipped: no PyTorch 2.11", done.stderr)
