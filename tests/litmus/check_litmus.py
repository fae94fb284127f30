#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Runs the litmus tests of this folder with herd7, Arm's memory model: check_litmus.py [HERD7]

The comment of a test begins with what herd7 must observe of its condition: Never or Sometimes. Exit code 77: there is no herd7
(https://github.com/herd/herdtools7, which no package of Debian has).
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path


def main() -> int:
    herd = sys.argv[1] if len(sys.argv) > 1 else shutil.which("herd7")
    if herd is None:
        print("skipped: herd7 is not on PATH")
        return 77
    failures = 0
    for test in sorted(Path(__file__).parent.glob("*.litmus")):
        expected = re.search(r"^\(\* (Never|Sometimes):", test.read_text(), re.MULTILINE)
        assert expected is not None, f"{test}: its comment does not say what is expected"
        done = subprocess.run([herd, test], capture_output=True, text=True, check=False, timeout=300)
        seen = re.search(r"^Observation \w+ (\w+)", done.stdout, re.MULTILINE)
        right = seen is not None and seen[1] == expected[1]
        failures += not right
        print(f"{test.stem}: {seen[1] if seen else done.stderr.strip()}" + ("" if right else f", not {expected[1]}"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
