# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Kernels that recurse, after pauses that return the local memory of the context: launched, and in a graph that was
captured before. Then another thread launches a kernel that lasts, at some moment of each pause.

nvcc -shared -Xcompiler -fPIC -arch=sm_90 -o deep_stack.so tests/gpu/deep_stack.cu
AMEM_TRIM_CONTEXT=1 amem run -- torchrun --nproc-per-node 2 tests/gpu/torch_deep_stack.py deep_stack.so
"""

import argparse
import ctypes
import os
import threading
import time
from collections.abc import Callable

import numpy
import torch
import torch.distributed as dist

import amem

CYCLES = 20
STACK_BYTES, DEPTH = 8192, 20  # about 300 bytes of stack for each call
BLOCKS, THREADS = 1056, 256


def expected_sums() -> numpy.ndarray:
    """What the kernel computes, on the CPU."""
    value = numpy.arange(BLOCKS * THREADS, dtype=numpy.uint32)
    total = numpy.zeros_like(value)
    for _ in range(DEPTH):
        total += value + value % 64
        value = value * numpy.uint32(1664525) + numpy.uint32(1013904223)
    return total + value + value + value % 64


class Recursion:
    def __init__(self, library: str) -> None:
        self.kernels = ctypes.CDLL(library)
        self.kernels.launch_recursive.argtypes = [ctypes.c_uint] * 3 + [ctypes.c_void_p] * 2
        self.kernels.launch_lasting.argtypes = [ctypes.c_ulonglong, ctypes.c_void_p]
        self.kernels.set_stack_bytes.argtypes = [ctypes.c_size_t]
        self.check("set_stack_bytes", STACK_BYTES)
        self.sums = torch.zeros(BLOCKS * THREADS, dtype=torch.int32, device="cuda")
        self.expected = expected_sums()
        self.run()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.launch()

    def check(self, name: str, *arguments: object) -> None:
        code = getattr(self.kernels, name)(*arguments)
        if code != 0:
            raise SystemExit(f"{name} returned {code}")

    def limit(self) -> int:
        bytes_ = ctypes.c_size_t(0)
        self.check("stack_bytes", ctypes.byref(bytes_))
        return bytes_.value

    def launch(self) -> None:
        stream = torch.cuda.current_stream().cuda_stream
        self.check("launch_recursive", DEPTH, BLOCKS, THREADS, self.sums.data_ptr(), stream)

    def compare(self, what: str) -> None:
        torch.cuda.synchronize()
        if not numpy.array_equal(self.sums.cpu().numpy().view(numpy.uint32), self.expected):
            raise SystemExit(f"{what}: other sums than those of the CPU")
        self.sums.zero_()

    def run(self) -> None:
        self.launch()
        self.compare("a launch")

    def replay(self) -> None:
        self.graph.replay()
        self.compare("a replay")


def all_reduce_is_right(step: int) -> None:
    data = torch.full((1 << 20,), float(dist.get_rank() + step), device="cuda")
    dist.all_reduce(data)
    expected = sum(range(dist.get_world_size())) + dist.get_world_size() * step
    if not bool((data == expected).all()):
        raise SystemExit(f"step {step}: the sum is wrong")


def milliseconds(call: Callable[[], None]) -> float:
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1e3


def usual_cycles(recursion: Recursion) -> int:
    """The least that a pause has returned."""
    least = 1 << 62
    limit = recursion.limit()
    for cycle in range(CYCLES):
        amem.pause()
        least = min(least, amem.stats()["times"]["pause_context_bytes"])
        amem.resume()
        if recursion.limit() < limit:
            raise SystemExit(f"the limit of the stack is {recursion.limit()}, it was {limit}")
        (recursion.replay if cycle % 2 == 0 else recursion.run)()
        all_reduce_is_right(cycle)
        (recursion.run if cycle % 2 == 0 else recursion.replay)()
    return least


def outcome(call: Callable[[], object]) -> str:
    try:
        call()
    except amem.AmemError as error:
        return str(error)
    return "done"


def resume_at_last(said: list[str]) -> None:
    """A resume waits for the call that returns local memory, which may wait for the lasting kernel: beyond AMEM_TIMEOUT_MS."""
    while (text := outcome(amem.resume)) != "done":
        said.append(text)


def with_a_lasting_kernel(recursion: Recursion, moment_ms: float, lasting_s: float) -> str:
    """Times of a cycle in which another thread launches long work `moment_ms` after the pause has begun."""
    begin, stream = threading.Event(), torch.cuda.Stream()

    def other() -> None:
        begin.wait()
        time.sleep(moment_ms / 1e3)  # allow: the moment is what is varied
        recursion.check("launch_lasting", int(lasting_s * 1e9), stream.cuda_stream)

    thread = threading.Thread(target=other)
    thread.start()
    begin.set()
    said: list[str] = []
    paused = milliseconds(lambda: said.append(outcome(amem.pause)))
    thread.join()
    returned = amem.stats()["times"]["pause_context_bytes"]
    resumed = milliseconds(lambda: resume_at_last(said))
    recursion.replay()
    recursion.run()
    all_reduce_is_right(int(moment_ms))
    return f"after {moment_ms} ms: pause {paused:.0f} ms, {returned >> 20} MiB returned, resume {resumed:.0f} ms; {said}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="deep_stack.cu, compiled")
    parser.add_argument("--lasting-s", type=float, default=1.5)
    parser.add_argument("--moments-ms", type=float, nargs="*", default=(0.0, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0))
    options = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    all_reduce_is_right(0)
    recursion = Recursion(options.library)
    recursion.replay()
    least = usual_cycles(recursion)
    if least < 100 << 20:
        raise SystemExit(f"a pause has returned {least} bytes only")
    for moment_ms in options.moments_ms:
        text = with_a_lasting_kernel(recursion, moment_ms, options.lasting_s)
        print(f"rank {dist.get_rank()} {text}", flush=True)
    if dist.get_rank() == 0:
        print(f"result: {least >> 20} MiB returned, {CYCLES} pauses, recursion right in and out of a graph", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
