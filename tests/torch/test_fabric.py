# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Memory with fabric handles: that of vLLM's allocator (cumem.c), and PyTorch's symmetric memory."""

import subprocess
from pathlib import Path

import pytest

from conftest import HEAD, SimulatedTorch

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


# get_fabric_access() of PyTorch finds an IMEX channel: the ranks exchange fabric handles, from 2.9 on.
SYMMETRIC = """
import subprocess
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

rank = int(os.environ["RANK"])
if rank == 0:
    other = subprocess.Popen([sys.executable, "-c", os.environ["PROGRAM"]], env={**os.environ, "RANK": "1"})
torch.cuda.set_device(rank)
dist.init_process_group("gloo", rank=rank, world_size=2, store=dist.FileStore(os.environ["STORE"], 2))
SIZE = 4 * MIB
own = symmetric.empty(SIZE, dtype=torch.uint8, device=f"cuda:{rank}")
handle = symmetric.rendezvous(own, dist.group.WORLD.group_name)
of_peer = handle.get_buffer(1 - rank, (SIZE,), torch.uint8)
write(own, rank)
dist.barrier()
for cycle in range(2):
    expect(holds(of_peer, 1 - rank), "the peer's memory")
    dist.barrier()
    amem.pause("symmetric")
    found = amem.stats()
    leaves = os.environ["LOCAL_WORLD_SIZE"] == "2" or torch.__version__ < (2, 9)
    expect((found["tags"]["symmetric"]["resident_bytes"] == 0) == leaves, found)
    expect(list(found["persistent"]) == ([] if leaves else ["exported as a fabric handle"]), found)
    dist.barrier()
    amem.resume("symmetric")
    dist.barrier()
expect(holds(own, rank) and holds(of_peer, 1 - rank), "contents")
dist.barrier()
if rank == 0:
    expect(other.wait() == 0, "the other rank")
"""


@pytest.mark.parametrize("ranks_here", ["2", "1"])
def test_symmetric_memory_leaves_if_all_ranks_are_on_this_host(simulated: SimulatedTorch, tmp_path: Path, ranks_here: str) -> None:
    simulated.run(SYMMETRIC, PROGRAM=HEAD + SYMMETRIC, STORE=str(tmp_path / "store"), RANK="0", WORLD_SIZE="2",
                  LOCAL_WORLD_SIZE=ranks_here, AMEM_SIM_FABRIC="domain", AMEM_ENABLE="1")
