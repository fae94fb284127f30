# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What the build and the symbol checks read from an ELF file (64 bit, little endian), without binutils."""

import dataclasses
import struct
from pathlib import Path

PT_LOAD, PT_DYNAMIC = 1, 2
DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_SONAME = 1, 4, 5, 6, 14
DT_INIT_ARRAY, DT_INIT_ARRAYSZ, DT_RUNPATH = 25, 27, 29
DT_GNU_HASH, DT_VERNEED, DT_VERNEEDNUM, DT_VERDEF = 0x6FFFFEF5, 0x6FFFFFFE, 0x6FFFFFFF, 0x6FFFFFFC
SHN_UNDEF, SHT_SYMTAB = 0, 2
STB_LOCAL, STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE = 0, 1, 2, 10
STT_FUNC, STT_GNU_IFUNC = 2, 10
MACHINES = {62: "x86-64", 183: "aarch64", 243: "riscv"}


class ElfError(Exception):
    """The file is not an ELF file of the kind described above."""


@dataclasses.dataclass(frozen=True, order=True)
class Symbol:
    name: str
    defined: bool
    weak: bool
    function: bool


class ElfFile:
    """One ELF file. Everything is read from the dynamic section, as the loader does, so that a stripped file will do."""

    def __init__(self, path):
        self.path = Path(path)
        self._data = self.path.read_bytes()
        if self._data[:6] != b"\x7fELF\x02\x01":
            raise ElfError(f"{path}: not a 64-bit little-endian ELF file")
        self.machine = self._unpack("<H", 18)[0]
        offset, = self._unpack("<Q", 32)
        size, count = self._unpack("<HH", 54)
        headers = [self._unpack("<IIQQQQ", offset + i * size) for i in range(count)]
        self._loads = [(h[3], h[2], h[5]) for h in headers if h[0] == PT_LOAD]
        self._dynamic = []
        for header in headers:
            if header[0] == PT_DYNAMIC:
                self._dynamic = self._read_dynamic(header[2], header[5])

    def _unpack(self, form, offset):
        try:
            return struct.unpack_from(form, self._data, offset)
        except struct.error as error:
            raise ElfError(f"{self.path}: truncated at offset {offset}") from error

    def _read_dynamic(self, offset, size):
        entries = []
        for at in range(offset, offset + size, 16):
            tag, value = self._unpack("<QQ", at)
            if tag == 0:
                break
            entries.append((tag, value))
        return entries

    def _values(self, tag):
        return [value for key, value in self._dynamic if key == tag]

    def _value(self, tag):
        return next(iter(self._values(tag)), None)

    def _offset(self, address):
        for start, offset, size in self._loads:
            if start <= address < start + size:
                return offset + address - start
        raise ElfError(f"{self.path}: address {address:#x} is in no segment of the file")

    def _string(self, index):
        start = self._offset(self._value(DT_STRTAB)) + index
        end = self._data.index(b"\0", start)
        return self._data[start:end].decode()

    def _symbol_count(self):
        if self._value(DT_HASH) is not None:
            return self._unpack("<II", self._offset(self._value(DT_HASH)))[1]
        if self._value(DT_GNU_HASH) is None:
            raise ElfError(f"{self.path}: no symbol hash table")
        table = self._offset(self._value(DT_GNU_HASH))
        buckets, first, bloom, _ = self._unpack("<IIII", table)
        bucket_at = table + 16 + bloom * 8
        last = max((self._unpack("<I", bucket_at + 4 * i)[0] for i in range(buckets)), default=0)
        if last < first:
            return first
        chain_at = bucket_at + 4 * buckets
        while not self._unpack("<I", chain_at + 4 * (last - first))[0] & 1:
            last += 1
        return last + 1

    def dynamic_symbols(self):
        """The symbols that other objects see or that this one wants from them."""
        if self._value(DT_SYMTAB) is None:
            return []
        table = self._offset(self._value(DT_SYMTAB))
        symbols = []
        for i in range(1, self._symbol_count()):
            name, info, _, section = self._unpack("<IBBH", table + 24 * i)
            binding, kind = info >> 4, info & 15
            if binding != STB_LOCAL:
                symbols.append(
                    Symbol(self._string(name), section != SHN_UNDEF, binding == STB_WEAK,
                           kind in (STT_FUNC, STT_GNU_IFUNC)))
        return symbols

    def exports(self):
        return sorted(symbol for symbol in self.dynamic_symbols() if symbol.defined)

    def soname(self):
        index = self._value(DT_SONAME)
        return None if index is None else self._string(index)

    def needed(self):
        return [self._string(index) for index in self._values(DT_NEEDED)]

    def runpath(self):
        index = self._value(DT_RUNPATH)
        return None if index is None else self._string(index)

    def needed_versions(self):
        """{"libc.so.6": {"GLIBC_2.34", ...}, ...}"""
        versions = {}
        if self._value(DT_VERNEED) is None:
            return versions
        at = self._offset(self._value(DT_VERNEED))
        for _ in range(self._value(DT_VERNEEDNUM)):
            _, count, file, aux, following = self._unpack("<HHIII", at)
            entry = at + aux
            for _ in range(count):
                _, _, _, name, step = self._unpack("<IHHII", entry)
                versions.setdefault(self._string(file), set()).add(self._string(name))
                entry += step
            at += following
        return versions

    def defines_versions(self):
        return self._value(DT_VERDEF) is not None

    def constructor_count(self):
        return (self._value(DT_INIT_ARRAYSZ) or 0) // 8

    def constructor_names(self):
        """Names of the .init_array entries as the file's full symbol table has them; None when it is stripped.

        The entries are written by relative relocations; GNU ld leaves the addend in place for x86-64 only in the
        relocation, so it is taken from there.
        """
        names = self._function_names()
        if names is None:
            return None
        array, count = self._value(DT_INIT_ARRAY), self.constructor_count()
        targets = self._relative_targets()
        return [names.get(targets.get(array + 8 * i), "?") for i in range(count)] if array else []

    def _relative_targets(self):
        dt_rela, dt_relasz, relative = 7, 8, {62: 8, 183: 1027}
        targets = {}
        if self._value(dt_rela) is None:
            return targets
        at = self._offset(self._value(dt_rela))
        for entry in range(at, at + self._value(dt_relasz), 24):
            where, info, addend = self._unpack("<QQq", entry)
            if info & 0xFFFFFFFF == relative.get(self.machine):
                targets[where] = addend
        return targets

    def _function_names(self):
        offset, = self._unpack("<Q", 40)
        size, count, _ = self._unpack("<HHH", 58)
        for i in range(count):
            header = self._unpack("<IIQQQQII", offset + i * size)
            if header[1] != SHT_SYMTAB:
                continue
            strings, = self._unpack("<Q", offset + header[6] * size + 24)
            names = {}
            for at in range(header[4], header[4] + header[5], 24):
                name, info, _, _, value = self._unpack("<IBBHQ", at)
                if info & 15 == STT_FUNC:
                    end = self._data.index(b"\0", strings + name)
                    names[value] = self._data[strings + name:end].decode()
            return names
        return None
