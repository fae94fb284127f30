# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""For programs of the tests: a library that is linked with a CUDA runtime, on the simulated GPU."""

import ctypes
import os
import socket

MIB = 1 << 20
_FOLDER = os.environ["TEST_LIBRARIES"]
user = ctypes.CDLL(f"{_FOLDER}/libruntime_user_{os.environ.get('TEST_BINDING', 'now')}.so")
user.user_malloc.restype = ctypes.c_void_p
user.user_malloc.argtypes = user.user_malloc_result.argtypes = [ctypes.c_size_t]
user.user_free.argtypes = user.user_close.argtypes = [ctypes.c_void_p]
user.user_export.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
user.user_open.restype = ctypes.c_void_p
user.user_open.argtypes = [ctypes.c_char_p]
runtime = ctypes.CDLL(f"{_FOLDER}/libfake_cudart.so")


def library(name: str) -> ctypes.CDLL:
    return ctypes.CDLL(f"{_FOLDER}/lib{name}.so")


def fill(pointer: int, value: int, size: int = 4 * MIB) -> None:
    assert runtime.cudaMemset(ctypes.c_void_p(pointer), value, ctypes.c_size_t(size)) == 0


def read(pointer: int, size: int = 4 * MIB) -> set[int] | int:
    """The set of the bytes, or the error code."""
    data = (ctypes.c_ubyte * size)()
    result = runtime.cudaMemcpyToHost(data, ctypes.c_void_p(pointer), ctypes.c_size_t(size))
    return set(bytes(data)) if result == 0 else result


def export(pointer: int) -> bytes:
    """The 64 bytes of cudaIpcGetMemHandle()."""
    handle = ctypes.create_string_buffer(64)
    assert user.user_export(handle, pointer) == 0
    return handle.raw


def send_descriptors(path: str, descriptors: list[int]) -> None:
    """To the process that calls receive_descriptors() with this path after "listening" was printed. Closes them."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        print("listening", flush=True)
        with server.accept()[0] as peer:
            socket.send_fds(peer, [b"x"], descriptors)
    for descriptor in descriptors:
        os.close(descriptor)


def receive_descriptors(path: str, count: int) -> list[int]:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
        return socket.recv_fds(peer, 1, count)[1]
