# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The table: what ran, how it went, and whether the whole is good."""

from dataclasses import dataclass

OK, FAIL, SKIP = "ok", "FAIL", "skip"


@dataclass(frozen=True)
class Row:
    """`result` is OK, FAIL, or SKIP: the machine lacks what it needs. Not run for any other reason is FAIL."""

    name: str
    result: str
    seconds: float
    detail: str = ""


def table(rows: list[Row]) -> str:
    """The rows as text, with the counts below them."""
    width = max(len(row.name) for row in [Row("test", OK, 0.0), *rows])
    lines = [f"{'test':<{width}}  result  seconds  detail"]
    for row in rows:
        lines.append(f"{row.name:<{width}}  {row.result:<6}  {row.seconds:7.1f}  {row.detail}".rstrip())
    results = [row.result for row in rows]
    counts = [f"{results.count(result)} {result}" for result in (OK, FAIL, SKIP)]
    return "\n".join([*lines, ", ".join(counts)])


def all_good(rows: list[Row]) -> bool:
    """True when something ran and nothing failed."""
    results = {row.result for row in rows}
    return OK in results and FAIL not in results
