#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Each rule of check_symbols.py finds the violation that is seeded for it, in lists and in real libraries.

  check_symbols_selftest.py --shim libnccl.so.2 --engine libamem_nccl.so --symmetric libamem_symmetric.so --symbols LIST --busy LIBRARY

LIBRARY is one with a constructor that does work.
"""

import argparse
import ctypes
import re
import sys
import tempfile
import unittest
from pathlib import Path

import check_symbols
from check_symbols import Library, Symbol
from generate_trampolines import ADDED, NAMES, read_list

arguments = None
STOCK = [("ncclSend", True), ("pncclSend", False)]


def exports(names_and_weakness: list[tuple[str, bool]]) -> list[Symbol]:
    return [Symbol(name, weak, name != NAMES) for name, weak in names_and_weakness]


def ours() -> list[tuple[str, bool]]:
    return STOCK + [(name, False) for name in ADDED] + [(NAMES, False)]


class ShimExports(unittest.TestCase):
    def violations(self, names_and_weakness: list[tuple[str, bool]]) -> list[str]:
        return check_symbols.wrong_shim_exports(exports(names_and_weakness), STOCK)

    def test_equal_sets_pass(self) -> None:
        self.assertEqual(self.violations(ours()), [])

    def test_missing_name_is_found(self) -> None:
        for missing in ours():
            rest = [entry for entry in ours() if entry != missing]
            self.assertEqual(self.violations(rest), [f"libnccl.so.2 lacks {missing[0]}"])

    def test_surplus_name_is_found(self) -> None:
        self.assertEqual(self.violations(ours() + [("ncclNew", False)]), ["libnccl.so.2 exports ncclNew as well"])

    def test_other_binding_is_found(self) -> None:
        changed = [(name, not weak if name == "ncclSend" else weak) for name, weak in ours()]
        self.assertEqual(self.violations(changed), ["libnccl.so.2: ncclSend is strong, unlike NCCL's"])

    def test_data_in_place_of_a_function_is_found(self) -> None:
        symbols = exports(ours())[1:] + [Symbol("ncclSend", True, False)]
        self.assertEqual(check_symbols.wrong_shim_exports(symbols, STOCK), ["libnccl.so.2: ncclSend has the wrong type"])


class BuiltLibraries(unittest.TestCase):
    """The same seeds, in what the build made."""

    shim: Library
    engine: Library
    symmetric: Library
    stock: list[tuple[str, bool]]

    @classmethod
    def setUpClass(cls) -> None:
        cls.shim, cls.engine = Library(arguments.shim), Library(arguments.engine)
        cls.symmetric = Library(arguments.symmetric)
        cls.stock = [(symbol.name, symbol.weak) for symbol in cls.shim.exports if symbol.name not in ADDED + [NAMES]]

    def test_they_pass_against_their_own_set(self) -> None:
        self.assertEqual(check_symbols.check(self.shim, self.engine, self.symmetric, self.stock), [])
        self.assertGreater(len(self.stock), 50)
        # What is not read violates nothing.
        self.assertIn("pthread_cond_clockwait", self.engine.imports)
        self.assertTrue("libc.so.6" in self.engine.needed and self.engine.needed_versions["libc.so.6"])
        self.assertTrue(any(check_symbols.ENGINE_CONSTRUCTOR in name for name in self.engine.constructor_names))

    def test_another_library_in_the_place_of_symmetric_memory_fails(self) -> None:
        found = check_symbols.check(self.shim, self.engine, self.engine, self.stock)
        self.assertIn("libamem_symmetric.so exports amemPause", found)

    def test_list_with_one_name_less_fails(self) -> None:
        for index in range(len(self.stock)):
            seeded = self.stock[:index] + self.stock[index + 1:]
            self.assertEqual(check_symbols.check(self.shim, self.engine, self.symmetric, seeded),
                             [f"libnccl.so.2 exports {self.stock[index][0]} as well"])

    def test_list_with_one_name_more_fails(self) -> None:
        seeded = self.stock + [("ncclOfTomorrow", True)]
        self.assertEqual(check_symbols.check(self.shim, self.engine, self.symmetric, seeded), ["libnccl.so.2 lacks ncclOfTomorrow"])

    def test_libraries_exchanged_fail(self) -> None:
        self.assertGreater(len(check_symbols.check(self.engine, self.shim, self.symmetric, self.stock)), 50)


class EngineExports(unittest.TestCase):
    def test_third_party_names_are_found(self) -> None:
        symbols = exports([(name, False) for name in ["amemForward", "amemEnable", *ADDED, "_ZSt4cout", "amem_slots"]])
        self.assertEqual(check_symbols.wrong_engine_exports(symbols),
                         ["libamem_nccl.so exports _ZSt4cout", "libamem_nccl.so exports amem_slots"])

    def test_missing_name_is_found(self) -> None:
        rest = exports([(name, False) for name in ["amemForward", *ADDED]])
        self.assertEqual(check_symbols.wrong_engine_exports(rest), ["libamem_nccl.so lacks amemEnable"])


class Versions(unittest.TestCase):
    def violations(self, *versions: str) -> list[str]:
        return check_symbols.too_new_versions("x.so", {"libc.so.6": set(versions)})

    def test_limits_pass(self) -> None:
        self.assertEqual(self.violations("GLIBC_2.2.5", "GLIBC_2.34", "GLIBCXX_3.4.29", "GCC_7.0.0", "CXXABI_1.3"), [])

    def test_newer_ones_are_found(self) -> None:
        for version in ("GLIBC_2.35", "GLIBC_2.100", "GLIBC_3.0", "GLIBCXX_3.4.30", "GCC_12.0.0"):
            self.assertEqual(len(self.violations(version)), 1, version)

    def test_unknown_ones_are_found(self) -> None:
        self.assertEqual(len(self.violations("GLIBC_PRIVATE")), 1)
        self.assertEqual(len(self.violations("FOO_1.0")), 1)


class Clocks(unittest.TestCase):
    def test_calls_of_the_own_functions_through_symbols_are_found(self) -> None:
        found = check_symbols.own_calls_through_symbols("a.so", exports([("amemPause", False)]), {"amemPause", "free"})
        self.assertEqual(found, ["a.so calls its own amemPause through the symbols of the process"])

    def test_waits_on_the_wall_clock_are_found(self) -> None:
        found = check_symbols.wall_clock_waits("lib", {"pthread_cond_clockwait", "pthread_cond_timedwait"})
        self.assertEqual(found, ["lib calls pthread_cond_timedwait, which follows the wall clock"])


class ThreadLocals(unittest.TestCase):
    def test_one_of_another_library_is_found_in_a_real_library(self) -> None:
        ctypes.CDLL("libm.so.6")  # which uses errno of libc.so.6
        maps = Path("/proc/self/maps").read_text(encoding="utf-8").split()
        path = next(word for word in maps if re.search(r"/libm[-.][\d.]*so", word))
        found = check_symbols.thread_locals_of_others("libm.so.6", Library(path).thread_locals)
        self.assertEqual(found, ["libm.so.6 uses errno, a thread-local variable of another library"])

    def test_own_ones_are_none(self) -> None:
        self.assertEqual(Library(arguments.engine).thread_locals, set())

    def test_more_than_a_late_library_may_have_are_found_in_a_real_library(self) -> None:
        busy, engine = Library(arguments.busy), Library(arguments.engine)
        self.assertEqual(check_symbols.too_many_thread_locals("busy", busy.thread_local_bytes),
                         ["busy has 257 bytes of thread-local variables; the limit is 256"])
        self.assertEqual(check_symbols.too_many_thread_locals("engine", engine.thread_local_bytes), [])
        self.assertGreater(engine.thread_local_bytes, 0)  # what is not read violates nothing


class Constructors(unittest.TestCase):
    def test_one_that_works_is_found_in_a_real_library(self) -> None:
        busy = Library(arguments.busy)
        found = check_symbols.working_constructors("busy", busy.constructor_count, busy.constructor_names)
        self.assertEqual(found, ["busy runs note_who_loads when it is loaded"])

    def test_one_that_works_is_found_in_a_stripped_library(self) -> None:
        self.assertEqual(check_symbols.working_constructors("x", 2, None), ["x has 2 entries in .init_array"])
        self.assertEqual(check_symbols.working_constructors("x", 1, None), [])

    def test_the_engines_own_is_allowed_and_no_second_one(self) -> None:
        allowed = {check_symbols.ENGINE_CONSTRUCTOR}
        names = ["frame_dummy", "_ZN12_GLOBAL__N_1L23catch_calls_when_loadedEv"]
        self.assertEqual(check_symbols.working_constructors("x", 2, names, allowed), [])
        self.assertEqual(check_symbols.working_constructors("x", 3, [*names, "main_ctor"], allowed),
                         ["x runs main_ctor when it is loaded"])

    def test_unexpected_needs_are_found(self) -> None:
        self.assertEqual(check_symbols.wrong_needs("x", ["libc.so.6", "libcuda.so.1"], {"libc.so.6"}),
                         ["x needs libcuda.so.1"])

    def test_thread_local_variables_that_are_calls_are_found(self) -> None:
        loader = "ld-linux-x86-64.so.2"
        self.assertEqual(check_symbols.wrong_needs("x", ["libc.so.6", loader], check_symbols.ENGINE_NEEDS),
                         [f"x needs {loader}"])


class Generator(unittest.TestCase):
    def test_committed_list_is_complete(self) -> None:
        functions = read_list(arguments.symbols)
        names = {name for name, _ in functions}
        self.assertEqual(len(functions), 193)
        for name, weak in functions:
            # ncclX is weak and pncclX strong; one function has no second name (the list says which).
            self.assertTrue(("p" + name in names) if weak else name.startswith("pnccl") or
                            name == "ncclResetDebugInitInternal", name)

    def test_nccl_with_a_name_of_ours_is_refused(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".symbols") as file:
            file.write("W ncclSend\nT ncclPause\n")
            file.flush()
            with self.assertRaises(ValueError):
                read_list(file.name)

    def test_damaged_list_is_refused(self) -> None:
        for text in ("ncclSend\n", "D ncclData\n", "T _Z4ncclv\n"):
            with tempfile.NamedTemporaryFile("w", suffix=".symbols") as file:
                file.write(text)
                file.flush()
                with self.assertRaises(ValueError):
                    read_list(file.name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for option in ("--shim", "--engine", "--symmetric", "--symbols", "--busy"):
        parser.add_argument(option, required=True)
    arguments, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0]] + rest)
