#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Installs a wheel as a user does and uses it: check_wheel.py WHEEL

In a new virtual environment, without network and without root: as user nobody, if root runs this and nobody can run a
Python. A wheel for another architecture is only read: its files are there, stripped and of this architecture. Exit code 1 if
a step fails.
"""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

TIMEOUT_S = 120
NOBODY = 65534
NOT_INHERITED = ("AMEM_", "CMAKE_", "LD_", "PYTHON", "PIP_", "VIRTUAL")
HELLO = Path(__file__).resolve().parents[2] / "tests" / "install" / "hello.c"
PROJECT = """cmake_minimum_required(VERSION 3.22)
project(hello LANGUAGES C)
find_package(amem 0.1 REQUIRED)
add_executable(hello hello.c)
target_link_libraries(hello PRIVATE amem::nccl amem::amem_nccl)
"""
SHT_SYMTAB = 2  # elf(5)
SHA_256 = struct.pack("<2I", 0x428A2F98, 0x71374491)  # its first constants (FIPS 180-4): BearSSL is linked in
MACHINES = {"x86_64": 62, "aarch64": 183}  # EM_X86_64 and EM_AARCH64
PRELOAD = "torch_memory_saver_hook_mode_preload.abi3.so"
# Without a GPU there is nothing to pause, but every layer down to the simulated driver answers.
PAUSE = """
import amem
assert amem.enabled(), amem.last_error()
amem.pause()
assert amem.state() == "paused", amem.state()
amem.resume()
print(amem.__file__, amem.state())
"""


class Failed(Exception):
    pass


def nobody() -> tuple[str, dict[str, Any]]:
    """A Python that nobody may run, and what makes subprocess.run() do it."""
    user: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            if subprocess.run([python, "-c", "import venv, ensurepip"], check=False, cwd="/", **user).returncode == 0:
                return python, user
        except OSError:
            pass
    print("nobody may run no Python with venv: the wheel is installed as root", file=sys.stderr)
    return sys.executable, {}


PYTHON, USER = (sys.executable, {}) if os.getuid() != 0 else nobody()


def run(command: Iterable[object], folder: Path, **settings: str) -> str:
    """Standard output of the command."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)}
    done: subprocess.CompletedProcess[str] = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**inherited, "HOME": str(folder), "TMPDIR": str(folder), **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        **USER,
    )
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def expect(text: str, part: str) -> None:
    if part not in text:
        raise Failed(f"{part!r} is not in:\n{text}")


def has_symbol_table(path: Path) -> bool:
    """Whether a file is a 64-bit ELF file with the section .symtab, which strip removes."""
    with path.open("rb") as file:
        header = file.read(64)
        if header[:5] != b"\x7fELF\x02":
            return False
        (start,) = struct.unpack_from("<Q", header, 40)
        size, count = struct.unpack_from("<HH", header, 58)
        file.seek(start)
        sections = file.read(size * count)
    return any(struct.unpack_from("<I", sections, i * size + 4)[0] == SHT_SYMTAB for i in range(count))


def check_stripped(package: Path) -> None:
    files = [path for path in package.rglob("*") if path.is_file()]
    with_symbols = [str(path) for path in files if has_symbol_table(path)]
    if with_symbols:
        raise Failed(f"not stripped: {', '.join(with_symbols)}")


def check_machine(package: Path, machine: str) -> None:
    """All programs and libraries are for this architecture."""
    found = {path: path.read_bytes()[:20] for path in package.rglob("*") if path.is_file()}
    machines = {path: struct.unpack_from("<H", head, 18)[0] for path, head in found.items() if head[:4] == b"\x7fELF"}
    wrong = [str(path) for path, number in machines.items() if number != MACHINES[machine]]
    if wrong or not machines:
        raise Failed(f"not for {machine}: {', '.join(wrong) or 'no program at all'}")


def check_job_key(library: Path) -> None:
    if SHA_256 not in library.read_bytes():
        raise Failed(f"{library} has no SHA-256: it was built without BearSSL, which AMEM_JOB_KEY needs")


def check_files(package: Path) -> None:
    headers = [f"include/{name}" for name in ("nccl.h", "amem.h", "amem/memory.hpp", "amem/symmetric.hpp")]
    for file in (*headers, "lib/cmake/amem/amemConfig.cmake", "lib/pkgconfig/amem.pc", "lib/libamem_symmetric.so"):
        if not (package / file).is_file():
            raise Failed(f"{package / file} is missing")
    if len(list(package.parent.glob("amem-*.dist-info/licenses/NOTICE"))) != 1:
        raise Failed("NOTICE is missing, which has the licenses of what is linked in")
    check_job_key(package / "lib" / "libamem_nccl.so")
    check_stripped(package)


def check_development(package: Path, folder: Path) -> None:
    """A C program is built with pkg-config, and with CMake, where they and a compiler are there; it reaches NCCL."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return
    shutil.copyfile(HELLO, folder / "hello.c")
    (folder / "CMakeLists.txt").write_text(PROJECT, encoding="utf-8")
    programs = []
    if shutil.which("pkg-config"):
        paths = {"PKG_CONFIG_PATH": str(package / "lib" / "pkgconfig")}
        flags = run(["pkg-config", "--cflags", "--libs", "amem"], folder, **paths).split()
        programs.append(folder / "hello")
        run([compiler, "-Wall", "-Wextra", "-Werror", "hello.c", "-o", programs[-1], *flags], folder)
    if shutil.which("cmake"):
        build = folder / "hello-build"
        run(["cmake", "-S", folder, "-B", build, f"-DCMAKE_PREFIX_PATH={package}", f"-DCMAKE_C_COMPILER={compiler}"], folder)
        run(["cmake", "--build", build], folder)
        programs.append(build / "hello")
    libraries = f"{package / 'lib'}:{package / 'sim'}"
    nccl = str(package / "sim" / "libnccl.so.2")
    for program in programs:
        version = run([program], folder, LD_LIBRARY_PATH=libraries, AMEM_NCCL_PATH=nccl).strip()
        if not version.isdigit():
            raise Failed(f"{program} printed {version!r}, not the version of NCCL")


def check(wheel: Path, folder: Path) -> None:
    environment = folder / "environment"
    run([PYTHON, "-m", "venv", environment], folder)
    binaries = environment / "bin"
    run([binaries / "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", wheel], folder)
    for command in ([binaries / "amem"], [binaries / "python", "-m", "amem"]):
        expect(run([*command, "--version"], folder), f"amem {wheel.name.split('-')[1]}")
    expect(run([binaries / "amem", "demo", "--simulate"], folder), "bit-exact")
    expect(run(["sh", "-c", f"{binaries / 'amem'} exporter --once || true"], folder), "pip install 'amem[exporter]'")
    expect(run(["sh", "-c", f"{binaries / 'amem'} top || true"], folder), "pip install 'amem[top]'")

    package = Path(run([binaries / "python", "-c", "import amem; print(amem.__file__)"], folder).strip()).parent
    simulated = {"LD_LIBRARY_PATH": str(package / "sim"), "AMEM_SIM_DIR": str(folder)}
    expect(run([binaries / "python", "-c", PAUSE], folder, **simulated), "active")
    expect(run([binaries / "amem", "run", binaries / "python", "-c", PAUSE], folder, **simulated), "active")
    # The Python of the wheel's environment, which is not on PATH.
    expect(run([binaries / "amem", "doctor"], folder, **simulated), f", {binaries / 'python'}")
    saver = "import torch_memory_saver as saver; print(saver.torch_memory_saver.enabled, saver.__name__)"
    expect(run([binaries / "python", "-c", saver], folder, AMEM_TMS="1", **simulated), "True amem.torch_memory_saver")
    preload = "from torch_memory_saver.utils import get_binary_path_from_package as path; "
    preload += "print(path('torch_memory_saver_hook_mode_preload'))"
    expect(run([binaries / "python", "-c", preload], folder, AMEM_TMS="1", **simulated), str(package / PRELOAD))
    # As slime's actor_group.py looks for it.
    preload = "import os, torch_memory_saver as saver; "
    preload += "print(os.path.join(os.path.dirname(os.path.dirname(saver.__file__)), '%s'))" % PRELOAD
    library = run([binaries / "python", "-c", preload], folder, AMEM_TMS="1", **simulated).strip()
    loaded = "import ctypes; process = ctypes.CDLL(None); print(hasattr(process, 'amemPause') and hasattr(process, 'tms_pause'))"
    expect(run([binaries / "python", "-c", loaded], folder, LD_PRELOAD=library, **simulated), "True")
    plugin = "import importlib.metadata as of; print(*of.distribution('amem').entry_points); "
    plugin += "import amem_vllm; amem_vllm.register()"
    expect(run([binaries / "python", "-c", plugin], folder), "amem_vllm:register")
    expect(run([binaries / "python", "-c", plugin], folder), "amem_torch:register")
    check_files(package)
    check_development(package, folder)


def main() -> int:
    wheel = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="amem-wheel-") as name:
        folder = Path(name)
        copy = folder / wheel.name
        copy.write_bytes(wheel.read_bytes())
        if USER:
            os.chown(folder, NOBODY, NOBODY)
            copy.chmod(0o644)
        try:
            machine = wheel.stem.rsplit("linux_", 1)[-1].split("_", 2)[-1] if "manylinux" in wheel.stem else os.uname().machine
            if machine == os.uname().machine:
                check(copy, folder)
            else:
                shutil.unpack_archive(copy, folder / "unpacked", "zip")
                check_machine(folder / "unpacked", machine)
                check_files(folder / "unpacked" / "amem")
        except (Failed, OSError, subprocess.TimeoutExpired) as error:
            print(f"{wheel.name}: {error}", file=sys.stderr)
            return 1
    print(f"{wheel.name}: " + ("installed and used" if machine == os.uname().machine else "read, not run"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
