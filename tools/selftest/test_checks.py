#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Shows each check failing on a violation and passing on a clean sample: runs *_cases.py.

`--without-format` leaves out check_format.py, for machines without clang-format 14.
"""

import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "dev")]

import sample_tree  # noqa: E402  (found through the path above)


def cases_of(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from cases_of(item)
        else:
            yield item


def every_test(without_format: bool) -> unittest.TestSuite:
    suite = unittest.TestSuite()
    for path in sorted(HERE.glob("*_cases.py")):
        module = __import__(path.stem)
        for case in cases_of(unittest.defaultTestLoader.loadTestsFromModule(module)):
            if type(case) is sample_tree.CheckCase:
                continue
            if without_format and case.__class__.__name__ == "Format":
                continue
            suite.addTest(case)
    return suite


def checks_without_cases(suite: unittest.TestSuite) -> list[str]:
    """The check_*.py that no case runs: a check nobody has seen failing is none."""
    covered = {getattr(case, "check", None) for case in cases_of(suite)}
    return sorted({path.name for path in HERE.parent.glob("check_*.py")} - covered)


class Coverage(unittest.TestCase):
    def test_every_check_has_cases(self) -> None:
        self.assertEqual(checks_without_cases(every_test(without_format=False)), [])


def main() -> int:
    suite = every_test(without_format="--without-format" in sys.argv)
    suite.addTest(Coverage("test_every_check_has_cases"))
    return 0 if unittest.TextTestRunner().run(suite).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
