# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Versions of PyTorch whose pools differ. Before 2.8 they are used by all threads: regions have no effect, with a warning; this version
is made to look like one. Before 2.10 a thread allocates from the pool to which it has been routed first."""

from conftest import SimulatedTorch

OLD = """
if hasattr(torch._C, "_cuda_beginAllocateCurrentThreadToPool"):
    del torch._C._cuda_beginAllocateCurrentThreadToPool
"""

LAST_POOL = """
def pool_of(tensor):
    found = [s["segment_pool_id"] for s in torch.cuda.memory_snapshot() if s["address"] <= tensor.data_ptr() < s["address"] + s["total_size"]]
    return tuple(found[0])


def tags_of(tensor):
    return [tag for tag in ("outer", "inner", "all") if is_paused(tensor, tag)]


def is_paused(tensor, tag):
    amem.pause(tag)
    try:
        amem.backup(tensor)
        return True
    except amem.AmemError:
        return False
    finally:
        amem.resume(tag)


first = of(MIB)
one, two, graph = torch.cuda.MemPool(), torch.cuda.MemPool(), torch.cuda.CUDAGraph()
with torch.cuda.use_mem_pool(one), torch.cuda.use_mem_pool(two):
    plain = pool_of(of(3 * MIB))
expect(plain == (one.id if torch.__version__ < (2, 10) else two.id), "pools without regions")
expected = []


def allocate(*tags):
    expected.append((of(3 * MIB), list(tags)))


with torch.cuda.use_mem_pool(one):
    with amem.region("outer"):
        allocate("outer")
        with torch.cuda.use_mem_pool(two):
            allocate()
            with amem.region("inner"):
                allocate("inner")
                with torch.cuda.graph(graph):
                    allocate()
                allocate("inner")
            with amem.disable():
                allocate()
            allocate()
        allocate("outer")
        with amem.region("all", threads=True):
            allocate("all")
            with amem.region("inner"):
                allocate("inner")
            import threading
            thread = threading.Thread(target=allocate, args=("all",))
            thread.start(), thread.join()
        allocate("outer")
    allocate()
with torch.cuda.use_mem_pool(one), torch.cuda.use_mem_pool(two):
    expect(pool_of(of(3 * MIB)) == plain, "pools without regions")
allocate()
for number, (tensor, tags) in enumerate(expected):
    expect(tags_of(tensor) == tags, f"tensor {number} has the tags {tags}: {tags_of(tensor)}")
counts = one.use_count(), two.use_count()
expect(counts == (1, 1), counts)
"""


def test_regions_have_no_effect_and_say_why(simulated: SimulatedTorch) -> None:
    said = simulated.run(OLD + """
import logging
logging.basicConfig(stream=sys.stdout)
with amem.region("weights"), amem.region("inner", backup=None):
    weights = of(20 * MIB)
with amem.disable():
    other = of(20 * MIB)
graph = torch.cuda.CUDAGraph()
with amem.cuda_graph(graph):
    out = of(20 * MIB)
write(weights, 1)
left = free()
amem.pause()
expect(free() - left < 20 * MIB and holds(weights, 1), "the memory stays")
amem.resume()
torch.cuda.empty_cache()
""")
    assert "use PyTorch 2.8 or newer" in said


def test_the_last_pool_counts(simulated: SimulatedTorch) -> None:
    """In a thread with a region. Without one, PyTorch is as it was."""
    simulated.run(LAST_POOL, GMM_LOG="1")
