# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""tools/dev/check_wheel.py on a wheel that lacks what it should have."""

import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from sample_tree import TOOLS

FILES = {
    "amem/__init__.py": "",
    "amem-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: amem\nVersion: 1.0\n",
    "amem-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: case\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "amem-1.0.dist-info/RECORD": "",
}


class Wheel(unittest.TestCase):
    def test_without_the_command_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            wheel = Path(folder, "amem-1.0-py3-none-any.whl")
            with zipfile.ZipFile(wheel, "w") as archive:
                for name, text in FILES.items():
                    archive.writestr(name, text)
            command = [sys.executable, TOOLS / "dev" / "check_wheel.py", wheel]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("bin/amem", done.stderr)
