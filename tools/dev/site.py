#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Builds the site of the documents in build/site with MkDocs: every warning is an error, also of a link or an anchor.

site.py [--check | --serve]. --check also builds a copy in which a link is broken, which must fail. Exit code 77: there is no
package index, and MkDocs is not installed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "build/needs/docs"
PACKAGES = ("mkdocs==1.6.1", "mkdocs-material==9.8.2", "mkdocstrings-python==2.0.11")
NO_INDEX = 77


def make_environment() -> bool:
    """Whether MkDocs is installed in a virtual environment of its own."""
    mark = ENVIRONMENT / "complete"
    if mark.exists() and mark.read_text() == " ".join(PACKAGES):
        return True
    command = ["bash", str(ROOT / "tools/dev/python_with.sh"), "venv,ensurepip"]
    python = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run([python, "-m", "venv", "--clear", ENVIRONMENT], check=True)
    pip = [str(ENVIRONMENT / "bin/pip"), "--disable-pip-version-check", "--retries", "1", "--quiet"]
    download = [*pip, "download", "--no-deps", "--dest", str(ENVIRONMENT / "index"), PACKAGES[0]]
    if subprocess.run(download, check=False).returncode != 0:
        return False
    subprocess.run([*pip, "install", *PACKAGES], check=True)
    mark.write_text(" ".join(PACKAGES))
    return True


def build(root: Path, *arguments: str) -> int:
    command = [str(ENVIRONMENT / "bin/mkdocs"), *(arguments or ("build", "--strict"))]
    return subprocess.run(command, cwd=root, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False).returncode


def refuses_a_broken_anchor() -> bool:
    with tempfile.TemporaryDirectory(prefix="amem-site-") as name:
        copy = Path(name)
        for part in ("docs", "python/amem", "tools/dev", "include", "symmetric/include"):
            shutil.copytree(ROOT / part, copy / part)
        for file in ROOT.glob("*.md"):
            shutil.copy(file, copy)
        shutil.copy(ROOT / "mkdocs.yml", copy)
        with (copy / "docs/index.md").open("a", encoding="utf-8") as page:
            page.write("\n[broken](concepts.md#there-is-no-such-heading)\n")
        return build(copy) != 0


def undocumented(package: str, page: str) -> list[str]:
    """The names in __all__ of the package without an entry on the page of the reference."""
    names = re.findall(r'^    "(\w+)",$', package, re.MULTILINE)
    return [name for name in names if f'id="amem.{name}"' not in page]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--serve", action="store_true")
    arguments = parser.parse_args()
    if not make_environment():
        print("skipped: no package index, from which MkDocs is installed", file=sys.stderr)
        return NO_INDEX
    if arguments.serve:
        return build(ROOT, "serve")
    code = build(ROOT)
    if code == 0 and arguments.check and not refuses_a_broken_anchor():
        print("a page with a broken anchor was built", file=sys.stderr)
        return 1
    broken = [page for page in (ROOT / "build/site").rglob("*.html") if "<p>```" in page.read_text(encoding="utf-8")]
    if broken:
        print(f"a fenced block is shown as text: {', '.join(map(str, broken))}", file=sys.stderr)
        return 1
    package = (ROOT / "python/amem/__init__.py").read_text(encoding="utf-8")
    page = (ROOT / "build/site/reference/python.html").read_text(encoding="utf-8") if code == 0 else ""
    if code == 0 and (missing := undocumented(package, page)):
        print(f"the reference of the Python package lacks {', '.join(missing)}", file=sys.stderr)
        return 1
    if arguments.check and undocumented(package, page.replace('id="amem.pause"', "")) != ["pause"]:
        print("a page without pause() was taken for complete", file=sys.stderr)
        return 1
    if code == 0:
        print(f"built: {ROOT / 'build/site/index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
