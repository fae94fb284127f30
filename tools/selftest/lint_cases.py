# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""ruff, mypy and codespell as check.sh runs them, each on a violation; and without a package index."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from sample_tree import TOOLS, Files, write_tree

ROOT = TOOLS.parent
INSTALLED = ROOT / "build" / "needs" / "lint"
MODULE = '"""Doubles."""\n\n\ndef twice(number: int) -> int:\n    return 2 * number\n'
USER = '"""A user of the package."""\n\nimport amem\n\nprint(amem.stats()["tags"]["weights"]["resident_bytes"] // 2)\n'
TREE = dict.fromkeys(("tools/a.py", "tools/dev/b.py", "tools/selftest/c.py", "bench/d.py"), MODULE)


def run_lint(tool: str, files: Files, installed: Path | None, **variables: str) -> tuple[int, str]:
    """(exit code, everything printed) of lint.sh in a copy of the package with these files."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        shutil.copytree(ROOT / "python", root / "python", ignore=shutil.ignore_patterns("tests", "__pycache__"))
        write_tree(root, {**TREE, **files})
        for name in ("pyproject.toml", "tools/dev/lint.sh", "tools/dev/python_with.sh"):
            (root / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(ROOT / name, root / name)
        if installed is not None:
            (root / "build" / "needs").mkdir(parents=True)
            (root / "build" / "needs" / "lint").symlink_to(installed)
        command, environment = ["bash", str(root / "tools/dev/lint.sh"), tool], {**os.environ, **variables}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr


@unittest.skipUnless((INSTALLED / "complete").exists(), "there are no ruff, mypy and codespell; ./dev check brings them")
class Lint(unittest.TestCase):
    def lint(self, tool: str, files: Files) -> tuple[int, str]:
        return run_lint(tool, files, INSTALLED)

    def finds(self, tool: str, files: Files, *says: str) -> None:
        code, output = self.lint(tool, files)
        self.assertNotIn(code, (0, 77), output)
        for each in says:
            self.assertIn(each, output)

    def test_what_is_right_passes(self) -> None:
        for tool in ("ruff", "mypy", "codespell"):
            with self.subTest(tool):
                code, output = self.lint(tool, {"bench/user.py": USER})
                self.assertEqual(code, 0, output)

    def test_ruff_finds_an_import_that_nothing_uses(self) -> None:
        self.finds("ruff", {"bench/d.py": "import os\n"}, "F401")

    def test_ruff_finds_syntax_that_an_old_python_does_not_know(self) -> None:
        self.finds("ruff", {"python/amem/e.py": "match 1:\n    case _:\n        pass\n"}, "Python 3.8")

    def test_mypy_finds_a_function_without_types(self) -> None:
        for name in ("tools/a.py", "bench/d.py"):
            self.finds("mypy", {name: "def twice(number):\n    return 2 * number\n"}, "no-untyped-def")

    def test_mypy_finds_a_wrong_key_and_a_wrong_word_of_a_user(self) -> None:
        wrong = USER.replace("weights\"][\"resident", "weights\"][\"used") + 'amem.region("a", backup="disc")\n'
        literal = "expected \"Literal['host', 'disk', 'zero'] | None\""
        self.finds("mypy", {"bench/d.py": wrong}, 'has no key "used_bytes"', literal)

    def test_codespell_finds_a_wrong_word(self) -> None:
        self.finds("codespell", {"docs/a.md": "It is re" + "cieved.\n"}, "received")


class WithoutIndex(unittest.TestCase):
    def test_is_skipped(self) -> None:
        nowhere = {"PIP_INDEX_URL": "file:///nonexistent", "PIP_CONFIG_FILE": os.devnull, "PIP_EXTRA_INDEX_URL": ""}
        code, output = run_lint("ruff", {}, None, PIP_FIND_LINKS="", **nowhere)
        self.assertEqual(code, 77, output)
        self.assertRegex(output, "skipped: .*ruff==.* are not installed, and there is no package index")
