# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""run_readme.py runs what it should, and the table of ./dev gpu cannot call a failure good."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from sample_tree import TOOLS, run_tool, write_tree


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


class GpuTable(unittest.TestCase):
    OK = {"name": "a", "result": "ok", "seconds": 1.5, "detail": "bit-exact"}

    def run_table(self, tests, rows, script_code=0):
        """Runs gpu_table.py on a build folder whose gpu tests are {name: command}."""
        with tempfile.TemporaryDirectory() as folder:
            listed = []
            for name, command in tests.items():
                listed.append(f'add_test({name} {command})\nset_tests_properties({name} PROPERTIES')
                listed.append('LABELS gpu SKIP_REGULAR_EXPRESSION "SKIPPED")')
            script = f"""import sys
open(sys.argv[sys.argv.index("--report") + 1], "w").write({json.dumps(json.dumps(rows))})
sys.exit({script_code})
"""
            write_tree(folder, {"CTestTestfile.cmake": "\n".join(listed), "run_gpu.py": script})
            command = [sys.executable, str(TOOLS / "dev" / "gpu_table.py"), "--build-dir", folder]
            command += ["--script", str(Path(folder, "run_gpu.py"))]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            return done.returncode, done.stdout

    def test_is_good_when_every_row_is_ok(self):
        code, output = self.run_table({"t": "true"}, [self.OK])

        self.assertEqual(code, 0, output)
        self.assertIn("2 of 2 ok", output)

    def test_a_failed_test_fails(self):
        code, output = self.run_table({"t": "true", "u": "false"}, [self.OK])

        self.assertEqual(code, 1, output)
        self.assertIn("2 of 3 ok", output)

    def test_a_skipped_test_fails(self):
        code, output = self.run_table({"t": "echo SKIPPED"}, [self.OK])

        self.assertEqual(code, 1, output)

    def test_no_test_fails(self):
        self.assertEqual(self.run_table({}, [self.OK])[0], 1)

    def test_a_failed_row_no_row_or_a_failed_script_fails(self):
        self.assertEqual(self.run_table({"t": "true"}, [{**self.OK, "result": "FAIL"}])[0], 1)
        self.assertEqual(self.run_table({"t": "true"}, [])[0], 1)
        self.assertEqual(self.run_table({"t": "true"}, [self.OK], script_code=3)[0], 1)
