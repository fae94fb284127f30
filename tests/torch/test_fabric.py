# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Memory with fabric handles that vLLM's allocator creates for PyTorch (cumem.c)."""

import subprocess
from pathlib import Path

import pytest

from conftest import SimulatedTorch

PROGRAM = """
import ctypes
library = ctypes.CDLL(os.environ["CUMEM"])
allocator = torch.cuda.memory.CUDAPluggableAllocator(os.environ["CUMEM"], "cumem_malloc", "cumem_free")
pool = torch.cuda.MemPool(allocator.allocator())
of(MIB)  # the context's own memory
before = free()
with torch.cuda.use_mem_pool(pool):
    cache = of(64 * MIB)
pointer = ctypes.c_void_p(cache.data_ptr())
expect(before - free() == 64 * MIB, before - free())


def pause(stays):
    amem.pause("job")
    expect(free() >= before - (64 * MIB if stays else 0), f"{before - free()} bytes are here")
    found = amem.stats()["persistent"]
    expect(list(found) == (["exported as a fabric handle"] if stays else []), found)
    amem.resume("job")
    expect(holds(cache, 1), "contents")


write(cache, 1)
pause(False)
expect(library.cumem_sleep_and_wake(pointer) == 1, "vLLM sleeps and wakes")
write(cache, 1)
pause(False)
if os.environ.get("AMEM_SIM_FABRIC"):
    expect(library.cumem_export(pointer, ctypes.create_string_buffer(64)) == 1, "another node may import it")
    pause(True)
"""


@pytest.mark.parametrize("domain", ["", "domain"], ids=["none", "fabric"])
def test_memory_of_vllms_allocator_leaves_until_it_is_exported(simulated: SimulatedTorch, tmp_path: Path, domain: str) -> None:
    library = tmp_path / "cumem.so"
    source = Path(__file__).with_name("cumem.c")
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source, *simulated.headers(),
                    simulated.build / "sim" / "libcuda.so.1"], check=True)
    simulated.run(PROGRAM, CUMEM=str(library), AMEM_TENSORS="job", AMEM_SIM_FABRIC=domain)
