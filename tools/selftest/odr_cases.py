# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The preset "odr" on two files that define a type of the same name."""

import json
import os
import subprocess
import tempfile
import unittest

from sample_tree import TOOLS, write_tree

USER = """namespace amem {{
struct Slot {{
  {member};
}};
long {function}(Slot* slot) {{ return static_cast<long>(slot->member); }}
}}  // namespace amem
"""


def flags() -> list[str]:
    with open(TOOLS.parent / "CMakePresets.json", encoding="utf-8") as file:
        presets = json.load(file)["configurePresets"]
    variables = next(p for p in presets if p["name"] == "odr")["cacheVariables"]
    return str(variables["CMAKE_CXX_FLAGS_DEBUG"]).split()


def linked(first: str, second: str) -> tuple[int, str]:
    """The exit code and output of the compiler for a library of two files with these members."""
    with tempfile.TemporaryDirectory() as root:
        members = {"first.cc": ("first", first), "second.cc": ("second", second)}
        write_tree(root, {name: USER.format(function=f, member=m) for name, (f, m) in members.items()})
        command = [os.environ.get("CXX", "c++"), *flags(), "-shared", "-fPIC", "-o", "library.so", *members]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout + done.stderr


class OneDefinition(unittest.TestCase):
    def test_two_definitions_fail(self) -> None:
        code, output = linked("int member", "double member")
        self.assertNotEqual(code, 0)
        self.assertIn("-Werror=odr", output)
        self.assertIn("Slot", output)

    def test_one_definition_passes(self) -> None:
        self.assertEqual(linked("int member", "int member"), (0, ""))
