# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What MkDocs does beside rendering docs/: the documents of the root and the references of the APIs are pages too.

A link from docs/ to another file of the repository becomes its path in a code span: the site does not have the file.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
OF_THE_ROOT = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
HEADERS = ("include/amem.h", "include/nccl.h", "symmetric/include/amem/symmetric.h")
# Of C++, and of kernels.
WHOLE_HEADERS = ("include/amem/memory.hpp", *(f"symmetric/include/amem/{name}" for name in (
    "symmetric.hpp", "groups.hpp", "mpi_group.hpp", "symmetric.cuh", "symmetric_view.h")))  # fmt: skip
C_REFERENCE = "reference/c.md"

# What run_commands.py reads behind the language; superfences takes such a line for text.
_TEST = re.compile(r"^```sh test.*$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
# A comment and the declarations below it, up to an empty line; or declarations without a comment.
_COMMENT = re.compile(r"^/\*(.*?)\*/$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"\b((?:amem|nccl)\w+)\(|^\} (\w+_t);|^typedef struct \w+\* (\w+_t);", re.MULTILINE)


def _text_of(comment: str) -> str:
    lines = [re.sub(r"^ ?\* ?", "", line).rstrip() for line in comment.strip("*").split("\n")]
    return "\n".join(lines).strip()


def _blocks(header: str) -> list[tuple[str, str]]:
    """(comment, declarations) of a header, in its order."""
    body = header[header.index('extern "C" {') :]
    body = re.sub(r"^#.*\n", "", body[body.index("\n") : body.rindex("#ifdef __cplusplus")], flags=re.MULTILINE)
    found = []
    for block in re.split(r"\n\n(?=/\*|typedef|\w)", body):
        match = _COMMENT.match(block.strip() + "\n") if block.strip().startswith("/*") else None
        comment = _text_of(match[1]) if match else ""
        code = (block.strip()[match.end() :] if match else block).strip()
        if comment or code:
            found.append((comment, code))
    return found


def c_reference(headers: dict[str, str]) -> str:
    """The functions and types of the headers, each under its name, with the comments above them."""
    page = [""]
    for name, text in headers.items():
        page += [f"## {Path(name).name}", ""]
        for comment, code in _blocks(text):
            section, _, rest = comment.removeprefix("--- ").partition("\n")
            if comment.startswith("--- "):
                page += [f"### {section.rstrip('.')}", "", rest.strip(), ""]
                comment = ""
            declared = re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL)
            names = [next(filter(None, groups)) for groups in _NAME.findall(declared)]
            if names:
                page += [f"#### {', '.join(dict.fromkeys(names))}", ""]
            page += [f"```c\n{code}\n```", ""] if code else []
            page += [comment.replace("<", "&lt;"), ""] if comment else []
    return "\n".join(page)


def whole_headers(headers: dict[str, str]) -> str:
    """Each header as it is, without its license."""
    pages = []
    for name, text in headers.items():
        code = re.sub(r"\A(?:(?:// |/\* | \* )SPDX.*\n)+(?://| \*)?\n", "", text).strip()
        pages.append(f"## {Path(name).name}\n\n```cpp\n{code}\n```\n")
    return "\n" + "\n".join(pages)


def on_config(config: Any) -> Any:
    """A folder in the navigation, such as decisions/, means all of its pages."""

    def expanded(item: Any) -> Any:
        if isinstance(item, list):
            return [expanded(each) for each in item]
        if isinstance(item, dict):
            return {title: expanded(value) for title, value in item.items()}
        if item.endswith("/"):
            return sorted(path.relative_to(config.docs_dir).as_posix() for path in Path(config.docs_dir, item).glob("*.md"))
        return item

    config.nav = expanded(config.nav)
    return config


def on_files(files: Any, config: Any) -> Any:
    """The documents of the root."""
    for name in OF_THE_ROOT:
        if (ROOT / name).exists():
            files.append(File.generated(config, name.lower(), content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links to files that the site does not have, and to those that it has under another name."""
    source = page.file.src_uri
    if source == C_REFERENCE:
        texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in HEADERS + WHOLE_HEADERS}
        of_c = {name: texts.pop(name) for name in HEADERS}
        return markdown + c_reference(of_c) + whole_headers(texts)
    at_root = source.upper().removesuffix(".MD") + ".md" in OF_THE_ROOT
    folder = ROOT if at_root else (ROOT / "docs" / source).parent

    def mend(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        path, hash_sign, anchor = target.partition("#")
        if not path or re.match(r"[a-z][a-z0-9+.\-]*:", target):
            return match[0]
        aimed = (folder / path).resolve()
        depth = "../" * source.count("/")
        relative = aimed.relative_to(ROOT).as_posix() if aimed.is_relative_to(ROOT) else path
        if relative in OF_THE_ROOT:
            return f"[{text}]({depth}{relative.lower()}{hash_sign}{anchor})"
        if relative == "README.md":
            return f"[{text}]({depth}index.md)" if not anchor else text
        if relative.startswith("docs/"):
            inside = relative.removeprefix("docs/")
            if aimed.is_dir():
                return text
            return f"[{text}]({depth}{inside}{hash_sign}{anchor})"
        plain = text.strip("`")
        return f"`{relative}`" if plain in (relative, Path(relative).name) else f"{text} (`{relative}`)"

    return _LINK.sub(mend, _TEST.sub("```sh", markdown))
