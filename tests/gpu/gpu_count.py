# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Prints the number of GPUs that the CUDA driver shows; exit code 1 and a message if there is none."""

import ctypes
import sys


def count_gpus() -> int | str:
    """The number, or why there is none. Makes no context on any of them."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"no CUDA driver: {error}"
    result = driver.cuInit(0)
    if result != 0:
        return f"the CUDA driver does not start: cuInit returned {result}"
    count = ctypes.c_int(0)
    result = driver.cuDeviceGetCount(ctypes.byref(count))
    if result != 0 or count.value == 0:
        return f"the CUDA driver sees no GPU: cuDeviceGetCount returned {result}"
    return count.value


if __name__ == "__main__":
    answer = count_gpus()
    if isinstance(answer, str):
        sys.exit(answer)
    print(answer)
