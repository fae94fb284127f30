#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Writes docs/support.md, the page for readers, from docs/support.toml.

The data has `intro` and `tables`. A table has `columns` and `rows`, and may have a `title`, which is a heading, and a `text`
above it. The first column is the `name` of a row. Each other column has a cell: a list of claims, which is empty where there is
nothing to show. A claim has a `kind` and may have `text`, `tests`, `quote` (a string or a list) and `seen`. On the page:

  works       "yes", or "yes: text"
  seen        "text" (where or with what it ran) as a link to `seen`, after "yes" if it is the first claim of the cell
  stays       "stays: text", or the reason in `quote`
  refused     "refused", or "refused: text"
  not tested  "not tested", or "not tested text"
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path
from typing import Any

import source_tree

DATA = "docs/support.toml"
PAGE = "docs/support.md"
Claim = dict[str, Any]


def read_data(root: Path) -> dict[str, Any]:
    text = source_tree.require(root, DATA)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as reason:
        raise source_tree.CannotRun(f"{DATA}: {reason}") from reason


def quotes_of(claim: Claim) -> list[str]:
    quote = claim.get("quote", [])
    return [quote] if isinstance(quote, str) else quote


def words_of(claim: Claim) -> str:
    kind, text = claim["kind"], claim.get("text", "")
    if kind == "works":
        return f"yes: {text}" if text else "yes"
    if kind == "stays":
        return "stays: " + (text or ", ".join(f"`{quote}`" for quote in quotes_of(claim)))
    if kind == "refused":
        return f"refused: {text}" if text else "refused"
    return f"not tested {text}".strip()


def cell_of(claims: list[Claim]) -> str:
    """`yes, [on 2 GPUs](...); refused: ...`, or `not tested; [its launcher](...)` where what was seen is only a part."""
    parts: list[str] = []
    positive = False
    for claim in claims:
        if claim["kind"] == "seen":
            link = f"[{claim['text']}]({claim['seen']})"
            if positive:
                parts[-1] += f", {link}"
            else:
                parts.append(link if parts else f"yes, {link}")
        else:
            parts.append(words_of(claim))
        positive = claim["kind"] in ("works", "seen")
    return "; ".join(parts) or "–"


def table_of(table: dict[str, Any]) -> str:
    parts = []
    if "title" in table:
        parts.append(f"## {table['title']}")
    if "text" in table:
        parts.append(table["text"].strip())
    if "columns" in table:
        lines = [table["columns"], *([row["name"].strip(), *map(cell_of, row["cells"])] for row in table["rows"])]
        rows = [f"| {' | '.join(line)} |" for line in lines]
        parts.append("\n".join([rows[0], "|---" * len(table["columns"]) + "|", *rows[1:]]))
    return "\n\n".join(parts)


def page_of(data: dict[str, Any]) -> str:
    made_of = f"<!-- Made of {Path(DATA).name} by tools/support_page.py. -->"
    parts = ["# Support", made_of, data["intro"].strip(), *map(table_of, data["tables"])]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    try:
        (root / PAGE).write_text(page_of(read_data(root)), encoding="utf-8")
    except source_tree.CannotRun as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
