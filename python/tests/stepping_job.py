# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A training of several ranks with safe points, which ends when a file exists.

  stepping_job.py RANK RANKS FOLDER POINTS MIB

Each step is an all-reduce and a change of 4 MiB with the tag "weights". POINTS: safe points in each step. MIB: of memory with
the tag "cache". While a file "late" exists, rank 1 calls no all-reduce; while a file "still" has the number of steps, no rank does.
Prints its pid, and at the end how many steps were right.
"""

import ctypes
import os
import sys
import time
from pathlib import Path

import amem
from rank_job import NCCL, Rank, UniqueId, check

BYTES = 4 << 20
END = 1000


def allocate(size_bytes: int, tag: bytes, kind: int) -> ctypes.c_void_p:
    pointer = ctypes.c_void_p()
    library = ctypes.CDLL("libamem_nccl.so")
    check(library.amemMalloc(ctypes.byref(pointer), ctypes.c_size_t(size_bytes), tag, kind), "amemMalloc")
    return pointer


class Weights:
    def __init__(self, rank: Rank) -> None:
        self.rank, self.step = rank, 0
        self.pointer = allocate(BYTES, b"weights", 0)

    def fill(self, step: int) -> None:
        self.step = step
        self.rank.driver("cuMemsetD8_v2", self.pointer, step % 251, ctypes.c_size_t(BYTES))

    def are_right(self) -> bool:
        data = ctypes.create_string_buffer(BYTES)
        self.rank.driver("cuMemcpyDtoH_v2", data, self.pointer, ctypes.c_size_t(BYTES))
        return data.raw == bytes([self.step % 251]) * BYTES


def unique_id(rank: int, folder: Path) -> UniqueId:
    path, made = folder / "id", UniqueId()
    if rank == 0:
        check(ctypes.CDLL(NCCL).ncclGetUniqueId(ctypes.byref(made)), "ncclGetUniqueId")
        (folder / "id.new").write_bytes(bytes(made))
        (folder / "id.new").rename(path)
    while not path.exists():
        time.sleep(0.01)  # allow: between two looks; the test ends the process
    return UniqueId.from_buffer_copy(path.read_bytes())


def stops_at(folder: Path) -> int:
    try:
        return int((folder / "still").read_text())
    except FileNotFoundError:
        return -1


def main() -> None:
    number, ranks, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    points = int(sys.argv[4])
    rank = Rank(number, ranks, unique_id(number, folder))
    weights = Weights(rank)
    weights.fill(0)
    if int(sys.argv[5]) > 0:
        allocate(int(sys.argv[5]) << 20, b"cache", 1)
    expected, right, step = sum(range(1, ranks + 1)), 0, 0
    print(os.getpid(), flush=True)
    ends = False
    while not ends:
        while (number == 1 and (folder / "late").exists()) or stops_at(folder) == step:
            time.sleep(0.01)  # allow: between two looks; the test removes it
        rank.rank = number + (END if number == 0 and (folder / "end").exists() else 0)
        sums = rank.reduce()
        ends = sums == [expected + END]
        step += 1
        right += (ends or sums == [expected]) and weights.are_right()
        weights.fill(step)
        (folder / f"steps.{number}").write_text(str(step))
        for _ in range(points):
            amem.safe_point()
    print(step - right, weights.are_right(), flush=True)


if __name__ == "__main__":
    main()
