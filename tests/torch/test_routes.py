# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Every route by which PyTorch allocates, inside regions and beside them: which memory has which tag, and what is left of it."""

import pytest

from conftest import EXPANDABLE, SimulatedTorch

TAGGED = """
import threading


def is_paused(tensor):
    try:
        amem.backup(tensor)
    except amem.AmemError:
        return False
    return True


def is_ordinary():
    \"\"\"What the thread allocates now.\"\"\"
    probe = of(3 * MIB)
    return [s["segment_pool_id"] for s in torch.cuda.memory_snapshot() if s["address"] <= probe.data_ptr() < s["address"] + s["total_size"]] == [(0, 0)]


def tag_bytes():
    return {tag: part["allocated_bytes"] for tag, part in amem.stats()["tags"].items() if part["allocated_bytes"]}
"""
QUIET = {"GMM_LOG": "1"}  # is_paused() fails for ordinary memory


ROUTES = """
torch.cuda.memory._record_memory_history(stacks="python")
first = of(MIB)
got, threads = {}, {}
own_pool, side = torch.cuda.MemPool(), torch.cuda.Stream()
graph, tagged_graph = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
with amem.region("weights"):
    got["weights"] = [of(3 * MIB)]
    raw = torch.cuda.memory.caching_allocator_alloc(3 * MIB)
    storage = torch.UntypedStorage(10, device="cuda:0")
    storage.resize_(4 * MIB)
    got["weights"].append(torch.empty(0, dtype=torch.uint8, device="cuda").set_(storage))
    with torch.cuda.stream(side):
        on_side = of(3 * MIB)
    on_side.record_stream(torch.cuda.current_stream())
    got["weights"] += [on_side, of(3 * MIB, "cuda:1")]
    torch.empty(MIB, dtype=torch.uint8).pin_memory()
    with torch.cuda.use_mem_pool(own_pool):
        got[None] = [first, of(3 * MIB)]
        with amem.region("inner"):
            got["inner"] = [of(3 * MIB)]
        with amem.disable():
            got[None].append(of(3 * MIB))
        got[None].append(of(3 * MIB))

    def in_thread():
        threads[None] = of(3 * MIB)
        with amem.region("other"):
            threads["other"] = of(3 * MIB)

    thread = threading.Thread(target=in_thread)
    thread.start(), thread.join()
    with torch.cuda.graph(graph):
        got[None].append(of(3 * MIB))
    with amem.cuda_graph(tagged_graph, tag="graph"):
        got["graph"] = [of(3 * MIB)]
    got["weights"].append(of(3 * MIB))
with torch.cuda.use_mem_pool(own_pool):
    with amem.region("weights"):
        got["weights"].append(of(3 * MIB))
    got[None].append(of(3 * MIB))
got[None] += [of(3 * MIB), threads[None]]
got["other"] = [threads["other"]]
del thread, threads
tensors = [(tag, tensor) for tag in got for tensor in got[tag]]
for seed, (tag, tensor) in enumerate(tensors):
    write(tensor, seed)
for paused in ("weights", "inner", "other", "graph"):
    amem.pause(paused)
    for number, (tag, tensor) in enumerate(tensors):
        expect(is_paused(tensor) == (tag == paused), f"tensor {number} has the tag {tag} while {paused} is paused")
        expect(tag == paused or holds(tensor, number), f"contents of tensor {number} while {paused} is paused")
    amem.resume(paused)
reserved, left = torch.cuda.memory_reserved(), free()
for _ in range(20):
    amem.pause(), amem.resume()
expect(torch.cuda.memory_reserved() == reserved and abs(free() - left) <= 2 * MIB, "no growth")
expect(all(holds(tensor, seed) for seed, (tag, tensor) in enumerate(tensors)), "contents")
torch.cuda.memory.caching_allocator_delete(raw)
del got, tensors, tensor, storage, on_side, first, own_pool, graph, tagged_graph, in_thread
gc.collect()
torch._C._cuda_clearCublasWorkspaces()
torch.cuda.empty_cache()
expect(tag_bytes() == {}, f"nothing is left: {tag_bytes()}")
expect(torch.cuda.memory_reserved(0) == torch.cuda.memory_reserved(1) == 0, "PyTorch holds nothing")
"""


@pytest.mark.parametrize("settings", ["", "expandable_segments:True,garbage_collection_threshold:0.5",
                                      "max_split_size_mb:30,roundup_power2_divisions:4"])
def test_memory_has_the_tag_of_the_pool_for_which_pytorch_allocates_it(simulated: SimulatedTorch, settings: str) -> None:
    simulated.run(EXPANDABLE + TAGGED + ROUTES, PYTORCH_CUDA_ALLOC_CONF=settings, **QUIET)


def test_many_regions(simulated: SimulatedTorch) -> None:
    """PyTorch before 2.15 frees the number of a pool when it is asked for a snapshot of it."""
    simulated.run(TAGGED + """
pools = amem.torch_pools
live = [of(MIB)]
for _ in range(1000):
    with amem.region("weights"):
        live.append(of(1000))
expect(tag_bytes()["weights"] == 2 * MIB, "1000 small tensors share a segment")
for _ in range(300):
    with amem.region("large"):
        temporary = of(100 * MIB)
        del temporary
expect(len(pools._ended) <= 1, f"{len(pools._ended)} pools without memory are kept")
expect("large" not in tag_bytes(), "temporaries leave nothing")
amem.pause("weights")
for _ in range(10):
    with amem.region("weights"):
        live.append(of(1000))
write(live[-1], 1)
amem.resume("weights")
for _ in range(20):
    amem.pause("weights"), amem.resume("weights")
expect(holds(live[-1], 1), "contents")
for number in range(61):
    with amem.region(f"tag{number}"):
        live.append(of(1000))
try:
    with amem.region("large", backup=None):  # the 64 are weights, large and 61 others, and this one
        live.append(of(1000))
    with amem.region("one_more"):
        pass
except amem.AmemError as error:
    expect("64" in str(error), error)
else:
    sys.exit("65 tags")
expect(is_ordinary(), "nothing is routed")
numbers = [sys.getrefcount(each) for each in (0, True, False)]
for _ in range(3000):
    with amem.region("weights"):
        pass
after = [sys.getrefcount(each) for each in (0, True, False)]
expect(all(later - earlier > -1000 for earlier, later in zip(numbers, after)), f"references: {numbers}, then {after}")
""")


def test_graphs(simulated: SimulatedTorch) -> None:
    simulated.run(TAGGED + """
source = of(5 * MIB)
write(source, 1)
before = torch.cuda.memory_reserved()


def capture(pool=None):
    graph = torch.cuda.CUDAGraph()
    with amem.cuda_graph(graph, pool=pool):
        out = of(5 * MIB)
        out.copy_(source)
    return graph, out


handle = torch.cuda.graph_pool_handle()
graphs = [capture()]
graphs += [capture(graphs[0][0].pool()), capture(handle), capture(handle)]
expect(tag_bytes()["cuda_graph"] == 40 * MIB, f"two pools: {tag_bytes()}")
for _ in range(20):
    amem.pause("cuda_graph"), amem.resume("cuda_graph")
for graph, out in graphs:
    graph.replay()
    expect(holds(out, 1), "a replay")
del graphs, graph, out
gc.collect()
torch.cuda.empty_cache()
expect(tag_bytes() == {}, f"deleted graphs leave nothing: {tag_bytes()}")
for pool in [handle, None] * 20:
    graph, out = capture(pool)
    del graph, out
torch._C._cuda_clearCublasWorkspaces()
torch.cuda.empty_cache()
expect(tag_bytes() == {} and torch.cuda.memory_reserved() == before, f"captured again and deleted: {tag_bytes()}")
graph = torch.cuda.CUDAGraph()
with contextlib.suppress(KeyError), amem.cuda_graph(graph):
    raise KeyError
expect(is_ordinary(), "nothing is routed after a capture that has failed")
graph, out = capture(handle)
expect(tag_bytes()["cuda_graph"] == 20 * MIB, "the handle can be used again")
""")


def test_graph_whose_handle_is_left_and_entered_again(simulated: SimulatedTorch) -> None:
    """As SGLang and vLLM do around symmetric memory, with the handle that the program knows."""
    simulated.run(TAGGED + """
handle, own, graph = torch.cuda.graph_pool_handle(), torch.cuda.MemPool(), torch.cuda.CUDAGraph()
with amem.cuda_graph(graph, pool=handle):
    before = of(30 * MIB)
    torch._C._cuda_endAllocateToPool(0, handle)
    torch._C._cuda_beginAllocateCurrentThreadToPool(0, own.id)
    symmetric = of(40 * MIB)
    torch._C._cuda_endAllocateToPool(0, own.id)
    torch._C._cuda_releasePool(0, own.id)
    torch._C._cuda_beginAllocateCurrentThreadToPool(0, handle)
    after = of(50 * MIB)
expect(tag_bytes() == {"cuda_graph": 80 * MIB}, f"the graph's memory has the tag, that of the program's pool not: {tag_bytes()}")
write(after, 1), write(symmetric, 2)
amem.pause("cuda_graph")
expect(holds(symmetric, 2), "the program's pool stays")
amem.resume("cuda_graph")
expect(holds(after, 1), "the graph's memory is back")
torch._C._cuda_beginAllocateCurrentThreadToPool(0, handle)
of(MIB)
torch._C._cuda_endAllocateToPool(0, handle)
expect(tag_bytes() == {"cuda_graph": 80 * MIB} and is_ordinary(), f"outside the capture the handle is the program's: {tag_bytes()}")
""")


ENDS = """
import asyncio, ctypes
first = of(MIB)
library = ctypes.CDLL(None)


def nothing_is_open(what):
    expect(library.amemEndRegion() != 0, f"{what}: a region of cudaMalloc() is open")
    expect(is_ordinary(), f"{what}: PyTorch's allocations are routed")
    expect(not any(amem.regions._open_regions.values()), f"{what}: a region is open")


async def task(tag):
    with amem.region(tag):
        await asyncio.sleep(0)  # allow: lets the other task run


async def tasks():
    return await asyncio.gather(task("a"), task("b"), return_exceptions=True)


results = asyncio.run(tasks())
expect(results[0] is None and isinstance(results[1], amem.AmemError), results)
nothing_is_open("tasks that interleave")


def generator():
    with amem.region("g"):
        yield


suspended = generator()
next(suspended)


def collect():
    global suspended
    del suspended
    gc.collect()


thread = threading.Thread(target=collect)
thread.start(), thread.join()
nothing_is_open("a generator that another thread has closed")
stack = contextlib.ExitStack()
stack.enter_context(amem.region("s"))
stack.pop_all().close()
nothing_is_open("a stack that was moved")
with contextlib.suppress(KeyError), amem.region("e"), amem.region("f"):
    raise KeyError
nothing_is_open("an exception")
with contextlib.suppress(torch.OutOfMemoryError), amem.region("e"):
    of(8 << 30)
nothing_is_open("lack of memory")
outer, inner = amem.region("o"), amem.region("i")
outer.__enter__(), inner.__enter__()
try:
    outer.__exit__(None, None, None)
except amem.AmemError:
    pass
else:
    sys.exit("the outer region ends before the inner one")
inner.__exit__(None, None, None)
nothing_is_open("regions that interleave")

pools, MemPool = amem.torch_pools, torch.cuda.MemPool


class Failing(MemPool):
    def __init__(self, *arguments):
        if torch.cuda.current_device() == 1:
            raise RuntimeError("no pool")
        super().__init__(*arguments)


def fails(what, tag, owner, name, replacement):
    original = getattr(owner, name)
    try:
        with amem.region("outer"):
            setattr(owner, name, replacement)
            with amem.region(tag):
                pass
    except amem.AmemError:
        pass
    else:
        sys.exit(f"{what} has not failed")
    finally:
        setattr(owner, name, original)
    nothing_is_open(what)


def refuse(*arguments):
    raise amem.AmemError("refused")


fails("MemPool() of the second device", "one", torch.cuda, "MemPool", Failing)
fails("amemSetPool()", "other", pools, "call", refuse)
try:
    with amem.region("closing"):
        segments, pools.segments = pools.segments, refuse
except amem.AmemError:
    pass
else:
    sys.exit("the snapshot has not failed")
finally:
    pools.segments = segments
nothing_is_open("the snapshot at the end")
with amem.region("other"):
    tensor = of(3 * MIB)
amem.pause("other")
expect(is_paused(tensor), "a tag whose first region has failed")
"""


def test_nothing_stays_routed(simulated: SimulatedTorch) -> None:
    simulated.run(TAGGED + ENDS, **QUIET)


def test_torch_that_is_imported_in_a_region(simulated: SimulatedTorch) -> None:
    """And CUDA that another thread initializes, and PyTorch without its cache: a sentence, and no effect."""
    simulated.script("-c", """
import amem, sys
with amem.region("weights"):
    import torch
    tensor = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
with amem.region("weights"):
    other = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
sys.exit(0 if amem.stats()["tags"]["weights"]["allocated_bytes"] == 2 << 20 else 1)
""")
    simulated.run(TAGGED + """
with amem.region("weights"):
    thread = threading.Thread(target=of, args=(MIB,))
    thread.start(), thread.join()
    tensor = of(3 * MIB)
expect(tag_bytes() == {} and is_ordinary(), tag_bytes())
""")
    simulated.run(TAGGED + """
with amem.region("weights"):
    tensor = of(3 * MIB)
expect(tag_bytes() == {}, tag_bytes())
amem.pause("weights")
write(tensor, 1)
amem.resume("weights")
""", PYTORCH_NO_CUDA_MEMORY_CACHING="1")


def test_free_blocks_are_not_copied(simulated: SimulatedTorch) -> None:
    simulated.run(TAGGED + """
with amem.region("weights"):
    tensors = [of(2 * MIB) for _ in range(20)]
for seed, tensor in enumerate(tensors):
    write(tensor, seed)
del tensor
kept = tensors[1::2]
del tensors
copied = amem.pause("weights").copied_bytes
expect(copied == 20 * MIB, f"{copied} bytes copied of 20 MiB in use")
freed = threading.Thread(target=kept.clear)
amem.resume("weights")
expect(all(holds(tensor, 2 * number + 1) for number, tensor in enumerate(kept)), "contents")
amem.pause("weights")
freed.start(), freed.join()
amem.resume("weights")
gc.collect()
torch.cuda.empty_cache()
expect(tag_bytes() == {}, "freed by another thread while paused")
with amem.region("weights"):
    outer = of(3 * MIB)
    write(outer, 1)
    thread = threading.Thread(target=amem.pause, args=("weights",))
    thread.start(), thread.join()
    amem.resume("weights")
    expect(holds(outer, 1), "a pause inside the region")
""")
