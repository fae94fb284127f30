#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Checks the examples of README and docs/ that run_commands.py does not run, as far as amem alone can.

Code: blocks compile, in Python, C and C++. Names and arguments of amem in Python, also in code spans, are those of the package.

Commands, only with AMEM_TEST_BUILD, a build folder: a ```sh block without `test` runs in bash on simulated GPUs, with a
stand-in for each program of STAND_INS. It ends with 0 and prints no warning. The stand-in imports amem, pauses and
resumes; it fails if amem is off or if its arguments name a module of amem, or a file of examples/ or tests/, that does
not exist. Options in spans such as `amem VERB --option` are those of `amem VERB --help`.
"""

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import markdown_text
import source_tree

BUILD = os.environ.pop("AMEM_TEST_BUILD", "")
STAND_INS = ("COMMAND", "DRIVER", "apt-get", "build/all_reduce_perf", "pip", "python3", "ray", "torchrun", "uv", "vllm")
STAND_IN = f"""#!{sys.executable}
import os, pkgutil, re, sys
import amem
arguments = " ".join(sys.argv[1:])
for name in re.findall(r"\\bamem(?:\\.[a-z]\\w*)+", arguments):
    pkgutil.resolve_name(name)
for name in re.findall(r"\\b(?:examples|tests)/\\S+", arguments):
    os.stat(os.environ["ROOT"] + "/" + name)
assert amem.enabled(), "amem is off"
amem.pause()
amem.resume()
"""
# What examples of C and C++ leave to the reader.
OF_THE_READER = """
int cudaFree(void*), cudaMemcpyAsync(void*, const void*, size_t, int, void*);
constexpr int cudaMemcpyDefault = 4;
void load_weights();
extern size_t weights_bytes, kv_cache_bytes, bytes, count;
extern int rank, world_size, next_rank;
extern float* mine;
extern struct CUstream_st* stream;
"""
_COMMAND = re.compile(r"(?:[A-Z]\w*=\S+ )*amem ([a-z]+)((?: --[a-z][\w-]*(?: (?!-)\S+)?)+)")


def errors_of(commands: str, root: Path) -> list[str]:
    """What the commands of a block print as errors."""
    with tempfile.TemporaryDirectory(prefix="amem-examples-") as folder:
        for path in (Path(folder, name) for name in STAND_INS):
            path.parent.mkdir(exist_ok=True)
            path.write_text(STAND_IN)
            path.chmod(0o755)
        gpus = {"AMEM_SIM_DIR": folder, "LD_LIBRARY_PATH": f"{BUILD}/sim"}
        paths = {"PATH": f"{folder}:{BUILD}/bin:{os.environ['PATH']}", "PYTHONPATH": f"{root}/python", "ROOT": str(root)}
        shell = ["bash", "-euo", "pipefail", "-c", commands]
        done = subprocess.run(
            shell, cwd=folder, env={"AMEM_LOG": "2", **gpus, **paths}, capture_output=True, text=True, check=False, timeout=120
        )
    # A test that runs at the same time may have a process with another wire version.
    said = "\n".join(line for line in done.stderr.splitlines() if "wire version" not in line)
    return [f"{said} (exit code {done.returncode})"] if said or done.returncode else []


def unknown_options(span: str) -> list[str]:
    """The options of amem in a span, before the operands, that are not in its help."""
    match = _COMMAND.match(span) if BUILD else None
    if match is None:
        return []
    help_of = subprocess.run([f"{BUILD}/bin/amem", match[1], "--help"], capture_output=True, text=True, check=False)
    if help_of.returncode == 127:  # a program of the wheel, such as the exporter
        return []
    options = re.findall(r" (--[\w-]+)", match[2])
    return [f"amem {match[1]} has no {option}" for option in options if not re.search(rf"{option}\b(?!-)", help_of.stdout)]


class Calls:
    """The names of amem in Python code, and what is wrong with them."""

    def __init__(self, code: str) -> None:
        self.wrong: list[str] = []
        self.known: dict[str, Any] = {"amem": importlib.import_module("amem")}
        nodes = list(ast.walk(ast.parse(code)))
        for alias in (name for node in nodes if isinstance(node, ast.Import) for name in node.names):
            if alias.name.startswith("amem."):
                self.known[alias.asname or ""] = importlib.import_module(alias.name)
        for node in nodes:
            if isinstance(node, ast.Call):
                self.bind(node)
            elif isinstance(node, ast.Attribute):
                self.resolve(node)

    def resolve(self, node: ast.expr) -> Any:
        """What the expression names; None if it is not amem's."""
        if not isinstance(node, ast.Attribute):
            return self.known.get(node.id) if isinstance(node, ast.Name) else None
        base = self.resolve(node.value)
        if inspect.ismodule(base) and Path(str(base.__file__)).parent.joinpath(f"{node.attr}.py").exists():
            return importlib.import_module(f"{base.__name__}.{node.attr}")
        if base is not None and not hasattr(base, node.attr):
            self.wrong.append(f"{ast.unparse(node)} does not exist")
        return getattr(base, node.attr, None)

    def bind(self, call: ast.Call) -> None:
        function = self.resolve(call.func)
        try:
            if function is not None:
                named = {word.arg: None for word in call.keywords if word.arg}
                inspect.signature(function).bind(*[None] * len(call.args), **named)
        except TypeError as error:
            self.wrong.append(f"{ast.unparse(call)}: {error}")


def wrong_in(code: str) -> list[str]:
    try:
        return sorted(set(Calls(code).wrong))
    except (SyntaxError, ImportError) as error:
        return [str(error)]


def errors_of_compiler(code: str, root: Path) -> list[str]:
    """The first one, of C and C++ inside a function."""
    includes = "\n".join(re.findall("^#.*", code, re.MULTILINE))
    program = f"{includes}\n{OF_THE_READER}\nvoid example() {{\n{re.sub('(?m)^#.*', '', code)}\n}}\n"
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-xc++", "-"]
    folders = [f"-I{root}/include", f"-I{root}/symmetric/include"]
    done = subprocess.run([*command, *folders], input=program, capture_output=True, text=True, check=False)
    return re.findall(".*error.*", done.stderr)[:1]


def check(root: Path, findings: source_tree.Findings) -> None:
    sys.path.insert(0, str(root / "python"))
    os.environ["AMEM_ENABLE"] = "0"
    for page in [Path("README.md"), *sorted(path.relative_to(root) for path in (root / "docs").rglob("*.md"))]:
        text = "" if "decisions" in page.parts else source_tree.require(root, str(page))
        blocks = markdown_text.fenced_blocks(text)
        found = [(line, wrong_in(code)) for line, info, code in blocks if info == "python"]
        found += [(line, errors_of_compiler(code, root)) for line, info, code in blocks if info in ("c", "cpp")]
        found += [(line, errors_of(code, root)) for line, info, code in blocks if info == "sh" and BUILD]
        for line, span, *_ in markdown_text.code_spans(text):
            code = re.match(r"(amem\.[\w.]+)(\(\)$|\(.*\)$)", span)
            found.append((line, wrong_in(code[1] if code[2] == "()" else span) if code else unknown_options(span)))
        for line, sentences in found:
            for sentence in sentences:
                findings.add(page, line, sentence)


if __name__ == "__main__":
    sys.exit(source_tree.main_of(check, __doc__))
