# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""clang-tidy as check.sh runs it, on members that are used without their lock and on long functions."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from sample_tree import TOOLS, write_tree

ROOT = TOOLS.parent
SOURCE = """#include "base/mutex.h"

class Counter {
 public:
  void add() {
    amem::MutexLock lock(mutex_);
    add_locked();
  }

 private:
  void add_locked() AMEM_REQUIRES(mutex_) { ++count_; }
  amem::Mutex mutex_;
  int count_ AMEM_GUARDED_BY(mutex_) = 0;
};

int main() {
  Counter counter;
  counter.add();
}
"""


@unittest.skipUnless(shutil.which("clang-tidy"), "there is no clang-tidy; ./dev check brings it")
class Tidy(unittest.TestCase):
    def tidy(self, source: str) -> tuple[int, str]:
        """(exit code, everything printed)"""
        with tempfile.TemporaryDirectory() as folder:
            write_tree(folder, {"counter.cc": source})
            command = ["clang-tidy", "--quiet", "--system-headers", f"--config-file={ROOT / '.clang-tidy'}"]
            command += [str(Path(folder, "counter.cc")), "--", "-std=c++20", f"-I{ROOT / 'src'}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout + done.stderr

    def without(self, text: str) -> str:
        self.assertIn(text, SOURCE)
        return SOURCE.replace(text, "", 1)

    def test_passes_on_what_is_locked(self) -> None:
        code, output = self.tidy(SOURCE)
        self.assertEqual(code, 0, output)

    def test_finds_a_member_that_is_used_without_its_lock(self) -> None:
        code, output = self.tidy(self.without(" AMEM_REQUIRES(mutex_)"))
        self.assertNotEqual(code, 0, output)
        self.assertIn("requires holding mutex 'mutex_'", output)
        self.assertIn("thread-safety", output)

    def test_finds_a_call_without_the_lock_that_it_requires(self) -> None:
        code, output = self.tidy(self.without("    amem::MutexLock lock(mutex_);\n"))
        self.assertNotEqual(code, 0, output)
        self.assertIn("thread-safety", output)

    def test_finds_functions_of_more_than_60_lines(self) -> None:
        def source(lines: int) -> str:
            inside = "\n" * (lines - 2) + "g();\n"
            test = f"#include <gtest/gtest.h>\nvoid g();\nTEST(A, B) {{{inside}}}\n"
            return f"{test}void f() {{{inside}}}\ntemplate <class T>\nstruct C {{\n  C() {{{inside}}}\n}};\n"

        code, output = self.tidy(source(60))
        self.assertEqual(code, 0, output)
        code, output = self.tidy(source(61))
        self.assertNotEqual(code, 0, output)
        for name in ("TestBody", "f", "C<T>"):
            self.assertIn(f"function '{name}' exceeds recommended size", output)
