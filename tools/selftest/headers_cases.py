# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""cmake/HeadersAlone.cmake on headers that do not compile alone."""

import re
import subprocess
import tempfile
import unittest

from sample_tree import TOOLS, write_tree

HEADERS = {
    "include/amem.h": "#pragma once\nint amem_pause(void);\n",
    "include/cxx_in_a_c_header.h": "#pragma once\nclass Session;\n",
    "src/base/result.h": "#pragma once\n#include <string>\nstd::string text();\n",
    "src/base/error.h": '#pragma once\n#include "amem.h"\n#include "base/result.h"\n',
    "src/base/include_is_missing.h": "#pragma once\nstd::string text();\n",
    "src/base/warns.h": "#pragma once\ninline bool f(int a, unsigned b) { return a < b; }\n",
}
PROJECT = f"""cmake_minimum_required(VERSION 3.22)
project(sample LANGUAGES C CXX)
include({TOOLS.parent}/cmake/HeadersAlone.cmake)
headers_alone(headers ${{CMAKE_CURRENT_SOURCE_DIR}})
"""


class Headers(unittest.TestCase):
    def test_those_that_do_not_compile_alone_fail(self) -> None:
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, {**HEADERS, "CMakeLists.txt": PROJECT})
            configure = ["cmake", "-G", "Ninja", "-S", root, "-B", f"{root}/build"]
            subprocess.run(configure, check=True, capture_output=True, timeout=120)
            build = ["cmake", "--build", f"{root}/build", "--target", "headers", "--", "-k", "0"]
            done = subprocess.run(build, capture_output=True, text=True, check=False, timeout=120)
        failed = re.findall(r"^FAILED: \S*/headers/(\S+)\.o\b", done.stdout, re.MULTILINE)
        self.assertNotEqual(done.returncode, 0)
        wanted = ["include/cxx_in_a_c_header.h.c", "src/base/include_is_missing.h.cc", "src/base/warns.h.cc"]
        self.assertEqual(sorted(failed), wanted, done.stdout)
