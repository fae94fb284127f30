#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Compiles every header of src/ and include/ alone; those of include/ also as C11.

The compilers are $CXX and $CC, or g++ and gcc.
"""

import concurrent.futures
import os
import shlex
import shutil
import subprocess
import sys

import source_tree

_WARNINGS = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]


def compilers():
    """The commands for C++ and for C, as lists."""
    found = {}
    for variable, default in (("CXX", "g++"), ("CC", "gcc")):
        command = shlex.split(os.environ.get(variable) or default)
        if shutil.which(command[0]) is None:
            raise source_tree.CannotRun(f"there is no {command[0]}")
        found[variable] = command
    return found


def compile_alone(root, compiler, language, header):
    """The first error of a file that only includes `header`, or None."""
    # AMEM_SEEDED_FAULTS and the like stay off: what ships is what has to stand alone.
    # Found through -I, as users find it: #include_next goes on from there.
    where = [f"-I{root / folder}" for folder in ("include", "src")]
    command = compiler + language + _WARNINGS + where + ["-"]
    text = f'#include "{header.relative_to(header.parts[0])}"\n'
    done = subprocess.run(
        command, input=text, cwd=root, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return next((line for line in lines if "error" in line), lines[0])


def check(root, findings):
    headers = source_tree.files(root, ("src", "include"), (".h",))
    if not headers:
        raise source_tree.CannotRun("no headers found")
    found = compilers()
    as_cxx, as_c = ["-std=c++20", "-x", "c++"], ["-std=c11", "-x", "c"]
    jobs = [(found["CXX"], as_cxx, header) for header in headers]
    jobs += [(found["CC"], as_c, header) for header in headers if header.parts[0] == "include"]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda job: compile_alone(root, *job), jobs)
        for (_, language, header), error in zip(jobs, results):
            if error is not None:
                findings.add(header, 0, f"does not compile alone ({language[0]}): {error}")


if __name__ == "__main__":
    sys.exit(source_tree.main_of(check, __doc__))
