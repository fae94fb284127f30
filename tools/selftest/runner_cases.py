# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""run_commands.py runs what it should."""

import tempfile
import unittest
from pathlib import Path

from sample_tree import Files, run_tool, write_tree

# A Python whose virtual environments have a pip that finds packages, or does not.
PYTHON = """#!/bin/sh
mkdir -p "$3/bin"
printf '#!/bin/sh\\n[ "$1" = install ] && echo installed in "$0" || exit {code}\\n' > "$3/bin/pip"
chmod +x "$3/bin/pip"
"""


class ReadmeCommands(unittest.TestCase):
    def run_readme(self, text: str, *options: str, more: Files | None = None) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as root:
            files = {"README.md": text, "src/a.txt": "a\n", **(more or {})}
            write_tree(root, files)
            code, output = run_tool("run_commands.py", root, *options)
            self.assertEqual({p.name for p in Path(root).iterdir()}, {Path(name).parts[0] for name in files})
        return code, output

    def run_installation(self, pip_code: str, commands: str = "pip install .\ncd src") -> tuple[int, str]:
        return self.run_readme(
            f"```sh test index\n{commands}\n```\n```sh test\nls src\n```\n",
            more={
                "tools/dev/prepare.sh": "",
                "tools/dev/python.sh": PYTHON.replace("{code}", pip_code),
                "tools/dev/python_with.sh": "chmod +x tools/dev/python.sh; echo $PWD/tools/dev/python.sh\n",
            },
        )

    def test_installs_in_an_environment_of_its_own(self) -> None:
        code, output = self.run_installation("0")

        self.assertEqual(code, 0, output)
        self.assertRegex(output, "installed in .*/amem-commands-.*/environment/bin/pip\n(.*\n)*a.txt")

    def test_fails_when_an_installation_fails(self) -> None:
        code, output = self.run_installation("0", "pip install .\nfalse\ntrue")

        self.assertEqual(code, 1, output)

    def test_installs_nothing_without_an_index(self) -> None:
        code, output = self.run_installation("1")

        self.assertEqual(code, 0, output)
        self.assertNotIn("installed", output)
        self.assertRegex(output, "skipped: no package index\n(.*\n)*a.txt")

    def test_runs_marked_blocks_in_order_in_a_copy(self) -> None:
        code, output = self.run_readme(
            "```sh test\ncd src\ntouch new\n```\n"
            "```sh\nexit 9\n```\n"
            "```sh test\nls\necho $AMEM_README_TEST\n```\n"
        )

        self.assertEqual(code, 0, output)
        self.assertIn("a.txt\nnew\n1\n", output)

    def test_fails_when_a_command_fails(self) -> None:
        code, output = self.run_readme("```sh test\nfalse\ntrue\n```\n")

        self.assertEqual(code, 1, output)

    def test_fails_without_marked_blocks(self) -> None:
        code, output = self.run_readme("```sh\ntrue\n```\n")

        self.assertEqual(code, 2, output)

    def test_fails_at_the_deadline(self) -> None:
        code, output = self.run_readme("```sh test\ntail -f /dev/null\n```\n", "--timeout-s", "1")

        self.assertEqual(code, 1, output)

    def test_commands_of_docs_run_with_the_build(self) -> None:
        page = "```sh test\ntest -n \"$AMEM\" && greet\n```\n"
        files = {"docs/a/page.md": page, "README.md": "", "build/bin/greet": "#!/bin/sh\necho hello\n"}
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, files)
            Path(root, "build/bin/greet").chmod(0o755)
            code, output = run_tool("run_commands.py", root, "--build", f"{root}/build")
            self.assertEqual((code, "hello" in output), (0, True), output)
            Path(root, "docs/a/page.md").write_text(page.replace("greet", "false"), encoding="utf-8")
            code, output = run_tool("run_commands.py", root, "--build", f"{root}/build")
            self.assertEqual((code, "a command of docs/a/page.md failed" in output), (1, True), output)
