# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The parts of a Markdown text that checks read: headings, tables, spans, links, fenced blocks."""

import re

Row = tuple[int, dict[str, str]]  # line, cells by column
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
_FENCE = re.compile(r"^\s*(```+|~~~+)\s*(.*?)\s*$")


def fenced_blocks(text: str) -> list[tuple[int, str, str]]:
    """(line of the opening fence, info string, content) of each fenced block."""
    blocks: list[tuple[int, str, str]] = []
    opening: tuple[int, str, str, list[str]] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        match = _FENCE.match(line)
        if opening is None and match:
            opening = (number, match[1], match[2], [])
        elif opening is not None and match and not match[2] and match[1].startswith(opening[1]):
            blocks.append((opening[0], opening[2], "\n".join(opening[3])))
            opening = None
        elif opening is not None:
            opening[3].append(line)
    return blocks


def without_fences(text: str) -> str:
    """The text with fenced blocks as empty lines, so that line numbers stay."""
    out, fence = [], None
    for line in text.splitlines():
        match = _FENCE.match(line)
        if fence is None and match:
            fence = match[1]
            out.append("")
        elif fence is not None:
            if match and not match[2] and match[1].startswith(fence):
                fence = None
            out.append("")
        else:
            out.append(line)
    return "\n".join(out)


def headings(text: str) -> list[tuple[int, int, str]]:
    """(line, level, title) of each heading outside fenced blocks."""
    found = []
    for number, line in enumerate(without_fences(text).splitlines(), 1):
        match = _HEADING.match(line)
        if match:
            found.append((number, len(match[1]), match[2]))
    return found


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the headings."""
    names: set[str] = set()
    for _, _, title in headings(text):
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        copies = sum(re.fullmatch(re.escape(slug) + r"(-\d+)?", name) is not None for name in names)
        names.add(f"{slug}-{copies}" if copies else slug)
    return names


def _cells(line: str) -> list[str]:
    parts = re.split(r"(?<!\\)\|", line.strip())
    return [part.strip().replace("\\|", "|") for part in parts[1:-1]]


def tables(text: str) -> list[tuple[list[str], list[Row]]]:
    """(titles of the headings around it, rows) of each table; a row is (line, {column: cell}).

    Column names are in lower case.
    """
    found: list[tuple[list[str], list[Row]]] = []
    around: list[tuple[int, str]] = []
    header: list[str] | None = None
    titles = {number: (level, title) for number, level, title in headings(text)}
    for number, line in enumerate(without_fences(text).splitlines(), 1):
        if number in titles:
            level, title = titles[number]
            around = [outer for outer in around if outer[0] < level] + [(level, title)]
        if not line.strip().startswith("|"):
            header = None
            continue
        cells = _cells(line)
        if header is None:
            header = [cell.lower() for cell in cells]
            found.append(([title for _, title in around], []))
        elif not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            found[-1][1].append((number, dict(zip(header, cells))))
    return found


def table_under(text: str, title_pattern: str) -> list[Row] | None:
    """The rows of the first table in the section whose heading matches, or None."""
    for titles, rows in tables(text):
        if any(re.search(title_pattern, title, re.IGNORECASE) for title in titles):
            return rows
    return None


def code_spans(text: str) -> list[tuple[int, str, str, str]]:
    """(line, content, text before on the line, text after) of each `code span` outside fences."""
    spans = []
    for number, line in enumerate(without_fences(text).splitlines(), 1):
        for match in re.finditer(r"(?<!`)`([^`]+)`(?!`)", line):
            spans.append((number, match[1], line[: match.start()], line[match.end() :]))
    return spans


def links(text: str) -> list[tuple[int, str]]:
    """(line, target) of each inline or reference link outside fences and code spans."""
    found = []
    for number, line in enumerate(without_fences(text).splitlines(), 1):
        bare = re.sub(r"`[^`]*`", "", line)
        for match in re.finditer(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)", bare):
            found.append((number, match[1]))
        reference = re.match(r"^\s*\[[^\]]+\]:\s+(\S+)", bare)
        if reference:
            found.append((number, reference[1]))
    return found
