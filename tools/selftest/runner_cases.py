# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""run_readme.py runs what it should."""

import tempfile
import unittest
from pathlib import Path

from sample_tree import run_tool, write_tree


class ReadmeCommands(unittest.TestCase):
    def run_readme(self, text, *options):
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, {"README.md": text, "src/a.txt": "a\n"})
            code, output = run_tool("run_readme.py", root, *options)
            self.assertEqual(sorted(p.name for p in Path(root).iterdir()), ["README.md", "src"])
        return code, output

    def test_runs_marked_blocks_in_order_in_a_copy(self):
        code, output = self.run_readme(
            "```sh test\ncd src\ntouch new\n```\n"
            "```sh\nexit 9\n```\n"
            "```sh test\nls\necho $AMEM_README_TEST\n```\n"
        )

        self.assertEqual(code, 0, output)
        self.assertIn("a.txt\nnew\n1\n", output)

    def test_fails_when_a_command_fails(self):
        code, output = self.run_readme("```sh test\nfalse\ntrue\n```\n")

        self.assertEqual(code, 1, output)

    def test_fails_without_marked_blocks(self):
        code, output = self.run_readme("```sh\ntrue\n```\n")

        self.assertEqual(code, 2, output)

    def test_fails_at_the_deadline(self):
        code, output = self.run_readme("```sh test\ntail -f /dev/null\n```\n", "--timeout-s", "1")

        self.assertEqual(code, 1, output)
