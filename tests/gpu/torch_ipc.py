# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Region tensors that another process updates between pauses: sent by torch.multiprocessing, and opened by ctypes as the
custom all-reduce of vLLM does. A process without amem gets an error of CUDA."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as multiprocessing

import amem

COUNT, CYCLES = 16 << 20, 3


def expect(condition: Any, what: str) -> None:
    if not condition:
        raise SystemExit(f"wrong: {what}")


class Handle(ctypes.Structure):
    """cudaIpcMemHandle_t."""

    _fields_ = [("reserved", ctypes.c_byte * 64)]


def runtime() -> Any:
    """The CUDA runtime of PyTorch."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = [line.split()[-1] for line in lines if "libcudart" in line]
    expect(paths, "PyTorch has not loaded libcudart")
    return ctypes.CDLL(paths[0])


def exported(tensor: Any) -> Any:
    handle = ctypes.create_string_buffer(64)
    code = runtime().cudaIpcGetMemHandle(handle, ctypes.c_void_p(tensor.data_ptr()))
    expect(code == 0, f"cudaIpcGetMemHandle() returned {code}")
    return handle.raw


def opened(handle: Any) -> Any:
    """The result of cudaIpcOpenMemHandle(), and the address."""
    address = ctypes.c_void_p()
    torch.zeros(1, device="cuda")  # the context
    code = runtime().cudaIpcOpenMemHandle(ctypes.byref(address), Handle.from_buffer_copy(handle), ctypes.c_uint(1))
    return code, address


def copy(to: Any, source: Any) -> None:
    """4 * COUNT bytes of this GPU."""
    code = runtime().cudaMemcpy(ctypes.c_void_p(to), ctypes.c_void_p(source), ctypes.c_size_t(4 * COUNT), ctypes.c_int(3))
    torch.cuda.synchronize()
    expect(code == 0, f"cudaMemcpy() returned {code}")


def importer(handle: Any, commands: Any, replies: Any) -> None:
    """Adds 1 to the owner's numbers, which are all the value of a command."""
    code, address = opened(handle)
    replies.put(code)
    own = torch.zeros(COUNT, device="cuda")
    while (value := commands.get(timeout=60)) is not None:
        copy(own.data_ptr(), address.value)
        replies.put(bool((own == value).all()))
        own.add_(1)
        copy(address.value, own.data_ptr())
        replies.put("written")
    code = runtime().cudaIpcCloseMemHandle(address)
    expect(code == 0, f"cudaIpcCloseMemHandle() returned {code}")


def without_amem(handle: Any) -> None:
    """What a process without amem runs."""
    expect(not amem.enabled(), "amem is on")
    code, _ = opened(handle)
    expect(code != 0, "a process without amem has opened the handle")
    cuda = runtime()
    cuda.cudaGetErrorString.restype = ctypes.c_char_p
    print(f"refused: {cuda.cudaGetErrorString(code).decode()}")


def trainer(tensors: Any, commands: Any, replies: Any) -> None:
    """Writes to the weights of the rollout process, as a weight update does."""
    weights = tensors.get(timeout=60)
    addresses = [weight.data_ptr() for weight in weights]
    replies.put("opened")
    while (value := commands.get(timeout=60)) is not None:
        for number, weight in enumerate(weights):
            weight.fill_(value + number)
        torch.cuda.synchronize()
        same = addresses == [weight.data_ptr() for weight in weights]
        replies.put(same and all(bool((weight == value + number).all()) for number, weight in enumerate(weights)))
    del weights


def opened_by_ctypes(context: Any) -> None:
    with amem.region("buffers"):
        buffer = torch.zeros(COUNT, device="cuda")  # an allocation of its own
    torch.cuda.synchronize()
    handle, commands, replies = exported(buffer), context.Queue(), context.Queue()
    child = context.Process(target=importer, args=(handle, commands, replies))
    child.start()
    code = replies.get(timeout=100)
    expect(code == 0, f"cudaIpcOpenMemHandle() returned {code}")
    for cycle in range(CYCLES):
        value = 10 * cycle + 1
        buffer.fill_(value)
        torch.cuda.synchronize()
        commands.put(value)
        expect(replies.get(timeout=60) is True, f"the other process sees {value}")
        expect(replies.get(timeout=60) == "written", "the other process writes")
        report = amem.pause("buffers")
        expect(report.resident_bytes == 0, f"memory that is open elsewhere stayed: {report}")
        amem.resume("buffers")
        expect(bool((buffer == value + 1).all()), f"the update of {value} after a pause")
    commands.put(None)
    child.join(60)
    expect(child.exitcode == 0, f"the other process ended with {child.exitcode}")
    command = [sys.executable, __file__, exported(buffer).hex()]
    variables = {**os.environ, "AMEM_ENABLE": "0"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=100, check=False)
    expect(done.returncode == 0 and "refused: " in done.stdout, f"without amem: {done.returncode} {done.stdout}{done.stderr}")
    print(f"a process without amem is {done.stdout.strip()}", flush=True)
    expect(bool((buffer == value + 1).all()), "contents after a refused handle")


def sent_by_torch(context: Any) -> None:
    tensors, commands, replies = context.Queue(), context.Queue(), context.Queue()
    child = context.Process(target=trainer, args=(tensors, commands, replies))
    child.start()
    with amem.region("weights"):
        weights = [torch.zeros(COUNT, device="cuda") for _ in range(3)]
    tensors.put(weights)
    expect(replies.get(timeout=100) == "opened", "the other process opened the tensors")
    for cycle in range(CYCLES):
        value = 10 * cycle + 1
        commands.put(value)
        expect(replies.get(timeout=60) is True, f"the other process sees its update {value}")
        free = torch.cuda.mem_get_info()[0]
        report = amem.pause("weights")
        gain = torch.cuda.mem_get_info()[0] - free
        # The other process allocates a few MiB of its own while it starts.
        released = report.resident_bytes == 0 and gain >= 3 * 4 * COUNT - (32 << 20)
        expect(released, f"the pause freed {gain} bytes: {report}")
        amem.resume("weights")
        for number, weight in enumerate(weights):
            expect(bool((weight == value + number).all()), f"update {value} after a pause")
    commands.put(None)
    child.join(60)
    expect(child.exitcode == 0, f"the other process ended with {child.exitcode}")


def main() -> None:
    context = multiprocessing.get_context("spawn")
    sent_by_torch(context)
    print("ok sent_by_torch", flush=True)
    opened_by_ctypes(context)
    print(f"result: {CYCLES} updates from each of two processes, each kept over a pause")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        without_amem(bytes.fromhex(sys.argv[1]))
    else:
        main()
