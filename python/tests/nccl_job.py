# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A job of one process on two simulated GPUs, which calls NCCL by ctypes or by cffi.

  nccl_job.py BINDING NCCL MODE [BEFORE_IMPORT]

MODE is the names of RTLD_ flags, joined by "|". amem is imported when NCCL is open; with BEFORE_IMPORT "functions"
when its functions have been looked up too, and with "communicators" when there are communicators too. Prints what
was seen as one line of JSON.
"""

import ctypes
import functools
import json
import os
import sys
from types import SimpleNamespace
from typing import Any

COUNT = 20000
FLOAT32, SUM = 7, 0
DEVICES = 2
# The pointers are numbers, so that both bindings take the same arguments.
CALLS = {
    "ncclCommInitAll": ["size_t", "int", "size_t"],
    "ncclAllReduce": ["size_t", "size_t", "size_t", "int", "int", "size_t", "size_t"],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
}


def open_by_ctypes(path: str, mode: int) -> ctypes.CDLL:
    return ctypes.CDLL(path, mode=mode)


def open_by_cffi(path: str, mode: int) -> Any:
    import cffi  # not everywhere

    interface = cffi.FFI()
    for name, arguments in CALLS.items():
        interface.cdef(f"int {name}({', '.join(arguments) or 'void'});")
    return interface.dlopen(path, mode)


def look_up(nccl: Any) -> Any:
    """NCCL's functions by name."""
    functions = {name: getattr(nccl, name) for name in CALLS}
    if isinstance(nccl, ctypes.CDLL):
        types = {"size_t": ctypes.c_size_t, "int": ctypes.c_int}
        for name, function in functions.items():
            function.argtypes = [types[argument] for argument in CALLS[name]]
    return SimpleNamespace(**functions)


class Floats:
    """Memory of one simulated GPU."""

    def __init__(self, device: int) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.context, self.address = ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(COUNT * 4))

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.cuda, name)(*arguments)
        assert code == 0, f"{name} returned {code}"

    def set(self, value: float) -> None:
        self.call("cuCtxSetCurrent", self.context)
        values = (ctypes.c_float * COUNT)(*([value] * COUNT))
        self.call("cuMemcpyHtoD_v2", self.address, values, ctypes.c_size_t(COUNT * 4))

    def values(self) -> list[float]:
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuCtxSynchronize")
        values = (ctypes.c_float * COUNT)()
        self.call("cuMemcpyDtoH_v2", values, self.address, ctypes.c_size_t(COUNT * 4))
        return sorted(set(values))


class Job:
    """Communicators of both GPUs."""

    def __init__(self, nccl: Any) -> None:
        self.nccl = nccl
        self.buffers = [Floats(device) for device in range(DEVICES)]
        self.comms = (ctypes.c_size_t * DEVICES)()
        code = nccl.ncclCommInitAll(ctypes.addressof(self.comms), DEVICES, 0)
        assert code == 0, f"ncclCommInitAll returned {code}"

    def all_reduce(self) -> Any:
        """The sum of 1 and 2 on both GPUs, or what NCCL returned instead."""
        for number, buffer in enumerate(self.buffers, 1):
            buffer.set(float(number))
        codes = [self.nccl.ncclGroupStart()]
        for buffer, comm in zip(self.buffers, self.comms):
            address = buffer.address.value
            codes.append(self.nccl.ncclAllReduce(address, address, COUNT, FLOAT32, SUM, comm, 0))
        codes.append(self.nccl.ncclGroupEnd())
        if any(codes):
            return {"code": next(filter(None, codes))}
        return [buffer.values() for buffer in self.buffers]


class CapturedSum:
    """An all-reduce of the communicators of a Job as graphs."""

    def __init__(self, job: Job) -> None:
        self.cuda = job.buffers[0].cuda
        self.graphs = []  # (context, stream, executable graph)
        streams = [self.begin(buffer) for buffer in job.buffers]
        codes = [job.nccl.ncclGroupStart()]
        for buffer, comm, stream in zip(job.buffers, job.comms, streams):
            address = buffer.address.value
            codes.append(job.nccl.ncclAllReduce(address, address, COUNT, FLOAT32, SUM, comm, stream.value))
        codes.append(job.nccl.ncclGroupEnd())
        assert not any(codes), codes
        for buffer, stream in zip(job.buffers, streams):
            self.end(buffer, stream)

    def begin(self, buffer: Floats) -> ctypes.c_void_p:
        stream = ctypes.c_void_p()
        buffer.call("cuCtxSetCurrent", buffer.context)
        buffer.call("cuStreamCreate", ctypes.byref(stream), 1)
        buffer.call("cuStreamBeginCapture_v2", stream, 2)
        return stream

    def end(self, buffer: Floats, stream: ctypes.c_void_p) -> None:
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        buffer.call("cuCtxSetCurrent", buffer.context)
        buffer.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        buffer.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
        self.graphs.append((buffer.context, stream, executable))

    def launch(self) -> int:
        """0, or the first error of a launch."""
        codes = []
        for context, stream, executable in self.graphs:
            self.cuda.cuCtxSetCurrent(context)
            codes.append(self.cuda.cuGraphLaunch(executable, stream))
        for context, stream, _ in self.graphs:
            self.cuda.cuCtxSetCurrent(context)
            self.cuda.cuStreamSynchronize(stream)
        return next(filter(None, codes), 0)


def pause_and_resume(amem: Any, job: Job) -> dict[str, Any]:
    """What was seen on the way."""
    seen = {"before": job.all_reduce()}
    try:
        amem.pause()
    except amem.AmemError as error:
        seen["refused"] = {"code": error.code, "text": str(error)}
    else:
        seen["paused"] = {**amem.stats()["total"], "all_reduce": job.all_reduce()}
        amem.resume()
    seen["after"] = job.all_reduce()
    seen["interposition"] = amem.interposition()
    return seen


def main() -> None:
    binding, path, mode = sys.argv[1:4]
    flags = functools.reduce(lambda one, other: one | getattr(os, f"RTLD_{other}"), mode.split("|"), 0)
    nccl = {"ctypes": open_by_ctypes, "cffi": open_by_cffi}[binding](path, flags)
    before_import = sys.argv[4] if len(sys.argv) > 4 else ""
    functions = look_up(nccl) if before_import else None
    job = Job(functions) if before_import == "communicators" else None

    import amem

    seen = pause_and_resume(amem, job or Job(functions or look_up(nccl)))
    seen["ncclPause"] = hasattr(ctypes.CDLL("libnccl.so.2"), "ncclPause")
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
