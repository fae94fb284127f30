# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""One rank of a job without PyTorch: NCCL and the driver by ctypes.

  rank_job.py RANK RANKS [UNIQUE_ID]

Rank 0 makes the unique id. Every line of standard input is a step; its outcome is one line of JSON.
"""

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

import amem

COUNT = 1 << 18  # floats: enough for every protocol's buffers to be used
FLOAT32, SUM = 7, 0
NCCL = "libnccl.so.2"  # the loader finds it


class UniqueId(ctypes.Structure):
    """ncclUniqueId, which travels by value."""

    _fields_ = [("internal", ctypes.c_byte * 128)]


def check(code: int, call: str) -> None:
    if code != 0:
        raise RuntimeError(f"{call} returned {code}: {amem.last_error()}")


class Rank:
    """A communicator and a buffer on the GPU of this rank's number."""

    def __init__(self, rank: int, ranks: int, unique_id: UniqueId) -> None:
        self.nccl = ctypes.CDLL(NCCL)
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.cuda.amemSimUsedBytes.restype = ctypes.c_longlong
        self.rank = rank
        self.buffer, self.stream, self.comm = ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.driver("cuInit", 0)
        self.driver("cuDeviceGet", ctypes.byref(device), rank)
        self.driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.driver("cuCtxSetCurrent", context)
        self.driver("cuStreamCreate", ctypes.byref(self.stream), 0)
        self.driver("cuMemAlloc_v2", ctypes.byref(self.buffer), ctypes.c_size_t(COUNT * 4))
        check(self.nccl.ncclCommInitRank(ctypes.byref(self.comm), ranks, unique_id, rank), "ncclCommInitRank")

    def driver(self, name: str, *arguments: Any) -> None:
        check(getattr(self.cuda, name)(*arguments), name)

    def reduce(self) -> list[float]:
        """The sum of all ranks' numbers (rank + 1), which every element must be."""
        values = (ctypes.c_float * COUNT)(*([self.rank + 1.0] * COUNT))
        size_bytes = ctypes.c_size_t(ctypes.sizeof(values))
        self.driver("cuMemcpyHtoD_v2", self.buffer, values, size_bytes)
        code = self.nccl.ncclAllReduce(
            self.buffer, self.buffer, ctypes.c_size_t(COUNT), FLOAT32, SUM, self.comm, self.stream
        )
        check(code, "ncclAllReduce")
        self.driver("cuStreamSynchronize", self.stream)
        self.driver("cuMemcpyDtoH_v2", values, self.buffer, size_bytes)
        return sorted(set(values))

    def step(self, name: str) -> Any:
        steps: dict[str, Callable[[], Any]] = {
            "pause": amem.pause,
            "resume": amem.resume,
            "reduce": self.reduce,
            "stats": amem.stats,
            "used": lambda: self.cuda.amemSimUsedBytes(self.rank),
            "set_group": lambda: amem.set_group(1),
        }
        return steps[name]()


def main() -> None:
    rank, ranks = int(sys.argv[1]), int(sys.argv[2])
    unique_id = UniqueId()
    if rank == 0:
        check(ctypes.CDLL(NCCL).ncclGetUniqueId(ctypes.byref(unique_id)), "ncclGetUniqueId")
        print(json.dumps(bytes(unique_id).hex()), flush=True)
    else:
        unique_id = UniqueId.from_buffer_copy(bytes.fromhex(sys.argv[3]))
    process = Rank(rank, ranks, unique_id)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        try:
            outcome = process.step(line.strip())
        except (amem.AmemError, RuntimeError) as error:
            outcome = {"error": str(error), "code": getattr(error, "code", None)}
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main()
