#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Installs amem into an empty prefix and uses it as a stranger would: pkg-config, a C and a C++ compiler, a run.

  check_install.py --cmake C --build DIR --cc CC --cxx CXX --pkg-config P NCCL...

NCCL: libraries to forward to; the first that exists is used.
"""

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def run(command, **settings):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AMEM_")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment | settings, check=False, timeout=120)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def expected_version(nccl):
    version = ctypes.c_int()
    if ctypes.CDLL(nccl).ncclGetVersion(ctypes.byref(version)) != 0:
        sys.exit(f"{nccl}: ncclGetVersion failed")
    return version.value


def flags(pkg_config, prefix, *options):
    folder = next(prefix.rglob("amem.pc")).parent
    return run([pkg_config, *options, "amem"], PKG_CONFIG_PATH=str(folder)).stdout.split()


def check(arguments, folder):
    installed, prefix = folder / "installed", folder / "moved"
    run([arguments.cmake, "--install", arguments.build, "--prefix", installed, "--component", "library"])
    # The prefix may be moved: nothing in it may name where it was.
    shutil.move(installed, prefix)
    nccl = next(path for path in arguments.nccl if Path(path).exists())
    expected = expected_version(nccl)
    libraries = flags(arguments.pkg_config, prefix, "--variable=libdir")[0]
    for compiler, source in ((arguments.cc, "hello.c"), (arguments.cxx, "hello.cc")):
        program = folder / source.replace(".", "_")
        compile_flags = flags(arguments.pkg_config, prefix, "--cflags")
        link_flags = flags(arguments.pkg_config, prefix, "--libs")
        run([compiler, "-Wall", "-Wextra", "-Werror", HERE / source, "-o", program, *compile_flags, *link_flags])
        done = run([program], LD_LIBRARY_PATH=libraries, AMEM_NCCL_PATH=nccl)
        if done.stdout != f"{expected}\n" or done.stderr:
            sys.exit(f"{source}: printed {done.stdout!r} and {done.stderr!r}, not the version {expected} of {nccl}")
        print(f"{source}: NCCL {expected} of {nccl}, reached through {libraries}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--cmake", "--build", "--cc", "--cxx", "--pkg-config"):
        parser.add_argument(option, required=True)
    parser.add_argument("nccl", nargs="+")
    with tempfile.TemporaryDirectory(prefix="amem-install-") as folder:
        check(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
