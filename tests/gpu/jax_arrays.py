# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Arrays of JAX under `amem run --tensors job`, without and with its preallocation of the GPU's memory."""

import os
import subprocess
import sys

MIB = 1 << 20


def pause_arrays() -> None:
    import jax
    import jax.numpy as jnp

    import amem

    product = jax.jit(lambda a: (a @ a) / 1024)
    a = jnp.arange(8192 * 8192, dtype=jnp.float32).reshape(8192, 8192) % 97
    b, many = product(a), [jnp.full((1 << 20,), i, dtype=jnp.int32) for i in range(64)]
    jax.block_until_ready((a, b, many))
    want = float(jnp.sum(b)), [int(each[-1]) for each in many]
    for _ in range(3):
        report = amem.pause("job")
        assert report.released_bytes >= (512 + 256) * MIB, report
        amem.resume("job")
        assert (float(jnp.sum(b)), [int(each[-1]) for each in many]) == want
        assert bool(jnp.array_equal(product(a), b))
    print(f"{report.released_bytes // MIB} MiB left")


def main() -> None:
    for preallocates in ("false", "true"):
        variables = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": preallocates, "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.2"}
        job = ["amem", "run", "--tensors", "job", "--", sys.executable, __file__, "pause"]
        done = subprocess.run(job, env=variables, capture_output=True, text=True, timeout=200, check=False)
        if done.returncode != 0:
            raise SystemExit(done.stdout + done.stderr)
        print(done.stdout.strip().splitlines()[-1], end=" ")


if __name__ == "__main__":
    main() if len(sys.argv) == 1 else pause_arrays()
