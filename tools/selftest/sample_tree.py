# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A small repository in a temporary folder, and a check run on it as ./dev check runs it."""

import subprocess
import sys
import tempfile
import unittest
from collections.abc import Mapping
from pathlib import Path

Files = Mapping[str, str | None]  # path: text; None: no such file
TOOLS = Path(__file__).resolve().parent.parent


def run_tool(name: str, root: str | Path, *options: str) -> tuple[int, str]:
    """(exit code, everything printed) of tools/NAME with --root."""
    command = [sys.executable, str(TOOLS / name), "--root", str(root), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr


def write_tree(root: str | Path, files: Files) -> None:
    """Writes {path: text}; a text of None leaves the file out."""
    for name, text in files.items():
        if text is None:
            continue
        path = Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


class CheckCase(unittest.TestCase):
    """A check that must pass on `clean` and fail on `clean` with one violation laid over it.

    Subclasses set `check` (a file of tools/), `clean` ({path: text}), `violations` ({name: (files,
    what the finding must say)}), `harmless` ({name: files}: laid over, the check still passes) and
    `needed` (files without which the check cannot run).
    """

    check = ""
    clean: Files = {}
    violations: Mapping[str, tuple[Files, str]] = {}
    harmless: Mapping[str, Files] = {}
    needed: tuple[str, ...] = ()

    def run_on(self, files: Files) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, files)
            return run_tool(self.check, root)

    def test_passes_on_the_clean_sample(self) -> None:
        self.assert_class_is_used()
        code, output = self.run_on(self.clean)
        self.assertEqual((code, output), (0, ""))

    def test_finds_each_violation(self) -> None:
        self.assert_class_is_used()
        self.assertTrue(self.violations)
        for name, (files, says) in self.violations.items():
            with self.subTest(name):
                code, output = self.run_on({**self.clean, **files})
                self.assertEqual(code, 1, output)
                self.assertIn(says, output)

    def test_lets_what_is_harmless_pass(self) -> None:
        self.assert_class_is_used()
        for name, files in self.harmless.items():
            with self.subTest(name):
                code, output = self.run_on({**self.clean, **files})
                self.assertEqual((code, output), (0, ""))

    def test_fails_when_it_cannot_run(self) -> None:
        self.assert_class_is_used()
        for name in self.needed:
            with self.subTest(name):
                code, output = self.run_on({**self.clean, name: None})
                self.assertEqual(code, 2, output)
                self.assertIn("cannot run", output)

    def assert_class_is_used(self) -> None:
        if type(self) is CheckCase:
            self.fail("CheckCase itself is no test: load_tests of test_checks.py leaves it out")
