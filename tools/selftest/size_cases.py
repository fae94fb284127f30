# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""check_size.py on files and functions one line over the limit, and on its ratchet."""

import subprocess
import tempfile
import unittest

import cxx_functions
from sample_tree import CheckCase, run_tool, write_tree

RATCHET = "tools/size_ratchet.txt"


def function_of(lines, head="int f() {"):
    return head + "\n" + "  g();\n" * (lines - 2) + "}\n"


class Size(CheckCase):
    check = "check_size.py"
    clean = {RATCHET: "# empty\n", "src/engine/plan.cc": function_of(60)}
    needed = (RATCHET,)
    harmless = {
        "400 lines": {"src/engine/plan.h": "int a;\n" * 400},
        "an entry that fits": {
            "src/engine/plan.cc": function_of(61),
            RATCHET: "src/engine/plan.cc:f 61  # why\n",
        },
        "short functions in a long class": {
            "src/engine/plan.h": "class A {\n" + "  int f() { return 1; }\n" * 80 + "};\n"
        },
    }
    violations = {
        "a long file": ({"src/engine/plan.h": "int a;\n" * 401}, "plan.h: the file has 401 lines"),
        "a long script": ({"tools/x.sh": "ls\n" * 401}, "tools/x.sh: the file has 401 lines"),
        "a long function": (
            {"src/engine/plan.cc": function_of(61)},
            "src/engine/plan.cc:1: function f has 61 lines",
        ),
        "a long method": (
            {"sim/a.cc": "namespace n {\n" + function_of(61, "int A::f(int x) const {") + "}\n"},
            "sim/a.cc:2: function A::f has 61",
        ),
        "a long constructor": (
            {"src/a/a.cc": function_of(61, "A::A(int x) noexcept : a_{x}, b_(x) {")},
            "function A::A has 61",
        ),
        "a long test": ({"tests/a.cc": function_of(61, "TEST(Plan, Fits) {")}, "Plan.Fits has 61"),
        "a long Python function": (
            {"tools/a.py": "def f():\n" + "    g()\n" * 60},
            "tools/a.py:1: function f has 61",
        ),
        "growth past the ratchet": (
            {"src/engine/plan.cc": function_of(63), RATCHET: "src/engine/plan.cc:f 62\n"},
            "grew from 62 to 63",
        ),
        "a ratchet that was not turned": (
            {"src/engine/plan.cc": function_of(61), RATCHET: "src/engine/plan.cc:f 62\n"},
            "write 61 in place of 62",
        ),
        "an entry that is not needed": ({RATCHET: "src/engine/plan.cc:f 60\n"}, "remove the entry"),
    }

    def test_a_commit_may_not_enlarge_the_ratchet(self):
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, self.clean)
            git = ["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@b"]
            for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "a"]):
                subprocess.run(git + arguments, check=True)
            write_tree(
                root,
                {"src/engine/plan.cc": function_of(61), RATCHET: "src/engine/plan.cc:f 61\n"},
            )

            before_commit = run_tool(self.check, root)
            subprocess.run(git + ["commit", "-qam", "b"], check=True)
            after_commit = run_tool(self.check, root)

            for code, output in (before_commit, after_commit):
                self.assertEqual(code, 1, output)
                self.assertIn("may only shrink", output)


class CxxFunctions(unittest.TestCase):
    def test_finds_bodies_and_nothing_else(self):
        text = """#define AMEM_X(a) { a }
namespace n {
struct A : B {
  A() : a_{1}, b_{2} {
    f("}");
  }
  int g() const { return '{'; }
  std::vector<int> v_{1, 2};
};
constexpr int kTable[] = {1, 2};
Result<int> A::operator()(int x = {}) && noexcept {
  auto y = [&] { return x; };
  if (x) {
  }
}
extern "C" {
AMEM_API int h(void (*done)(int)) {
}
}
TEST_F(Plan, Fits) {
}
}  // namespace n
"""
        self.assertEqual(
            cxx_functions.functions(text),
            [
                ("A", 4, 6),
                ("g", 7, 7),
                ("A::operator()", 11, 15),
                ("h", 17, 18),
                ("Plan.Fits", 20, 21),
            ],
        )
