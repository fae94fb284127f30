#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Holds the libraries that ship against what they may export and need, and other files of the wheel against the
versions that they may need.

  check_symbols.py --shim libnccl.so.2 --engine libamem_nccl.so --symmetric libamem_symmetric.so --symbols LIST [--others FILE...]

Prints one line a violation; exit status 1 when there is one. The rules are functions that return their violations, so
that check_symbols_selftest.py can hold each against a seeded one.
"""

import argparse
import re
import sys
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, NamedTuple

from elftools.elf.elffile import ELFFile

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from generate_trampolines import ADDED, NAMES, read_list

# Of the platform manylinux_2_34 (PEP 600; auditwheel's policy): RHEL 9, Ubuntu 22.04, Debian 12 and newer.
HIGHEST_VERSION = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (7, 0, 0)}
# What every C library of GCC's has in .init_array, and which does nothing here.
IDLE_CONSTRUCTORS = {"frame_dummy"}
# Of libgcc on aarch64: asks the kernel whether the processor has the atomics of Armv8.1 (getauxval(3)).
LIBGCC_CONSTRUCTOR = "init_have_lse_atomics"
# Does nothing unless AMEM_ENABLE is 1 (docs/decisions/0012-slots.md).
ENGINE_CONSTRUCTOR = "catch_calls_when_loaded"
# A wait with them ends early or late when the clock of the host is set.
WALL_CLOCK = {"pthread_cond_timedwait", "pthread_mutex_timedlock", "sem_timedwait", "mq_timedreceive", "gettimeofday", "time",
              "_ZNSt6chrono3_V212system_clock3nowEv"}
# A library that dlopen() loads late gets static TLS from a small surplus of the process, which all such libraries share (glibc
# manual, Dynamic Linking Tunables).
HIGHEST_TLS_BYTES = 256
ENGINE_EXPORTS = re.compile(r"amem[A-Z]\w*|" + "|".join(ADDED))
# Not the loader: it has __tls_get_addr, so that a thread-local variable is not initial-exec (cmake/AmemTargets.cmake).
# For aarch64 the loader has the value of the stack protector, with which BearSSL is compiled.
ENGINE_NEEDS = {"libstdc++.so.6", "libc.so.6", "libgcc_s.so.1", "libm.so.6", "ld-linux-aarch64.so.1"}
SHIM_NEEDS = {"libamem_nccl.so", "libc.so.6"}
SYMMETRIC_NEEDS = ENGINE_NEEDS | {"libamem_nccl.so"}


class Symbol(NamedTuple):
    name: str
    weak: bool
    function: bool


class Library:
    """What the rules ask of a shared library."""

    def __init__(self, path: str) -> None:
        self.name = Path(path).name
        with open(path, "rb") as file:
            elf = ELFFile(file)
            sections = {section.name: section for section in elf.iter_sections()}
            self.thread_local_bytes = sum(segment["p_memsz"] for segment in elf.iter_segments("PT_TLS"))
            self.exports = [
                Symbol(symbol.name, symbol["st_info"]["bind"] == "STB_WEAK", symbol["st_info"]["type"] == "STT_FUNC")
                for symbol in sections[".dynsym"].iter_symbols()
                if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_LOCAL"
            ]
            self.imports = {symbol.name for symbol in sections[".dynsym"].iter_symbols() if symbol["st_shndx"] == "SHN_UNDEF"}
            self.thread_locals = {
                symbol.name for symbol in sections[".dynsym"].iter_symbols()
                if symbol["st_shndx"] == "SHN_UNDEF" and symbol["st_info"]["type"] == "STT_TLS"
            }
            plt = sections.get(".rela.plt")
            # Functions that are called through the symbols of the process.
            self.called = {sections[".dynsym"].get_symbol(each["r_info_sym"]).name for each in plt.iter_relocations()} if plt else set()
            tags = list(sections[".dynamic"].iter_tags())
            self.needed = [tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"]
            self.soname = next((tag.soname for tag in tags if tag.entry.d_tag == "DT_SONAME"), None)
            self.runpath = next((tag.runpath for tag in tags if tag.entry.d_tag == "DT_RUNPATH"), None)
            needs = sections[".gnu.version_r"].iter_versions() if ".gnu.version_r" in sections else ()
            # {"libc.so.6": {"GLIBC_2.34", ...}, ...}
            self.needed_versions = {file.name: {version.name for version in versions} for file, versions in needs}
            self.defines_versions = ".gnu.version_d" in sections
            array = sections.get(".init_array")
            self.constructor_count = array["sh_size"] // 8 if array else 0
            # Names of the .init_array entries, which relative relocations write; None when the file is stripped.
            self.constructor_names = _constructor_names(array, sections) if ".symtab" in sections else None


def _constructor_names(array: Any, sections: dict[str, Any]) -> list[str]:
    functions = {symbol["st_value"]: symbol.name for symbol in sections[".symtab"].iter_symbols()
                 if symbol["st_info"]["type"] == "STT_FUNC"}
    targets = {entry["r_offset"]: entry["r_addend"] for entry in sections[".rela.dyn"].iter_relocations()}
    places = range(array["sh_addr"], array["sh_addr"] + array["sh_size"], 8) if array else ()
    return [functions.get(targets.get(place), "?") for place in places]


def wrong_shim_exports(exports: list[Symbol], stock: list[tuple[str, bool]]) -> list[str]:
    """`exports`: [Symbol] of our libnccl.so.2; `stock`: [(name, weak)] of the NCCL it was made for."""
    found = {symbol.name: symbol for symbol in exports}
    wanted = dict(stock) | dict.fromkeys(ADDED, False) | {NAMES: False}
    violations = [f"libnccl.so.2 lacks {name}" for name in sorted(wanted.keys() - found.keys())]
    violations += [f"libnccl.so.2 exports {name} as well" for name in sorted(found.keys() - wanted.keys())]
    for name in sorted(wanted.keys() & found.keys()):
        if found[name].weak != wanted[name]:
            violations.append(f"libnccl.so.2: {name} is {'weak' if found[name].weak else 'strong'}, unlike NCCL's")
        if found[name].function != (name != NAMES):
            violations.append(f"libnccl.so.2: {name} has the wrong type")
    return violations


def wrong_engine_exports(exports: list[Symbol]) -> list[str]:
    names = {symbol.name for symbol in exports}
    violations = [f"libamem_nccl.so exports {name}" for name in sorted(names) if not ENGINE_EXPORTS.fullmatch(name)]
    return violations + [f"libamem_nccl.so lacks {name}" for name in ["amemForward", "amemEnable", *ADDED] if name not in names]


def too_new_versions(library: str, needed_versions: dict[str, set[str]]) -> list[str]:
    """`needed_versions`: {"libc.so.6": {"GLIBC_2.34", ...}, ...} of one library."""
    violations = []
    for file, versions in sorted(needed_versions.items()):
        for version in sorted(versions):
            family, _, number = version.partition("_")
            if family not in HIGHEST_VERSION or not re.fullmatch(r"\d+(\.\d+)*", number):
                violations.append(f"{library} needs {version} of {file}, which is no known version")
            elif tuple(map(int, number.split("."))) > HIGHEST_VERSION[family]:
                limit = ".".join(map(str, HIGHEST_VERSION[family]))
                violations.append(f"{library} needs {version} of {file}; the limit is {family}_{limit}")
    return violations


def wrong_needs(library: str, needed: list[str], allowed: AbstractSet[str]) -> list[str]:
    return [f"{library} needs {name}" for name in needed if name not in allowed]


def own_calls_through_symbols(library: str, exports: list[Symbol], called: set[str]) -> list[str]:
    """Such a call reaches another copy of the library, or a wrapper of it, that is before it in the process."""
    own = {symbol.name for symbol in exports}
    return [f"{library} calls its own {name} through the symbols of the process" for name in sorted(own & called)]


def wall_clock_waits(library: str, imports: set[str]) -> list[str]:
    return [f"{library} calls {name}, which follows the wall clock" for name in sorted(WALL_CLOCK & imports)]


def thread_locals_of_others(library: str, thread_locals: set[str]) -> list[str]:
    """std::call_once(), and so std::promise, has some in libstdc++.so.6. dlopen() fails in a process that has loaded that late, as
    Python with PyTorch on Ubuntu: "cannot allocate memory in static TLS block"."""
    return [f"{library} uses {name}, a thread-local variable of another library" for name in sorted(thread_locals)]


def too_many_thread_locals(library: str, size_bytes: int) -> list[str]:
    if size_bytes <= HIGHEST_TLS_BYTES:
        return []
    return [f"{library} has {size_bytes} bytes of thread-local variables; the limit is {HIGHEST_TLS_BYTES}"]


def working_constructors(library: str, count: int, names: list[str] | None, allowed: AbstractSet[str] = frozenset()) -> list[str]:
    """`names`: of the .init_array entries, None when the file is stripped of them; C++ names match by their part."""
    known = IDLE_CONSTRUCTORS | allowed
    if names is None:
        return [f"{library} has {count} entries in .init_array"] if count > len(known) else []
    known |= {LIBGCC_CONSTRUCTOR}
    return [f"{library} runs {name} when it is loaded" for name in names if not any(part in name for part in known)]


def wrong_shape(library: Library, soname: str, runpath: str | None) -> list[str]:
    violations = []
    if library.soname != soname:
        violations.append(f"{library.name} has the SONAME {library.soname}, not {soname}")
    if library.runpath != runpath:
        violations.append(f"{library.name} has the RUNPATH {library.runpath}, not {runpath}")
    if library.defines_versions:
        violations.append(f"{library.name} defines symbol versions, unlike NCCL")
    return violations


def check(shim: Library, engine: Library, symmetric: Library, stock: list[tuple[str, bool]]) -> list[str]:
    violations = wrong_shim_exports(shim.exports, stock) + wrong_engine_exports(engine.exports)
    violations += wrong_shape(shim, "libnccl.so.2", "$ORIGIN") + wrong_shape(engine, "libamem_nccl.so", None)
    violations += wrong_needs("libnccl.so.2", shim.needed, SHIM_NEEDS)
    violations += wrong_needs("libamem_nccl.so", engine.needed, ENGINE_NEEDS)
    violations += wrong_shape(symmetric, "libamem_symmetric.so", "$ORIGIN")
    violations += wrong_needs("libamem_symmetric.so", symmetric.needed, SYMMETRIC_NEEDS)
    names = sorted(symbol.name for symbol in symmetric.exports)
    violations += [f"libamem_symmetric.so exports {name}" for name in names if not name.startswith("amemSymmetric")]
    violations += too_many_thread_locals(engine.name, engine.thread_local_bytes)
    violations += own_calls_through_symbols(engine.name, engine.exports, engine.called)
    for library in (shim, engine, symmetric):
        violations += too_new_versions(library.name, library.needed_versions)
        violations += wall_clock_waits(library.name, library.imports)
        violations += thread_locals_of_others(library.name, library.thread_locals)
        allowed: AbstractSet[str] = {ENGINE_CONSTRUCTOR} if library is engine else frozenset()
        count, constructors = library.constructor_count, library.constructor_names
        violations += working_constructors(library.name, count, constructors, allowed)
    return violations


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shim", required=True)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--symmetric", required=True)
    parser.add_argument("--symbols", required=True)
    parser.add_argument("--others", nargs="*", default=[])
    arguments = parser.parse_args()
    stock = read_list(arguments.symbols)
    violations = check(Library(arguments.shim), Library(arguments.engine), Library(arguments.symmetric), stock)
    for other in map(Library, arguments.others):
        violations += too_new_versions(other.name, other.needed_versions)
    for violation in violations:
        print(violation)
    print(f"{len(stock)} functions of NCCL, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
