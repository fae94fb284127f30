# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""tools/dev/check_wheel.py on a wheel that lacks what it should have."""

import importlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from typing import Any

from sample_tree import TOOLS

FILES = {
    "amem/__init__.py": "",
    "amem-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: amem\nVersion: 1.0\n",
    "amem-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: case\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "amem-1.0.dist-info/RECORD": "",
}


def check_wheel() -> Any:
    return importlib.import_module("check_wheel")


def library(section_type: int) -> bytes:
    """A 64-bit ELF file with one section header, of that type (elf(5))."""
    header = b"\x7fELF\x02\x01\x01".ljust(40, b"\0") + struct.pack("<QIHHHHHH", 64, 0, 64, 0, 0, 64, 1, 0)
    return header + struct.pack("<II", 0, section_type).ljust(64, b"\0")


class Wheel(unittest.TestCase):
    def test_library_that_is_not_stripped_fails(self) -> None:
        module = check_wheel()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "lib", "libamem.so")
            path.parent.mkdir()
            Path(folder, "amem.h").write_text("no ELF file", encoding="utf-8")
            path.write_bytes(library(11))  # .dynsym
            module.check_stripped(Path(folder))
            path.write_bytes(library(2))
            with self.assertRaisesRegex(module.Failed, "not stripped: .*libamem.so"):
                module.check_stripped(Path(folder))

    def test_library_without_bearssl_fails(self) -> None:
        module = check_wheel()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "libamem_nccl.so")
            path.write_bytes(library(11) + module.SHA_256)
            module.check_job_key(path)
            path.write_bytes(library(11))
            with self.assertRaisesRegex(module.Failed, "libamem_nccl.so has no SHA-256: it was built without BearSSL"):
                module.check_job_key(path)

    def test_without_the_command_fails(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            wheel = Path(folder, "amem-1.0-py3-none-any.whl")
            with zipfile.ZipFile(wheel, "w") as archive:
                for name, text in FILES.items():
                    archive.writestr(name, text)
            command = [sys.executable, str(TOOLS / "dev" / "check_wheel.py"), str(wheel)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("bin/amem", done.stderr)
