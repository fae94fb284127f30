#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Installs amem into an empty prefix and uses it as a stranger would: pkg-config, a C and a C++ compiler, CMake, a run.

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


def run(command: list[str | Path], **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AMEM_")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment | settings, check=False, timeout=120)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def expected_version(nccl: str) -> int:
    version = ctypes.c_int()
    if ctypes.CDLL(nccl).ncclGetVersion(ctypes.byref(version)) != 0:
        sys.exit(f"{nccl}: ncclGetVersion failed")
    return version.value


def flags(pkg_config: str, prefix: Path, *options: str, package: str = "amem") -> list[str]:
    folder = next(prefix.rglob("amem.pc")).parent
    return run([pkg_config, *options, package], PKG_CONFIG_PATH=str(folder)).stdout.split()


PROJECT = """cmake_minimum_required(VERSION 3.22)
project(hello LANGUAGES C)
find_package(amem 0.1 REQUIRED)
add_executable(hello {source})
target_link_libraries(hello PRIVATE amem::nccl amem::amem_symmetric)
"""


def build_with_cmake(arguments: argparse.Namespace, prefix: Path, folder: Path) -> Path:
    """hello.c as a CMake project that finds amem in the prefix."""
    (folder / "project").mkdir()
    (folder / "project" / "CMakeLists.txt").write_text(PROJECT.format(source=HERE / "hello.c"), encoding="utf-8")
    build = folder / "project" / "build"
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_C_COMPILER={arguments.cc}"]
    run([arguments.cmake, "-S", folder / "project", "-B", build, *options])
    run([arguments.cmake, "--build", build])
    return build / "hello"


def check_program(program: Path, name: str, nccl: str, libraries: str) -> None:
    done = run([program], LD_LIBRARY_PATH=libraries, AMEM_NCCL_PATH=nccl)
    expected = expected_version(nccl)
    if done.stdout != f"{expected}\n" or done.stderr:
        sys.exit(f"{name}: printed {done.stdout!r} and {done.stderr!r}, not the version {expected} of {nccl}")
    print(f"{name}: NCCL {expected} of {nccl}, reached through {libraries}")


def check_symmetric(arguments: argparse.Namespace, prefix: Path, folder: Path, nccl: str, libraries: str) -> None:
    program = folder / "symmetric"
    options = flags(arguments.pkg_config, prefix, "--cflags", "--libs", package="amem-symmetric")
    run([arguments.cxx, "-std=c++20", "-Wall", "-Wextra", "-Werror", HERE / "symmetric.cc", "-o", program, *options])
    done = run([program], LD_LIBRARY_PATH=libraries, AMEM_NCCL_PATH=nccl)
    if not done.stdout.startswith("5 0 amemSymmetricMalloc failed: amem is not enabled"):
        sys.exit(f"symmetric.cc: printed {done.stdout!r}")


def check(arguments: argparse.Namespace, folder: Path) -> None:
    installed, prefix = folder / "installed", folder / "moved"
    run([arguments.cmake, "--install", arguments.build, "--prefix", installed, "--component", "library"])
    # The prefix may be moved: nothing in it may name where it was.
    shutil.move(installed, prefix)
    nccl = next(path for path in arguments.nccl if Path(path).exists())
    libraries = flags(arguments.pkg_config, prefix, "--variable=libdir")[0]
    for compiler, source in ((arguments.cc, "hello.c"), (arguments.cxx, "hello.cc")):
        program = folder / source.replace(".", "_")
        compile_flags = flags(arguments.pkg_config, prefix, "--cflags")
        link_flags = flags(arguments.pkg_config, prefix, "--libs")
        run([compiler, "-Wall", "-Wextra", "-Werror", HERE / source, "-o", program, *compile_flags, *link_flags])
        check_program(program, source, nccl, libraries)
    check_program(build_with_cmake(arguments, prefix, folder), "CMake", nccl, libraries)
    check_symmetric(arguments, prefix, folder, nccl, libraries)


def check_after_pip(arguments: argparse.Namespace, folder: Path) -> None:
    """pip configures the build folder that others use too, with folders of its own that are gone when it has ended."""
    gone, build = folder / "gone", folder / "as-pip"
    options = ["-DSKBUILD=2", f"-DSKBUILD_PLATLIB_DIR={gone}", f"-DCMAKE_INSTALL_PREFIX={gone / 'amem'}"]
    options += ["-DAMEM_BUILD_TESTS=OFF", "-DAMEM_BUILD_BENCH=OFF", f"-DCMAKE_CXX_COMPILER={arguments.cxx}"]
    run([arguments.cmake, "-S", HERE.parents[1], "-B", build, f"-DCMAKE_C_COMPILER={arguments.cc}", *options])
    if '  set(CMAKE_INSTALL_PREFIX "/usr/local")' not in (build / "cmake_install.cmake").read_text(encoding="utf-8").splitlines():
        sys.exit(f"cmake --install {build} does not install into /usr/local")
    for script in build.rglob("cmake_install.cmake"):
        text = script.read_text(encoding="utf-8")
        for rule in text.split("if(CMAKE_INSTALL_COMPONENT STREQUAL ")[1:]:
            if str(gone) in rule and not rule.startswith('"python")'):
                sys.exit(f"{script} installs into {gone}:\n{rule}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--cmake", "--build", "--cc", "--cxx", "--pkg-config"):
        parser.add_argument(option, required=True)
    parser.add_argument("nccl", nargs="+")
    with tempfile.TemporaryDirectory(prefix="amem-install-") as folder:
        check(parser.parse_args(), Path(folder))
        check_after_pip(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
