# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The interface of torch_memory_saver under PyTorch on one GPU, as AMEM_TMS=1 gives it to a program that imports it.

Exit code 0 if regions, backups, a captured graph, disable() and backups on disk are right.
"""

import site
import tempfile
from pathlib import Path
from typing import Any

# As Python does for an installed package: runs the line of amem_tms.pth.
site.addsitedir(str(Path(__file__).resolve().parents[2] / "python"))

import torch
import torch_memory_saver
from torch_memory_saver import torch_memory_saver as saver

import amem

MIB = 1 << 20
SIZE = 64 * MIB  # of each tensor


def free_bytes() -> int:
    torch.cuda.synchronize()
    return int(torch.cuda.mem_get_info()[0])


def expect(condition: Any, what: str) -> None:
    if not condition:
        raise SystemExit(f"wrong: {what}")


def filled(value: Any) -> Any:
    return torch.full((SIZE,), value, dtype=torch.uint8, device="cuda")


def random_numbers() -> Any:
    return torch.randint(0, 2**31, (SIZE // 8,), device="cuda")


def pause(tag: str, tensors: Any = 1) -> None:
    """Pauses, and expects that the memory of this many tensors is free then, less what CUDA takes at a first pause."""
    before = free_bytes()
    saver.pause(tag)
    gain = free_bytes() - before
    expect(gain >= SIZE * tensors - 4 * MIB, f"a pause of {tag} freed {gain} bytes")


def tags_and_backups() -> None:
    with saver.region(tag="weights", enable_cpu_backup=True):
        weights = random_numbers()
    with saver.region(tag="kv_cache"):
        cache = filled(3)
    copy, addresses = weights.cpu(), (weights.data_ptr(), cache.data_ptr())
    for cycle in range(3):
        pause("kv_cache")
        expect(torch.equal(weights.cpu(), copy), "weights while the cache is paused")
        pause("weights")
        saver.pause("weights")
        saver.pause("unknown")
        expect(torch.equal(saver.get_cpu_backup(weights), copy), "the backup of a paused tensor")
        expect(torch.equal(saver.get_cpu_backup(weights, zero_copy=True), copy), "the backup without a copy")
        expect(saver.get_cpu_backup(cache) is None, "a discarded tensor has a backup")
        saver.resume("weights")
        expect(torch.equal(weights.cpu(), copy), "weights after a resume")
        weights.add_(1)
        copy = weights.cpu()
        saver.resume("kv_cache")
        cache.fill_(cycle)
        expect(bool((cache == cycle).all()), "the cache after a resume")
    expect(saver.get_cpu_backup(weights) is None, "a tensor that is not paused has a backup")
    expect(addresses == (weights.data_ptr(), cache.data_ptr()), "addresses")
    saver.pause()
    expect(amem.state("weights") == amem.state("kv_cache") == "paused", "a pause of all tags")
    saver.resume()
    expect(torch.equal(weights.cpu(), copy), "weights after a resume of all tags")


def captured_graph() -> None:
    with saver.region(tag="weights", enable_cpu_backup=True):
        weight = torch.randn(SIZE // 4, device="cuda")
    x = torch.randn(SIZE // 4, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            torch.relu(x * weight) + x
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with saver.cuda_graph(graph, tag="cuda_graph"):
        out = torch.relu(x * weight) + x
    graph.replay()
    wanted = out.clone()
    for _ in range(3):
        before = free_bytes()
        saver.pause("cuda_graph")
        gain = free_bytes() - before
        expect(gain >= 0.99 * SIZE, f"a pause of the graph's memory freed {gain} bytes")
        saver.pause("weights")
        expect(amem.stats()["tags"]["cuda_graph"]["resident_bytes"] == 0, "the graph's memory stayed")
        saver.resume("weights")
        saver.resume("cuda_graph")
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        expect(torch.equal(out, wanted), "a replay after a resume")


def disabled_in_a_region() -> None:
    with saver.region(tag="outer", enable_cpu_backup=True):
        inside = filled(1)
        with saver.disable():
            outside = filled(2)
        after = filled(3)
    allocated = amem.stats()["tags"]["outer"]["allocated_bytes"]
    expect(2 * SIZE <= allocated < 3 * SIZE, f"{allocated} bytes have the tag")
    pause("outer", tensors=2)
    expect(bool((outside == 2).all()), "memory inside disable() was paused")
    saver.resume("outer")
    expect(bool((inside == 1).all()) and bool((after == 3).all()), "memory beside disable()")


def retained_backup() -> None:
    with saver.region(tag="retained", enable_cpu_backup=True):
        tensor = random_numbers()
    copy = tensor.cpu()
    saver.retain_cpu_backup = True
    pause("retained")
    saver.resume("retained")
    tensor.add_(1)
    expect(torch.equal(saver.get_cpu_backup(tensor), copy), "the backup after a resume")
    saver.retain_cpu_backup = False
    pause("retained")
    saver.resume("retained")
    expect(torch.equal(tensor.cpu(), copy + 1), "contents without retained backups")


def backup_on_disk() -> None:
    with tempfile.TemporaryDirectory() as directory:
        saver.set_disk_backup_dir(directory)
        with saver.region(tag="optimizer", enable_disk_backup=True):
            states = random_numbers()
        copy = states.cpu()
        pause("optimizer")
        expect(torch.equal(saver.get_cpu_backup(states), copy), "the backup on disk")
        saver.resume("optimizer")
        expect(torch.equal(states.cpu(), copy), "contents from the disk")


def main() -> None:
    expect(torch_memory_saver.__name__ == "amem.torch_memory_saver", f"this is {torch_memory_saver}")
    torch.cuda.init()
    failed = []
    for check in (tags_and_backups, captured_graph, disabled_in_a_region, retained_backup, backup_on_disk):
        try:
            check()
            print("ok", check.__name__, flush=True)
        except (SystemExit, RuntimeError) as error:
            failed.append(f"wrong: {check.__name__}: {str(error).removeprefix('wrong: ')}")
    if failed:
        raise SystemExit("\n".join(failed))
    print("result: the interface of torch_memory_saver is right")


main()
