# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""check_size.py on files and functions one line over the limit."""

from sample_tree import CheckCase


class Size(CheckCase):
    check = "check_size.py"
    clean = {"src/engine/plan.h": "int a;\n" * 500, "tools/a.py": "def f():\n" + "    g()\n" * 59}
    violations = {
        "a long file": ({"src/engine/plan.h": "int a;\n" * 501}, "plan.h: the file has 501 lines"),
        "a long script": ({"tools/x.sh": "ls\n" * 501}, "tools/x.sh: the file has 501 lines"),
        "a long Python function": (
            {"tools/a.py": "g()\ndef f():\n" + "    g()\n" * 60},
            "tools/a.py:2: function f has 61",
        ),
        "a long Python method": (
            {"python/a.py": "class A:\n    async def f(self):\n" + "        g()\n" * 60},
            "python/a.py:2: function f has 61",
        ),
    }

    def test_cannot_run_without_code(self) -> None:
        code, output = self.run_on({"README.md": ""})
        self.assertEqual(code, 2, output)
