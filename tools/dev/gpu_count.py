# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Asks the CUDA driver how many GPUs there are; exit code 1 and a sentence when there is none."""

import ctypes
import sys


def main():
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
    print(f"dev: {count.value} GPUs", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
