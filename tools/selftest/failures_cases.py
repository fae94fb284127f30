# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""check_failures.py on a document that does not know its tests, or quotes what nobody says."""

from sample_tree import CheckCase

DOCUMENT = """# Failure modes

| fault | caller sees | tests |
|---|---|---|
| a call fails | `ncclSystemError`; `cannot get … MiB of memory` | `Fault.IsSurvived` |
"""
TEST = "TEST_F(Fault, IsSurvived) {\n}\n"
SOURCE = 'fail("cannot get "\n     "%zu MiB of memory");\n'


class Failures(CheckCase):
    check = "check_failures.py"
    clean = {
        "docs/failure_modes.md": DOCUMENT,
        "tests/faults/fault_test.cc": TEST,
        "tests/process/speed_test.cc": "TEST(Speed, IsMeasured) {\n}\n",
        "src/engine/fail.cc": SOURCE,
    }
    needed = ("docs/failure_modes.md",)
    harmless = {
        "a table without tests": {"docs/failure_modes.md": DOCUMENT + "\n| figure |\n|---|\n| 5 |\n"},
    }
    violations = {
        "a lost test": ({"tests/faults/fault_test.cc": ""}, "there is no test Fault.IsSurvived"),
        "a fault test in no row": (
            {"tests/process/misuse_calls_test.cc": "TEST(Misuse, IsRefused) {\n}\n"},
            "Misuse.IsRefused stands in no row",
        ),
        "a row without tests": (
            {"docs/failure_modes.md": DOCUMENT + "| another | `ncclSuccess` | none |\n"},
            "this row names no test",
        ),
        "a sentence that nobody says": (
            {"src/engine/fail.cc": SOURCE.replace("MiB", "KiB")},
            "nothing in src says 'MiB of memory'",
        ),
        "a sentence of a test only": (
            {"src/engine/fail.cc": "", "src/engine/fail_test.cc": SOURCE},
            "nothing in src says",
        ),
    }
