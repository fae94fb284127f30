#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Compares the #includes of src/ with the table under "## Layers" of ARCHITECTURE.md.

Below clients/, the names of NCCL and PyTorch must not appear in an identifier, string or comment,
except in a comment that cites a source (file@version) and in the settings of the environment.

symmetric/ includes amem.h, its own headers and these few of src/base.

Also checks what only one folder may use: cuda.h, dlsym and dlopen, getenv, sockets. Tests
(*_test.cc) are exempt, and an `allow:` comment with a reason permits a single use, as in
check_banned.py. The columns of the table are `folder` and `may include`; a cell is a list of
folders, `all`, or a dash.
"""

import pathlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath

import markdown_text
import source_tree

OUTSIDE = ("tests", "sim", "jobs", "bench", "examples", "cycles", "symmetric")
OF_SYMMETRIC = re.compile(r"amem\.h|amem/\w+\.\w+|symmetric/\w+\.\w+|base/(?:cancellation|deadline|mutex|result)\.h")

# What, how it looks in code, where it may stand, why.
HOMES = (
    (
        "dlsym and dlopen",
        re.compile(r"(?<![\w.>])(?:dlsym|dlvsym|dlopen|dlmopen)\s*\("),
        ("src/clients/", "src/driver/", "src/api/", "src/cli/doctor/"),
        "look-ups are answered, and asked, where the driver and the real libnccl are known",
    ),
    (
        "getenv",
        re.compile(r"(?<![\w.>])(?:secure_)?getenv\s*\("),
        ("src/base/environment.cc",),
        "every variable is a row of src/base/environment.def and read once",
    ),
    (
        "socket calls",
        re.compile(
            r"(?<![\w.>])(?:socket|socketpair|accept4|sendmsg|recvmsg|sendmmsg|recvmmsg"
            r"|getsockopt|setsockopt)\s*\("
        ),
        ("src/transport/",),
        "bytes from other processes enter in one place",
    ),
)
HEADER_HOMES = (
    (re.compile(r"(?:.*/)?(?:cuda|cuda_runtime|cuda_runtime_api|cudaTypedefs)\.h"), "src/driver/"),
    (re.compile(r"sys/socket\.h|sys/un\.h|netinet/.*|arpa/.*|netdb\.h"), "src/transport/"),
)


LIBRARY_NAME = re.compile(r"nccl|torch", re.IGNORECASE)
CITED_SOURCE = re.compile(r"@v?\d")
MAY_NAME_LIBRARIES = ("clients/", "api", "cli")
SETTINGS = re.compile(r"src/base/environment(_test)?\.\w+")


def folder_of(path: PurePath) -> str:
    """The layer of a file of src/: its folder, of clients/ one folder for each client."""
    depth = 3 if path.parts[1] == "clients" else 2
    return "/".join(path.parts[1:depth])


def read_table(text: str) -> dict[str, set[str]]:
    """{folder: set of the folders it may include}; "all" stands for every folder of the table."""
    rows = markdown_text.table_under(text, r"^layers$")
    if not rows:
        raise source_tree.CannotRun("ARCHITECTURE.md has no table under a heading 'Layers'")
    table = {}
    for line, row in rows:
        if "folder" not in row or "may include" not in row:
            raise source_tree.CannotRun(
                f"ARCHITECTURE.md:{line}: the layer table needs columns 'folder' and 'may include'"
            )
        folder = row["folder"].strip("`* ").removeprefix("src/").rstrip("/")
        table[folder] = {word.rstrip("/") for word in re.findall(r"[\w/]+", row["may include"])}
    for folder, below in table.items():
        if below == {"all"}:
            table[folder] = set(table) - {folder}
    return table


def check_table(table: dict[str, set[str]], folders: set[str], findings: source_tree.Findings) -> None:
    """The table names exactly the folders that exist, and no circle."""
    for folder in sorted(folders - set(table)):
        findings.add(f"src/{folder}", 0, "is not in the layer table of ARCHITECTURE.md")
    for folder in sorted(set(table) - folders):
        findings.add("ARCHITECTURE.md", 0, f"layer table names src/{folder}, which has no code")
    for folder, below in sorted(table.items()):
        for name in sorted(below - set(table)):
            findings.add("ARCHITECTURE.md", 0, f"{folder} may include {name}, which is no row")
        reached, todo = set(), set(below)
        while todo:
            name = todo.pop()
            reached.add(name)
            todo |= table.get(name, set()) - reached
        if folder in reached:
            findings.add("ARCHITECTURE.md", 0, f"layer {folder} stands below itself")


def check_includes(root: Path, path: Path, text: str, table: dict[str, set[str]], findings: source_tree.Findings) -> None:
    """The #includes of one file of src/."""
    here = folder_of(path)
    for line, bracket, name in source_tree.includes(text):
        for pattern, home in HEADER_HOMES:
            if pattern.fullmatch(name) and not str(path).startswith(home):
                findings.add(path, line, f"{name} may be included only in {home}")
        if bracket == "<":
            continue
        first, slash, _ = name.partition("/")
        if not slash:
            if (root / path.parent / name).exists():
                whole = path.parent.relative_to("src") / name
                findings.add(path, line, f'write "{whole}": includes name their folder')
        elif first in OUTSIDE or first == "..":
            findings.add(path, line, f"src never includes {first}/")
        elif (root / "src" / first).is_dir():
            there = folder_of(pathlib.PurePath("src", name))
            if there != here and there not in table.get(here, set()):
                findings.add(path, line, f"{here} may not include {there} ({name})")


def check_symmetric(root: Path, findings: source_tree.Findings) -> None:
    for path in source_tree.files(root, ("symmetric",), source_tree.CXX_SUFFIXES + (".hpp", ".cuh", ".cu", ".S", ".def", ".in")):
        if source_tree.is_test(path):
            continue
        for line, bracket, name in source_tree.includes((root / path).read_text(encoding="utf-8")):
            if bracket == '"' and not OF_SYMMETRIC.fullmatch(name):
                findings.add(path, line, f"symmetric may not include {name}: it stands on amem.h")


def check_words(path: Path, text: str, findings: source_tree.Findings) -> None:
    """No name of a library below clients/. A comment block that cites a source is free."""
    if folder_of(path).startswith(MAY_NAME_LIBRARIES) or SETTINGS.fullmatch(str(path)):
        return
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if not LIBRARY_NAME.search(line):
            continue
        block = [line]
        for step in (-1, 1):
            at = number + step
            while 0 <= at < len(lines) and lines[at].lstrip().startswith("//"):
                block.append(lines[at])
                at += step
        if not any(CITED_SOURCE.search(part) for part in block):
            findings.add(path, number + 1, "below clients/ nobody knows NCCL or PyTorch")


def away_from_home(path: Path, code: str) -> Iterator[tuple[int, str]]:
    """(line, sentence) of each call in src/ that only another place may make."""
    if path.parts[0] != "src" or source_tree.is_test(path):
        return
    for what, pattern, homes, why in HOMES:
        if not str(path).startswith(homes):
            for match in pattern.finditer(code):
                line = source_tree.line_of(code, match.start())
                yield line, f"{what} belong in {', '.join(homes)}: {why}"


def check(root: Path, findings: source_tree.Findings) -> None:
    table = read_table(source_tree.require(root, "ARCHITECTURE.md"))
    # .S files go through the preprocessor and .def files are included: both can include upwards.
    sources = source_tree.files(root, ("src",), source_tree.CXX_SUFFIXES + (".S", ".def", ".inc"))
    if not sources:
        raise source_tree.CannotRun("src/ has no code")
    check_symmetric(root, findings)
    check_table(table, {folder_of(path) for path in sources if len(path.parts) > 2}, findings)
    for path in sources:
        if source_tree.is_test(path) or len(path.parts) < 3:
            continue
        text = (root / path).read_text(encoding="utf-8")
        check_includes(root, path, text, table, findings)
        check_words(path, text, findings)
        allowed = source_tree.allowances(text)
        for line, sentence in away_from_home(path, source_tree.code_only(text)):
            if line not in allowed:
                findings.add(path, line, sentence)


if __name__ == "__main__":
    sys.exit(source_tree.main_of(check, __doc__))
