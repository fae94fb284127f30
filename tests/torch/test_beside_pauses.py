# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What a program does beside pauses: captures, frees, empties the cache in other threads, forks, and replaces the allocator."""

import pytest

from conftest import SimulatedTorch


def test_graph_of_a_paused_tag_has_memory_of_its_own(simulated: SimulatedTorch) -> None:
    """Of graphs with the same handle: a free block of the others has no memory."""
    simulated.run("""
source, handle = of(5 * MIB), torch.cuda.graph_pool_handle()
write(source, 1)


def capture():
    graph = torch.cuda.CUDAGraph()
    with amem.cuda_graph(graph, pool=handle):
        between, out = of(5 * MIB), of(5 * MIB)
        between.copy_(source)
        out.copy_(between)
        del between
    return graph, out


first, second = capture(), capture()
del second
gc.collect()
amem.pause("cuda_graph")
third = capture()
third[0].replay()
expect(holds(third[1], 1), "a replay of the new graph while the others are paused")
amem.resume("cuda_graph")
for graph, out in (first, third):
    graph.replay()
    expect(holds(out, 1), "a replay after the resume")
amem.pause("cuda_graph")
del first, graph, out
gc.collect()
torch.cuda.empty_cache()
amem.resume("cuda_graph")
third[0].replay()
expect(holds(third[1], 1), "a replay after another graph was deleted while paused")
fourth = capture()
fourth[0].replay()
expect(holds(fourth[1], 1), "a later graph")
""")


def test_threads_allocate_and_empty_the_cache(simulated: SimulatedTorch) -> None:
    simulated.run("""
import threading
ended, first = threading.Event(), of(MIB)
with amem.region("weights"):
    kept = of(3 * MIB)
write(kept, 1)
reserved = torch.cuda.memory_reserved()


def until_ended(step):
    while not ended.is_set():
        step()


def ordinary():
    tensors = of(2 * MIB), of(30 * MIB)
    del tensors
    torch.cuda.empty_cache()


def in_a_region():
    with amem.region("other", backup=None):
        tensors = of(100000), of(4 * MIB)
        del tensors


threads = [threading.Thread(target=until_ended, args=(step,)) for step in (ordinary, ordinary, in_a_region)]
[thread.start() for thread in threads]
try:
    for seed in range(20):
        with amem.region("weights"):
            tensor = of(2 * MIB)
        write(tensor, seed)
        amem.pause("weights")
        amem.resume("weights")
        expect(holds(tensor, seed) and holds(kept, 1), f"contents after cycle {seed}")
finally:
    ended.set()
    [thread.join() for thread in threads]
del tensor
gc.collect()
torch.cuda.empty_cache()
expect(torch.cuda.memory_reserved() == reserved, f"{torch.cuda.memory_reserved()} bytes reserved, not {reserved}")
""")


def test_fork_in_an_open_region(simulated: SimulatedTorch) -> None:
    """Regions of the parent end in the child without an error, whether or not PyTorch has initialized CUDA."""
    simulated.run("""
def child_of(regions):
    is_first = not torch.cuda.is_initialized()
    with contextlib.ExitStack() as stack:
        [stack.enter_context(region) for region in regions]
        child = os.fork()
        if child == 0 and is_first:
            of(MIB).copy_(torch.ones(MIB, dtype=torch.uint8))
    if child == 0:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def regions():
    return amem.region("weights"), amem.region("inner", backup=None), amem.disable(), amem.region("all", threads=True)


expect(child_of(regions()) == 7, "a child before CUDA is initialized")
first = of(MIB)
expect(child_of(regions()) == 7, "a child afterwards")
with amem.region("weights"):
    weights = of(3 * MIB)
write(weights, 1)
left = free()
amem.pause("weights")
expect(free() - left >= 3 * MIB, "it has left")
amem.resume("weights")
expect(holds(weights, 1), "contents")
""")


def test_storage_has_the_tag_of_the_region_in_which_it_is_resized(simulated: SimulatedTorch) -> None:
    simulated.run("""
def is_paused(storage):
    amem.pause("weights")
    try:
        amem.backup(torch.empty(0, dtype=torch.uint8, device="cuda").set_(storage))
    except amem.AmemError:
        return False
    finally:
        amem.resume("weights")
    return True


storage = of(3 * MIB).untyped_storage()
with amem.region("weights"):
    storage.resize_(8 * MIB)
expect(is_paused(storage), "resized in a region")
storage.resize_(20 * MIB)
expect(not is_paused(storage), "resized outside")
""", GMM_LOG="1")


def test_copy_of_a_view_means_what_the_view_means(simulated: SimulatedTorch) -> None:
    """Conjugate and negative views have the bytes of the tensor that they are a view of. Empty ones, such as FSDP's, have none."""
    simulated.run("""
import amem.torch_memory_saver, torch_memory_saver
source = torch.randn(1000, dtype=torch.complex64)
with amem.region("weights"):
    weights, one = (torch.empty(count, dtype=torch.complex64, device="cuda") for count in (1000, 1))
weights.copy_(source), one.copy_(source[:1])
views = [weights, weights.conj(), one.conj().imag, weights[5:5], torch.empty(3, 0, device="cuda")]
wanted = [source, source.conj().resolve_conj(), source[:1].conj().imag.resolve_neg(), source[5:5], torch.empty(3, 0)]
expect(views[1].is_conj() and views[2].is_neg() and all(view.is_contiguous() for view in views), "views")
amem.pause("weights")
for read in (amem.backup, lambda view: amem.backup(view, copy=True), torch_memory_saver.torch_memory_saver.get_cpu_backup):
    for number, view in enumerate(views):
        expect(torch.equal(read(view), wanted[number]), f"view {number}")
for other in (torch.eye(3).to_sparse_csr(), torch.arange(9).view(3, 3).t()):
    try:
        amem.backup(other)
    except amem.AmemError:
        pass
    else:
        sys.exit(f"a copy of {other}")
""")


def test_error_of_an_argument_does_not_read_paused_memory(simulated: SimulatedTorch) -> None:
    """As repr() of a tensor does."""
    simulated.run("""
with amem.region("weights"):
    weights = of(3 * MIB)
amem.pause("weights")
calls = {
    "[a Tensor] is not a tensor": lambda: amem.backup([weights]),
    "a UntypedStorage is not": lambda: amem.backup(weights.untyped_storage()),
    "not [a Tensor]; write each tag": lambda: amem.pause([weights]),
    "not a Tensor": lambda: amem.resume(weights),
    "timeout is a Tensor": lambda: amem.pause(timeout=weights),
    "to resume, not a Tensor": lambda: amem.switch(pause=weights, resume=[]),
    "is a Tensor, which cannot be called": lambda: amem.on_resume("weights", weights),
    "backup is a Tensor": lambda: amem.region("weights", backup=weights),
    "retain is a Tensor": lambda: amem.region("weights", retain=weights),
    "a path, not a Tensor": lambda: amem.set_backup_directory(weights),
}
for said, call in calls.items():
    try:
        call()
    except amem.AmemError as error:
        expect(said in str(error), f"{said} in {error}")
    else:
        sys.exit(f"no error: {said}")
""")


def test_copy_outlives_the_program_s_reference_to_its_tensor(simulated: SimulatedTorch) -> None:
    """Host memory of memory that is freed is used by the next pause."""
    simulated.run("""
with amem.region("weights"):
    weights = of(8 * MIB)
with amem.region("others"):
    others = [of(8 * MIB) for _ in range(4)]
write(weights, 1)
amem.pause("weights")
copy = amem.backup(weights)
del weights
gc.collect()
torch.cuda.empty_cache()
for seed, tensor in enumerate(others):
    write(tensor, seed + 2)
amem.pause("others")
expect(holds(copy, 1), "the copy")
amem.resume()
del copy
torch.cuda.empty_cache()
expect("weights" not in amem.stats()["tags"], "the tensor ends with its copy")
""")


@pytest.mark.parametrize("wait, setting", [("2", "0"), ("None", "2000")])
def test_resume_that_empties_the_cache_does_not_wait_twice(simulated: SimulatedTorch, wait: str, setting: str) -> None:
    simulated.run(f"""
import threading, time
with amem.region("weights"):
    weights = of(2000 * MIB)
amem.pause("weights")
block, small = of(3000 * MIB), of(100 * MIB)
threading.Timer(1, globals().pop, ["small"]).start()
ends, call = [], amem.session.call


def noted(name, *arguments):
    try:
        call(name, *arguments)
    finally:
        ends.append(time.monotonic())


amem.session.call, began = noted, time.monotonic()
try:
    amem.resume("weights", wait={wait})
except amem.OutOfMemory as error:
    expect(ends[0] - began >= 2 and len(ends) == 2, "waits, and tries again without the cache")
    expect(ends[1] - ends[0] < 1.5, f"{{ends[1] - ends[0]}} s more")
else:
    sys.exit("2000 MiB fit beside 3000 of 4096")
""", AMEM_RESUME_WAIT_MS=setting)


def test_pauses_work_with_an_allocator_that_says_nothing_of_its_memory(simulated: SimulatedTorch) -> None:
    """change_current_allocator(), as with RMM: PyTorch has no statistics then."""
    simulated.run("""
import ctypes
runtime = ctypes.CDLL(os.environ["LD_PRELOAD"])


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
def allocate(size, device, stream):
    pointer = ctypes.c_void_p()
    return None if runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)) else pointer.value


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
def release(pointer, size, device, stream):
    runtime.cudaFree(ctypes.c_void_p(pointer))


functions = [ctypes.cast(function, ctypes.c_void_p).value for function in (allocate, release)]
allocator = torch._C._cuda_customAllocator(*functions)
torch.cuda.memory.change_current_allocator(torch.cuda.memory._CUDAAllocator(allocator))
tensor = of(30 * MIB)
write(tensor, 1)
try:
    with amem.region("weights"):
        of(MIB)
except amem.AmemError as error:
    expect("change_current_allocator()" in str(error), error)
else:
    sys.exit("a region with an allocator that has no pools")
left = free()
for _ in range(3):
    amem.pause()
    expect(free() - left >= 30 * MIB, "it has left")
    amem.resume()
    expect(holds(tensor, 1), "contents")
expect(not amem.torch_cache.empty_cache(), "before a safe point nothing is known of its cache")
expect(len(amem.report()) == 1, "the owners of the memory")
del tensor
""", AMEM_TENSORS="job")
