# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Programs of torch_memory_saver with AMEM_TMS=1 and the real PyTorch."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import HEAD, ROOT, SimulatedTorch

# A pool of PyTorch does not end, so what is freed in it does not return to the device.
# As in a process that has the wheel.
START = (ROOT / "python" / "amem_tms.pth").read_text()
USE = START + HEAD + """
import ctypes
import torch_memory_saver
from torch_memory_saver import torch_memory_saver as saver


def cdll():
    saver._ensure_initialized()
    return saver._impl._binary_wrapper.cdll


def fail_to(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__
"""


@pytest.fixture
def run(simulated: SimulatedTorch) -> Callable[..., str]:
    return lambda code, **settings: simulated.script("-c", USE + code, AMEM_TMS="1", **settings)


def test_pause_and_resume_by_tag(run: Callable[..., str]) -> None:
    run("""
with saver.region(tag="weights", enable_cpu_backup=True):
    weights = of(40 * MIB)
with saver.region(tag="kv_cache"):
    cache = of(60 * MIB)
ordinary = of(3 * MIB)
write(weights, 1), write(ordinary, 2)
before, address = free(), weights.data_ptr()
saver.pause("kv_cache")
expect(free() - before >= 60 * MIB, "the cache has left")
expect(holds(weights, 1), "weights are there")
saver.pause("weights")
expect(free() - before >= 100 * MIB, "the weights have left")
expect(holds(saver.get_cpu_backup(weights), 1) and holds(ordinary, 2), "copies")
saver.resume("weights")
expect(holds(weights, 1) and weights.data_ptr() == address, "weights are back")
expect(saver.get_cpu_backup(weights) is None, "the copy has left")
saver.resume()
write(cache, 3)
expect(holds(cache, 3) and free() == before, "the cache is back")
""")


@pytest.mark.parametrize("hook_mode", ["preload", "torch"])
def test_functions_of_the_library_are_found_in_subprocesses(simulated: SimulatedTorch, tmp_path: Path, hook_mode: str) -> None:
    """configure_subprocess() preloads a library; without it the process finds them too."""
    program = tmp_path / "launcher.py"
    program.write_text(USE.replace("import amem\n", "", 1) + f"""
import multiprocessing


def child():
    saver.hook_mode = {hook_mode!r}
    saver._ensure_initialized()
    functions = ctypes.CDLL(None)
    with saver.region("weights", enable_cpu_backup=True):
        weights = of(8 * MIB)
    write(weights, 1)
    expect(functions.tms_pause(b"weights") == 0 and amem.state("weights") == "paused", "paused")
    expect(functions.tms_resume(None) == 0 and holds(weights, 1), "resumed")
    preloaded = [path for path in os.environ["LD_PRELOAD"].split(":") if "torch_memory_saver" in path]
    expect(len(preloaded) == {1 if hook_mode == "preload" else 0}, preloaded)


if __name__ == "__main__":
    with torch_memory_saver.configure_subprocess() if {hook_mode!r} == "preload" else contextlib.nullcontext():
        process = multiprocessing.get_context("spawn").Process(target=child)
        process.start()
    process.join(100)
    sys.exit(process.exitcode)
""".replace("import multiprocessing", "import multiprocessing\nimport amem"))
    simulated.script(program, AMEM_TMS="1")


def test_pool_of_the_program_with_the_librarys_allocator(run: Callable[..., str]) -> None:
    """HookUtilModeTorch: memory has the tag of the region in which PyTorch allocates it."""
    run("""
from torch_memory_saver.hooks.base import HookUtilBase
saver._ensure_initialized()
hook = HookUtilBase.create("torch")  # before PyTorch 2.11 a pool keeps no reference to its allocator
pool = torch.cuda.MemPool(hook.get_allocator())
with saver._impl._with_region_config(tag="own", enable_cpu_backup=True), torch.cuda.use_mem_pool(pool):
    tensor = of(30 * MIB)
write(tensor, 1)
before = free()
saver.pause("own")
expect(free() - before >= 30 * MIB, "it has left")
saver.resume("own")
expect(holds(tensor, 1), "it is back")
del tensor
del pool
torch.cuda.empty_cache()
expect(free() - before >= 30 * MIB, "it is freed")
""")


def test_settings_route_pytorchs_memory(run: Callable[..., str]) -> None:
    """As slime does around DeepEP's buffers, and for a tag inside an open region."""
    run("""
with saver.region("weights", enable_cpu_backup=True):
    weights = of(20 * MIB)
    cdll().tms_set_interesting_region(False)
    outside = of(20 * MIB)
    cdll().tms_set_interesting_region(True)
    cdll().tms_set_current_tag(b"layer")
    layer = of(20 * MIB)
    cdll().tms_set_current_tag(b"weights")
    more = of(20 * MIB)
write(outside, 1), write(layer, 2), write(weights, 3), write(more, 4)
before = free()
saver.pause("weights")
expect(40 * MIB <= free() - before < 60 * MIB, f"{free() - before} bytes left")
expect(holds(outside, 1) and holds(layer, 2), "they are there")
saver.pause("layer")
expect(60 * MIB <= free() - before < 80 * MIB and holds(outside, 1), "the layer has left")
saver.resume()
expect(holds(weights, 3) and holds(more, 4) and holds(layer, 2), "all are back")
""")


def test_disable_returns_its_memory_at_its_end(run: Callable[..., str]) -> None:
    run("""
weights = of(100 * MIB)
write(weights, 1)
saver.pause()
before = free()
for _ in range(3):
    with saver.disable():
        tensor = of(500 * MIB)
        other = of(300000)
        expect(before - free() >= 500 * MIB, "it is on the GPU")
        del tensor, other
    expect(abs(free() - before) <= 2 * MIB, f"{before - free()} bytes are held after disable()")
saver.resume()
expect(holds(weights, 1), "weights")
""", TMS_INIT_ENABLE="1", TMS_INIT_ENABLE_CPU_BACKUP="1")


def test_tensor_of_disable_outlives_it(run: Callable[..., str]) -> None:
    run("""
with saver.region("weights", enable_cpu_backup=True):
    weights = of(5 * MIB)
    with saver.disable():
        outside = of(30 * MIB)
write(outside, 1), write(weights, 2)
saver.pause("weights")
expect(holds(outside, 1), "it is there while the tag is paused")
saver.resume()
del outside
torch.cuda.empty_cache()
expect(holds(weights, 2), "weights")
""")


@pytest.mark.parametrize("paused", [False, True])
def test_host_memory_leaves_with_its_tensor(run: Callable[..., str], paused: str) -> None:
    """The program retains copies, and frees a tensor: resumed, or paused."""
    run(f"""
with saver.region("weights", enable_cpu_backup=True):
    weights = of(5 * MIB)
write(weights, 1)
saver.retain_cpu_backup = True
saver.pause("weights")
copy = saver.get_cpu_backup(weights, zero_copy=True)
expect(holds(copy, 1), "copy")
if not {paused}:
    saver.resume("weights")
held = amem.stats()["times"]["host_capacity_bytes"]
expect(held > 0, "the copy is in pinned memory")
del copy
saver._impl._mem_pools.pop(("weights", True, False, "pinned", 0))
with saver._impl._with_region_config(tag="weights", enable_cpu_backup=True):
    del weights
    gc.collect()
    torch.cuda.empty_cache()
held = amem.stats()["times"]["host_capacity_bytes"]
expect(held == 0, f"{{held}} bytes are pinned")
""")


def test_host_memory_leaves_after_a_resume_with_mmap(run: Callable[..., str]) -> None:
    run("""
with saver.region("weights", enable_cpu_backup=True, cpu_backup_backend="mmap"):
    weights = of(100 * MIB)
write(weights, 1)
for _ in range(2):
    saver.pause()
    expect(amem.stats()["times"]["host_capacity_bytes"] >= 100 * MIB, "the copy")
    saver.resume()
    expect(holds(weights, 1) and amem.stats()["times"]["host_capacity_bytes"] == 0, "it has left")
""")


def test_backup_files_have_names_and_leave(run: Callable[..., str], tmp_path: Path) -> None:
    run(f"""
folder = {str(tmp_path / "backups")!r}
saver.set_disk_backup_dir(folder)
with saver.region("weights", enable_disk_backup=True):
    large, small = of(40 * MIB), of(7000)
write(large, 1), write(small, 2)
sizes = set()
for _ in range(3):
    saver.pause("weights")
    names = os.listdir(folder)
    expect(len(names) == 2, f"a file for each allocation of the driver: {{names}}")
    sizes.add(sum(os.path.getsize(os.path.join(folder, name)) for name in names))
    saver.resume("weights")
    expect(holds(large, 1) and holds(small, 2) and not os.listdir(folder), "contents")
expect(len(sizes) == 1 and min(sizes) >= 40 * MIB, sizes)
""")


def test_threads_have_settings_of_their_own(run: Callable[..., str]) -> None:
    run("""
import threading
torch.cuda.init()
tensors = {}


def load(number):
    with saver.region(f"part{number}", enable_cpu_backup=True):
        barrier.wait()
        tensors[number] = of(10 * MIB)
        barrier.wait()
        seen[number] = cdll().tms_get_current_tag()


barrier, seen = threading.Barrier(3), {}
saver._ensure_initialized()
threads = [threading.Thread(target=load, args=(number,)) for number in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
expect(seen == {0: b"part0", 1: b"part1", 2: b"part2"}, seen)
[write(tensors[number], number) for number in range(3)]
before = free()
saver.pause("part1")
expect(10 * MIB <= free() - before < 20 * MIB, f"{free() - before} bytes left")
expect(holds(tensors[0], 0) and holds(tensors[2], 2), "others are there")
saver.resume()
expect(holds(tensors[1], 1), "it is back")
""")


def test_nothing_of_the_interface_initializes_cuda(run: Callable[..., str]) -> None:
    """Before a fork, for example."""
    run("""
saver.hook_mode = "preload"
from torch_memory_saver.testing_utils import get_device
get_device(), saver.enabled, saver.retain_cpu_backup
cdll().tms_set_current_tag(b"weights"), cdll().tms_get_interesting_region()
saver.pause(), saver.resume()
with torch_memory_saver.configure_subprocess():
    pass
expect(not torch.cuda.is_initialized(), "CUDA is not initialized")
""")


def test_errors_are_those_of_the_original(run: Callable[..., str]) -> None:
    printed = run("""
def opened(**how):
    with saver.region(**how):
        pass
print(fail_to(lambda: opened(cpu_backup_backend="mmap")), fail_to(lambda: opened(enable_cpu_backup=True, cpu_backup_backend="zfs")))
torch.version.hip = "6.2.0"
print(fail_to(lambda: opened(enable_cpu_backup=True, cpu_backup_backend="mmap")))
print(fail_to(lambda: saver.memory_margin_bytes), fail_to(lambda: saver.hook_mode))
""")
    assert re.findall(r"\w+", printed) == ["ValueError"] * 3 + ["NotImplementedError", "AttributeError"]


def test_graph_has_the_tag(run: Callable[..., str]) -> None:
    run("""
source = of(5 * MIB)
graph = torch.cuda.CUDAGraph()
with saver.cuda_graph(graph, pool=torch.cuda.graph_pool_handle(), tag="graphs", enable_cpu_backup=True):
    out = of(5 * MIB)
    with amem.region("inner"):
        more = of(5 * MIB)
    out.copy_(source)
write(source, 1)
saver.pause("graphs")
expect(amem.stats()["tags"]["graphs"]["released_bytes"] >= 10 * MIB, "memory of the graph leaves")
expect("inner" not in amem.stats()["tags"], "a region inside a capture has no effect")
saver.resume("graphs")
graph.replay()
expect(holds(out, 1), "a replay after the resume")
""")


@pytest.mark.parametrize("settings", ["expandable_segments:True", ""])
def test_expandable_segments_of_the_whole_process_leave(run: Callable[..., str], settings: str) -> None:
    run("""
tensor, small, freed = of(40 * MIB), of(1000), of(60 * MIB)
write(tensor, 1)
write(small, 2)
left = free()
for _ in range(3):
    saver.pause()
    expect(free() - left >= 102 * MIB, f"{(free() - left) // MIB} MiB are back")
    saver.resume()
    expect(free() == left and holds(tensor, 1) and holds(small, 2), "all are as before")
del freed
torch.cuda.empty_cache()
expect(free() - left == 60 * MIB, "PyTorch returns what is free")
with amem.disable():
    other = of(20 * MIB)
saver.pause()
write(other, 3)
del tensor
torch.cuda.empty_cache()
saver.resume()
expect(holds(small, 2) and holds(other, 3), "memory that is freed while paused")
""", TMS_INIT_ENABLE="1", TMS_INIT_ENABLE_CPU_BACKUP="1", PYTORCH_CUDA_ALLOC_CONF=settings)


def test_pauses_of_the_whole_process_do_not_grow(run: Callable[..., str]) -> None:
    run("""
tensors = [of(size * 100003) for size in (1, 9, 3, 40, 7, 2, 60, 5) * 8]
del tensors[::2]
for seed, tensor in enumerate(tensors):
    write(tensor, seed)
reserved, left = torch.cuda.memory_reserved(), free()
for _ in range(30):
    saver.pause()
    saver.resume()
expect(torch.cuda.memory_reserved() == reserved and abs(free() - left) <= 2 * MIB, "no growth")
expect(all(holds(tensor, seed) for seed, tensor in enumerate(tensors)), "contents")
""", TMS_INIT_ENABLE="1", TMS_INIT_ENABLE_CPU_BACKUP="1")
