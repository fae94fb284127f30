# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What the reports of GoogleTest and of amem_demo say.

A reader takes the file that a program wrote and returns findings: (result, detail) of rows.py. It
raises ValueError when the file is not such a report.
"""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Callable

from rows import FAIL, OK, SKIP

Finding = tuple[str, str]
Reader = Callable[[Path], list[Finding]]

FREED_AT_LEAST = 0.99

# Why a test may be skipped: the machine lacks what it needs. Any other reason is a failure.
_LACKING = re.compile(
    r"needs \d+ GPUs|there is one device only|cannot access device|has no dma-buf support|"
    r"a real driver does not (count its calls|fail on request|wait on request|hand out what others left)"
)


def _skip_reason(case: ElementTree.Element) -> str:
    """The last line of GoogleTest's message; the place comes before it."""
    skipped = case.find("skipped")
    lines = [] if skipped is None else skipped.get("message", "").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no reason given")


def read_gtest(path: Path) -> list[Finding]:
    """One finding for the tests that ran, and one for each reason why others did not."""
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except ElementTree.ParseError as error:
        raise ValueError(f"{path.name} is no GoogleTest report: {error}") from error
    failed = [case.get("name", "?") for case in cases if case.find("failure") is not None]
    rest = [case for case in cases if case.find("failure") is None]
    passed = sum(case.get("result") == "completed" for case in rest)
    skipped = Counter(_skip_reason(case) for case in rest if case.get("result") == "skipped")
    findings = []
    if failed:
        findings.append((FAIL, f"{passed} passed, {len(failed)} failed: {', '.join(failed)}"))
    elif passed:
        findings.append((OK, f"{passed} passed"))
    for reason, count in skipped.items():
        findings.append((SKIP if _LACKING.search(reason) else FAIL, f"{count} skipped: {reason}"))
    disabled = len(rest) - passed - sum(skipped.values())
    if disabled:
        findings.append((FAIL, f"{disabled} disabled"))
    return findings or [(FAIL, "ran no test")]


def demo_reader(ranks: int, communicators: int) -> Reader:
    """Reads amem_demo's JSON: this many took part, all was verified, and by the driver's own figure of
    free memory each GPU got back 99 % or more of what NCCL had allocated on it."""

    def read(path: Path) -> list[Finding]:
        said = json.loads(path.read_text(encoding="utf-8"))
        try:
            took_part = (said["ranks"], said["communicators"], len(said["freed_bytes"]), len(said["nccl_bytes"]))
            shares = [freed / held for freed, held in zip(said["freed_bytes"], said["nccl_bytes"])]
            least, freed_mib = min(shares), min(said["freed_bytes"]) >> 20
            detail = f"freed {freed_mib} MiB a GPU, {least:.1%} of NCCL's; "
            detail += f"pause {said['pause_ms'] / 1e3:.3f} s, resume {said['resume_ms'] / 1e3:.3f} s"
            verified, gpu = said["verified"], said["gpu"]
        except (KeyError, TypeError, ZeroDivisionError) as error:
            raise ValueError(f"{path.name} is no report of amem_demo: {error!r}") from error
        if gpu == "simulated":
            return [(FAIL, "the demo found no GPUs or no NCCL and simulated them")]
        if took_part != (ranks, communicators, ranks, ranks):
            return [(FAIL, f"ranks, communicators, figures freed and held: {took_part}")]
        if verified is not True:
            return [(FAIL, "verified is not true")]
        return [(OK if least >= FREED_AT_LEAST else FAIL, detail)]

    return read
