# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""check_examples.py on examples that do not fit to the package or the command."""

import os
import tempfile
from pathlib import Path
from unittest import mock

from sample_tree import CheckCase, Files, run_tool, write_tree

PACKAGE = """def enabled(): return True
def pause(*tags, timeout=None): pass
def resume(*tags): pass
"""
COMMAND = """#!/bin/sh
if [ "$2" = --help ]; then echo '--group NAME --simulate N'; exit; fi
if [ "$2" = --group ]; then shift 2; fi
if [ "$2" = -- ]; then shift; fi
shift
exec "$@"
"""
CODE = """import torch
import amem.symmetric as memory
torch.unknown(1)
amem.pause("a", timeout=3)
memory.empty(1)
"""
SHELL = """amem run --group train -- vllm serve MODEL
python3 examples/a.py
ray job --hook=amem.symmetric.empty
"""


def page(info: str, content: str) -> Files:
    return {"docs/a.md": f"# A\n```{info}\n{content}\n```\n"}


class Examples(CheckCase):
    check = "check_examples.py"
    clean = {
        "README.md": f"# a\n```python\n{CODE}```\n```sh\n{SHELL}```\nand `amem.pause()`, `amem run --group a vllm --fly`\n",
        "python/amem/__init__.py": PACKAGE,
        "python/amem/symmetric.py": "def empty(size): pass\n",
        "examples/a.py": "",
        "docs/c.md": "```cpp\n#include <amem.h>\namemPause(nullptr);\n```\n",
        "include/amem.h": "#include <stddef.h>\nint amemPause(const char*);\n",
        "build/bin/amem": COMMAND,
    }
    needed = ("README.md",)
    harmless = {
        "a block that runs whole": page("sh test", "false"),
        "an old decision": {"docs/decisions/1.md": "`amem.gone(1)`"},
    }
    violations = {
        "code that does not compile": (page("python", "amem.pause("), "docs/a.md:2: '(' was never closed"),
        "a lost function": (page("python", "amem.stop()"), "docs/a.md:2: amem.stop does not exist"),
        "a lost module": (page("python", "import amem.gone"), "No module named 'amem.gone'"),
        "a lost function of a module": (page("python", "amem.symmetric.full(1)"), "amem.symmetric.full does not exist"),
        "a wrong argument": (page("python", "amem.pause(wait=3)"), "unexpected keyword argument 'wait'"),
        "a wrong argument in a span": ({"docs/a.md": "`amem.symmetric.empty(n, m)`"}, "docs/a.md:1: amem.symmetric.empty"),
        "a lost function of C": (page("c", "#include <amem.h>\namemFly(bytes);"), "docs/a.md:2: <stdin>"),
        "a wrong option in a span": ({"docs/a.md": "\n`A=1 amem run --sim 2 x`"}, "docs/a.md:2: amem run has no --sim"),
        "a command that fails": (page("sh", "vllm serve; false; true"), "docs/a.md:2:  (exit code 1)"),
        "a warning": (page("sh", "echo WARN >&2"), "docs/a.md:2: WARN (exit code 0)"),
        "a program that nobody knows": (page("sh", "amem run -- fly"), "fly: not found"),
        "a lost example": (page("sh", "torchrun examples/gone.py 8"), "examples/gone.py"),
        "a lost hook": (page("sh", "ray job --hook=amem.symmetric.full"), "has no attribute 'full'"),
        "a job without amem": ({"python/amem/__init__.py": PACKAGE.replace("return True", "return False")}, "amem is off"),
    }

    def run_on(self, files: Files) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as root, mock.patch.dict(os.environ, AMEM_TEST_BUILD=f"{root}/build"):
            write_tree(root, files)
            Path(root, "build/bin/amem").chmod(0o755)
            return run_tool(self.check, root)
