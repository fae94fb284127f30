# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""clang-tidy with this repository's settings, on members that are used without their lock."""

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
    def tidy(self, old="", new=""):
        """(exit code, everything printed) of clang-tidy on the source, changed."""
        self.assertIn(old, SOURCE)
        with tempfile.TemporaryDirectory() as folder:
            write_tree(folder, {"counter.cc": SOURCE.replace(old, new, 1)})
            command = ["clang-tidy", "--quiet", f"--config-file={ROOT / '.clang-tidy'}"]
            command += [str(Path(folder, "counter.cc")), "--", "-std=c++20", f"-I{ROOT / 'src'}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout + done.stderr

    def test_passes_on_what_is_locked(self):
        code, output = self.tidy()
        self.assertEqual(code, 0, output)

    def test_finds_a_member_that_is_used_without_its_lock(self):
        code, output = self.tidy(" AMEM_REQUIRES(mutex_)")
        self.assertNotEqual(code, 0, output)
        self.assertIn("requires holding mutex 'mutex_'", output)
        self.assertIn("thread-safety", output)

    def test_finds_a_call_without_the_lock_that_it_requires(self):
        code, output = self.tidy("    amem::MutexLock lock(mutex_);\n")
        self.assertNotEqual(code, 0, output)
        self.assertIn("thread-safety", output)
