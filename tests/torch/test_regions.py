# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Regions in programs as people write them, with the real PyTorch: nothing grows, ordinary memory never has a tag, and what
fits without a region fits with one."""

from pathlib import Path

import pytest

from conftest import EXPANDABLE, HEAD, SimulatedTorch

SMALL = """
import random
random.seed(1)


def small_tensors(count):
    tensors = [of(random.randint(1, 9) * 100003) for _ in range(count)]
    random.shuffle(tensors)
    return tensors
"""


@pytest.mark.parametrize("settings", ["", "roundup_power2_divisions:4", "expandable_segments:True"])
def test_pauses_do_not_grow(simulated: SimulatedTorch, settings: str) -> None:
    simulated.run(EXPANDABLE + SMALL + """
with amem.region("weights"):
    tensors = small_tensors(300)
    del tensors[::2]
    odd = [of(3000) for _ in range(4)]
    del odd[1]
    large = of(3 * MIB)
for seed, tensor in enumerate(tensors[:20]):
    write(tensor, seed)
reserved, left = torch.cuda.memory_reserved(), free()
for _ in range(100):
    amem.pause("weights")
    amem.resume("weights")
expect(torch.cuda.memory_reserved() == reserved, f"{torch.cuda.memory_reserved()} bytes reserved, not {reserved}")
expect(abs(free() - left) <= 2 * MIB, f"{free()} bytes free, not {left}")
expect(all(holds(tensor, seed) for seed, tensor in enumerate(tensors[:20])), "contents")
print(f"{reserved} bytes reserved before and after 100 pauses, {(left - free()) // MIB} MiB less free")
""", PYTORCH_CUDA_ALLOC_CONF=settings)


def test_regions_of_a_paused_tag_do_not_grow(simulated: SimulatedTorch) -> None:
    simulated.run("""
with amem.region("weights"):
    first = of(5 * MIB)
write(first, 1)


def cycle():
    amem.pause("weights")
    with amem.region("weights"):
        tensor = of(30 * MIB)
    write(tensor[: 3 * MIB], 2)
    amem.resume("weights")
    expect(holds(tensor[: 3 * MIB], 2) and holds(first, 1), "contents")


cycle()
reserved, left = torch.cuda.memory_reserved(), free()
for _ in range(40):
    cycle()
expect(torch.cuda.memory_reserved() == reserved, f"{torch.cuda.memory_reserved()} bytes reserved, not {reserved}")
expect(free() >= left - 2 * MIB, f"{free()} bytes free, not {left}")
print(f"{reserved // MIB} MiB reserved after 1 and 41 cycles, {(left - free()) // MIB} MiB less free")
""")


def test_regions_of_a_loop_take_what_they_take_in_pytorch(simulated: SimulatedTorch) -> None:
    """Each frees what the one before has allocated."""
    simulated.run("""
first = of(MIB)
for _ in range(10):
    with amem.region("weights"):
        weights = of(100 * MIB)
reserved = torch.cuda.memory_reserved() // MIB
expect(reserved <= 2 + 3 * 100, f"{reserved} MiB are reserved for 100 in use")
""")


def test_device_that_is_first_used_in_a_region_has_ordinary_memory(simulated: SimulatedTorch) -> None:
    simulated.run("""
first = of(MIB)
with amem.region("weights"):
    inside = of(3 * MIB, "cuda:1")
    del inside
later = [of(3 * MIB, "cuda:1") for _ in range(4)]
amem.pause("weights")
for seed, tensor in enumerate(later):
    write(tensor, seed)
expect(all(holds(tensor, seed) for seed, tensor in enumerate(later)), "contents while the tag is paused")
amem.resume("weights")
""")


def test_own_pool_of_the_program_stays_ordinary(simulated: SimulatedTorch) -> None:
    simulated.run("""
pool = torch.cuda.MemPool()
with amem.region("weights"):
    weights = of(3 * MIB)
    with torch.cuda.use_mem_pool(pool):
        mine = of(300000)
with torch.cuda.use_mem_pool(pool):
    later = of(300000)
write(weights, 3)
amem.pause("weights")
write(mine, 1)
write(later, 2)
expect(holds(mine, 1) and holds(later, 2), "contents while the tag is paused")
amem.resume("weights")
expect(holds(weights, 3), "weights")
""")


def test_graph_that_is_captured_in_a_region_stays_ordinary(simulated: SimulatedTorch) -> None:
    simulated.run("""
source = of(5 * MIB)
write(source, 1)
graph = torch.cuda.CUDAGraph()
with amem.region("weights"):
    with torch.cuda.graph(graph):
        out = of(5 * MIB)
        out.copy_(source)
amem.pause("weights")
graph.replay()
expect(holds(out, 1), "a replay while the tag is paused")
amem.resume("weights")
""")


def test_layers_converted_one_by_one_take_what_they_take_in_pytorch(simulated: SimulatedTorch) -> None:
    simulated.run("""
first = of(MIB)
before, live = free(), []
with amem.region("weights"):
    for _ in range(8):
        old, new = of(64 * MIB), of(68 * MIB)
        live.append(new)
        del old, new
gc.collect()
torch.cuda.empty_cache()
held = (before - free()) // MIB
expect(544 <= held <= 612, f"{held} MiB are held of 544 live")
del live
gc.collect()
torch.cuda.empty_cache()
expect(abs(free() - before) <= 2 * MIB, f"{before - free()} bytes are held after deletion")
print(f"{held} MiB held of 544 live, {(before - free()) // MIB} after deletion")
""")


def test_loader_threads_take_what_they_take_in_pytorch(simulated: SimulatedTorch) -> None:
    simulated.run("""
import threading
first = of(MIB)
before, reserved, live = free(), torch.cuda.memory_reserved(), []


def load():
    with amem.region("weights"):
        for _ in range(4):
            old, new = of(64 * MIB), of(68 * MIB)
            live.append(new)
            del old, new


threads = [threading.Thread(target=load) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
torch.cuda.empty_cache()
held = (before - free()) // MIB
expect(16 * 68 <= held <= 17 * 68, f"{held} MiB are held of {16 * 68} live")
live.clear()
gc.collect()
torch.cuda.empty_cache()
expect(abs(free() - before) <= 2 * MIB and torch.cuda.memory_reserved() == reserved, f"{before - free()} bytes are held after deletion")
print(f"{held} MiB held of {16 * 68} live in threads, {(before - free()) // MIB} after deletion")
""")


@pytest.mark.parametrize("blocks, size, device", [(5, 2000, 0), (2, 3000, 1), (1, 3800, 0)])
def test_region_fits_beside_a_cache_of_free_blocks(simulated: SimulatedTorch, blocks: str, size: str, device: str) -> None:
    """On the current device, or on another one."""
    simulated.run(f"""
def region_of(size):
    blocks = [of(600 * MIB, "cuda:{device}") for _ in range({blocks})]
    del blocks
    with amem.region("weights"):
        weights = of(size * MIB, "cuda:{device}")


region_of({size})
region_of(20)
region_of(20)
region_of({size} if {size} > 3000 else 20)
print("{size} MiB fit beside a cache of {blocks * 600} MiB in 4096")
""")


def test_ordinary_memory_fits_beside_freed_memory_of_a_region(simulated: SimulatedTorch) -> None:
    simulated.run("""
first = of(MIB)
with amem.region("weights"):
    weights = of(3000 * MIB)
del weights
ordinary = of(3000 * MIB)
print("3000 MiB fit after 3000 MiB of a region in 4096")
""")


@pytest.mark.parametrize("size", [1200, 100])
def test_region_fits_beside_freed_memory_of_other_tags(simulated: SimulatedTorch, size: str) -> None:
    simulated.run(f"""
for tag in ("weights", "kv_cache", "adapters"):
    with amem.region(tag, backup=None):
        tensor = of({size} * MIB)
    del tensor
with amem.region("others"):
    other = of(4000 * MIB)
print("4000 MiB fit after {size} MiB of each of three other tags in 4096")
""")


def test_resume_empties_the_programs_own_cache(simulated: SimulatedTorch) -> None:
    simulated.run("""
with amem.region("weights"):
    weights = of(2000 * MIB)
write(weights[: 5 * MIB], 1)
amem.pause("weights")
block = of(3000 * MIB)
del block
amem.resume("weights")
expect(holds(weights[: 5 * MIB], 1), "weights")
print("a resume of 2000 MiB beside a cache of 3000 in 4096")
""")


def test_error_of_a_resume_names_what_the_process_itself_holds(simulated: SimulatedTorch) -> None:
    simulated.run("""
with amem.region("weights"):
    weights = of(2000 * MIB)
amem.pause("weights")
block = of(3000 * MIB)
try:
    amem.resume("weights")
except amem.AmemError as error:
    expect("PyTorch" in str(error), f"{error} names PyTorch's memory")
else:
    sys.exit("2000 MiB fit beside 3000 of 4096")
del block
amem.resume("weights")
""")


def test_interleaved_regions_end_their_own(simulated: SimulatedTorch) -> None:
    simulated.run("""
import contextlib


def weights():
    with amem.region("weights"):
        first = of(3 * MIB)
        yield
        second = of(3 * MIB)
        yield first, second


def cache():
    with amem.region("kv_cache", backup=None):
        first = of(3 * MIB)
        yield
        second = of(3 * MIB)
        yield first, second


try:
    one, other = weights(), cache()
    next(one), next(other)
    tensors = next(one)
    next(other)
    one.close()
    other.close()
except (amem.AmemError, RuntimeError) as error:
    print("refused:", error)
    sys.exit(0)
for seed, tensor in enumerate(tensors):
    write(tensor, seed)
amem.pause()
amem.resume()
expect(all(holds(tensor, seed) for seed, tensor in enumerate(tensors)), "weights are kept")
print("weights are kept")
""")


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_children_of_a_launcher_can_use_cuda(simulated: SimulatedTorch, tmp_path: Path, method: str) -> None:
    program = tmp_path / "launcher.py"
    program.write_text(f"""
import multiprocessing
import sys

import torch

import amem


def child():
    tensor = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    tensor.copy_(torch.ones(1 << 20, dtype=torch.uint8))
    sys.exit(0 if int(tensor.cpu().sum()) == 1 << 20 else 1)


if __name__ == "__main__":
    with amem.region("weights"):
        pass
    with amem.disable():
        pass
    amem.pause()
    amem.resume()
    amem.stats()
    context = multiprocessing.get_context({method!r})
    process = context.Process(target=child)
    process.start()
    process.join(100)
    print({method!r}, "with exit code", process.exitcode)
    sys.exit(process.exitcode)
""")
    simulated.script(program)


def test_tensors_of_a_region_are_sent_to_another_process(simulated: SimulatedTorch, tmp_path: Path) -> None:
    program = tmp_path / "sender.py"
    program.write_text(HEAD + """
import torch.multiprocessing as multiprocessing


def receiver(tensors, wanted, seen):
    received = tensors.get()
    for seeds in iter(wanted.get, None):
        seen.put([holds(tensor, seed) for tensor, seed in zip(received, seeds)])


if __name__ == "__main__":
    with amem.region("weights"):
        sent = [of(5 * MIB), of(1000), of(3000)]
    context = multiprocessing.get_context("spawn")
    tensors, wanted, seen = context.Queue(), context.Queue(), context.Queue()
    process = context.Process(target=receiver, args=(tensors, wanted, seen))
    process.start()
    tensors.put(sent)
    for step in range(3):
        seeds = [step, step + 10, step + 20]
        for tensor, seed in zip(sent, seeds):
            write(tensor, seed)
        torch.cuda.synchronize()
        wanted.put(seeds)
        expect(seen.get(timeout=100) == [True] * 3, "the receiver sees what the sender has written")
        before = free()
        amem.pause("weights")
        expect(free() > before, "the memory leaves, although another process has it")
        amem.resume("weights")
        wanted.put(seeds)
        expect(seen.get(timeout=100) == [True] * 3, "the receiver sees it after the resume")
    wanted.put(None)
    process.join(100)
    sys.exit(process.exitcode)
""")
    simulated.script(program)


def test_region_without_the_native_allocator_says_why(simulated: SimulatedTorch) -> None:
    simulated.run("""
try:
    with amem.region("weights"):
        of(MIB)
except (amem.AmemError, RuntimeError) as error:
    expect("cudaMallocAsync" in str(error) and "amem" in type(error).__module__, f"a sentence of amem: {error!r}")
    print(error)
else:
    expect(False, "an error")
""", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")


def test_settings_that_the_program_changes_inside_a_region_are_kept(simulated: SimulatedTorch) -> None:
    simulated.run("""
change = getattr(torch.cuda.memory, "_set_allocator_settings", None) or torch._C._accelerator_setAllocatorSettings
with amem.region("weights"):
    first = of(30 * MIB)
    change("expandable_segments:True")
    if torch.__version__ >= (2, 10):
        second = of(30 * MIB)
""" + EXPANDABLE + """
plain = of(30 * MIB)
write(first, 1), write(second, 2), write(plain, 3)
left = free()
amem.pause("weights")
expect(free() - left >= 50 * MIB and holds(plain, 3), "both have left")
amem.resume("weights")
expect(holds(first, 1) and holds(second, 2), "contents")
expect(torch.cuda.memory._snapshot()["allocator_settings"]["expandable_segments"], "the setting")
""")


def test_paused_memory_counts_for_the_fraction_of_the_process(simulated: SimulatedTorch) -> None:
    simulated.run("""
first = of(MIB)
torch.cuda.set_per_process_memory_fraction(200 * MIB / torch.cuda.get_device_properties(0).total_memory)
with amem.region("weights"):
    weights = of(150 * MIB)
write(weights[: 3 * MIB], 1)
left = free()
amem.pause("weights")
expect(free() - left >= 140 * MIB, "it has left")
try:
    of(150 * MIB)
    expect(False, "PyTorch's limit")
except torch.OutOfMemoryError:
    pass
small = of(30 * MIB)
amem.resume("weights")
expect(holds(weights[: 3 * MIB], 1), "contents")
print("PyTorch counts 150 MiB that have left")
""")


@pytest.mark.parametrize("threads, warns", [(False, True), (True, False)])
def test_region_says_when_other_threads_allocate_more(simulated: SimulatedTorch, threads: bool, warns: bool) -> None:
    """As transformers 5 loads weights. Less than 64 MiB, or less than the region has, is not said; and a tag once."""
    simulated.run(f"""
import concurrent.futures, logging
said = []
handler = logging.Handler()
handler.emit = lambda record: said.append(record.getMessage())
logging.getLogger("amem").addHandler(handler)
def load(tag, own, others):
    with amem.region(tag, threads={threads}), concurrent.futures.ThreadPoolExecutor(1) as pool:
        return of(own * MIB), pool.submit(of, others * MIB).result()
kept = [load("little", 2, 60), load("more", 130, 120), load("weights", 2, 120), load("weights", 2, 120)]
wanted = ["The region 'weights' has got 20 MiB of memory; meanwhile PyTorch has reserved 120 MiB outside it on device 0, for other "
          "threads, which amem.region(..., threads=True) covers, or for pools of the program"]
expect(said == (wanted if {warns} else []), said)
# What another region has, inside this one or in another thread, is not said.
with amem.region("outer", threads={threads}), amem.region("inner"):
    kept.append(of(100 * MIB))
with amem.region("around"), amem.disable():
    kept.append(of(100 * MIB))
expect(len(said) == {int(warns)}, said)
""", AMEM_SIM_MEMORY_MB="2048")


@pytest.mark.parametrize("other", ["amem.region('weights')", "amem.cuda_graph(graph, tag='weights')"])
def test_region_of_all_threads_does_not_get_the_memory_of_another_region(simulated: SimulatedTorch, other: str) -> None:
    """PyTorch would route the other thread's allocations to it."""
    simulated.run(f"""
import concurrent.futures, threading
first, is_open, end, graph = of(MIB), threading.Event(), threading.Event(), torch.cuda.CUDAGraph()


def load():
    with {other}:
        is_open.set(), end.wait(100)
        return of(3 * MIB)


with concurrent.futures.ThreadPoolExecutor(1) as pool:
    loaded = pool.submit(load)
    is_open.wait(100)
    try:
        with amem.region("kv_cache", backup=None, threads=True):
            end.set()
            loaded.result()
    except amem.AmemError as error:
        expect("another thread has an open region" in str(error), error)
    end.set()
    weights = loaded.result()
write(weights, 1)
amem.pause(), amem.resume()
expect(holds(weights, 1), "weights are kept")
with amem.region("kv_cache", backup=None, threads=True):  # the other thread's has ended
    of(3 * MIB)
""")
