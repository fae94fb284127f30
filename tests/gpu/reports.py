# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Reads the reports of GoogleTest, of amem_demo and of nccl-tests.

A reader takes the file that a program has written. It raises ValueError if the file is not such a report, or reports a
failure.
"""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

FREED_AT_LEAST = 0.99
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

# Why a test may be skipped: the machine lacks what it needs. Any other reason is a failure.
_LACKING = re.compile(
    r"needs \d+ GPUs|there is one device only|cannot access device|has no dma-buf support|this NCCL has no nccl\w+|"
    r"a stock NCCL (has no function that amem does not know|makes primary contexts current on its threads|"
    r"may wait forever for a rank that has failed)|"
    r"a driver wants more of a container than its namespaces|the plugin knows where simulated memory is|"
    r"a real driver needs descriptors and address space of its own|a stock NCCL has one thread for each communicator|"
    r"needs simulated GPUs: the checks are of calls that block|other processes of a real driver have other memory|"
    r"needs an IMEX channel, a simulated one|needs the checkpoint of a simulated driver|this user makes no network namespaces|"
    r"this kernel has no INET_DIAG_DESTROY|"
    r"a real driver does not (count its calls|fail on request|wait on request|hand out what others left)"
)


def _outcome(case: ElementTree.Element) -> tuple[str, str]:
    """(PASSED, FAILED or SKIPPED, why) of one test."""
    failures = [failure.get("message", "") for failure in case.findall("failure")]
    if failures:
        return FAILED, "\n".join(failures)
    if case.get("result") == "skipped":
        # The last line of GoogleTest's message; the place comes before it.
        lines = [line for skipped in case.findall("skipped") for line in skipped.get("message", "").split("\n")]
        reason = next((line.strip() for line in reversed(lines) if line.strip()), "no reason given")
        return (SKIPPED, reason) if _LACKING.search(reason) else (FAILED, f"skipped: {reason}")
    return (PASSED, "") if case.get("result") == "completed" else (FAILED, "disabled")


def read_gtest(path: Path) -> dict[str, tuple[str, str]]:
    """The outcome of each test that the report knows of."""
    try:
        cases = ElementTree.parse(path).getroot().iter("testcase")
    except ElementTree.ParseError as error:
        raise ValueError(f"{path.name} is no GoogleTest report: {error}") from error
    return {f"{case.get('classname')}.{case.get('name')}": _outcome(case) for case in cases}


def demo_reader(ranks: int, communicators: int) -> Callable[[Path], str]:
    """Reads amem_demo's JSON: this many took part, all was verified, and by the driver's own figure of
    free memory each GPU got back 99 % or more of what NCCL had allocated on it."""

    def read(path: Path) -> str:
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
            raise ValueError("the demo found no GPUs or no NCCL and simulated them")
        if took_part != (ranks, communicators, ranks, ranks):
            raise ValueError(f"ranks, communicators, figures freed and held: {took_part}")
        if verified is not True:
            raise ValueError("verified is not true")
        if least < FREED_AT_LEAST:
            raise ValueError(detail)
        return detail

    return read


def symmetric_demo_reader(ranks: int) -> Callable[[Path], str]:
    """Reads the JSON of amem_demo --what symmetric: all ranks verified, and a pause freed each one's buffer of 64 MiB."""

    def read(path: Path) -> str:
        said = json.loads(path.read_text(encoding="utf-8"))
        try:
            freed, facts = list(said["freed_bytes"]), (said["gpu"], said["ranks"], said["verified"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path.name} is no report of amem_demo --what symmetric: {error!r}") from error
        if facts[0] == "simulated" or facts[1:] != (ranks, True) or len(freed) != ranks:
            raise ValueError(f"GPU, ranks, verified: {facts}; {len(freed)} ranks freed memory")
        if min(freed) < 64 << 20:
            raise ValueError(f"a rank freed {min(freed)} bytes only")
        return f"freed {min(freed) >> 20} MiB a GPU"

    return read


def read_nccl_tests(path: Path) -> str:
    """Reads what a program of nccl-tests and amem have printed: no wrong value, and pauses between the calls."""
    text = path.read_text(encoding="utf-8", errors="replace")
    checked = re.findall(r"# Out of bounds values *: *(\d+) (\w+)", text)
    if checked != [("0", "OK")]:
        raise ValueError(f"out of bounds values: {checked}")
    pauses = text.count(" INFO paused nccl in ")
    if pauses == 0 or " WARN " in text:
        raise ValueError(f"{pauses} pauses, warnings: {text.count(' WARN ')}")
    return f"{pauses} pauses, no wrong value"
