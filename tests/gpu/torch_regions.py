# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Regions under PyTorch on one GPU: addresses, contents, graphs, free memory. Exit code 0 if all of it is right."""

import os
import tempfile
import threading
from typing import Any

import torch

import amem

MIB = 1 << 20


def free_bytes() -> int:
    torch.cuda.synchronize()
    return int(torch.cuda.mem_get_info()[0])


def expect(condition: Any, what: str) -> None:
    if not condition:
        raise SystemExit(f"wrong: {what}")


def random_tensors(count: Any, size_bytes: int) -> Any:
    return [torch.randint(0, 2**31, (size_bytes // 8,), device="cuda") for _ in range(count)]


def contents_and_addresses() -> None:
    with amem.region("weights"):
        weights = random_tensors(20, 50 * MIB)
    with amem.region("kv_cache", backup=None):
        cache = [torch.full((256 * MIB,), 3, dtype=torch.uint8, device="cuda") for _ in range(4)]
    sums = [int(tensor.sum()) for tensor in weights]
    addresses = [tensor.data_ptr() for tensor in weights + cache]
    before = free_bytes()
    for cycle in range(3):
        report = amem.pause("weights", "kv_cache")
        gain = free_bytes() - before
        expect(gain >= 0.99 * (20 * 50 + 4 * 256) * MIB, f"a pause freed {gain} bytes")
        expect(report.resident_bytes == 0, f"after a pause {report}")
        # Document 003: weights first, an update, then the cache.
        amem.resume("weights")
        expect([int(tensor.sum()) for tensor in weights] == sums, "contents of weights")
        for tensor in weights:
            tensor.add_(1)
        sums = [int(tensor.sum()) for tensor in weights]
        amem.resume("kv_cache")
        for tensor in cache:
            tensor.fill_(cycle)
    expect(addresses == [tensor.data_ptr() for tensor in weights + cache], "addresses")
    expect(free_bytes() >= before - 64 * MIB, "memory grew over cycles")


def on_disk() -> None:
    with tempfile.TemporaryDirectory() as directory:
        amem.set_backup_directory(directory)
        with amem.region("optimizer", backup="disk"):
            states = random_tensors(8, 128 * MIB)
        sums = [int(tensor.sum()) for tensor in states]
        before = free_bytes()
        for _ in range(2):
            out = amem.pause("optimizer")
            expect(free_bytes() - before >= 0.99 * 1024 * MIB, "a pause to the disk freed too little")
            copy = amem.backup(states[3])
            expect(not os.listdir(directory), "a backup file has a name")
            back = amem.resume("optimizer")
            expect([int(tensor.sum()) for tensor in states] == sums, "contents from the disk")
            expect(bool((copy == states[3].cpu()).all()), "a backup on the disk")
        print(f"1 GiB to the disk {out.seconds:.3f} s, back {back.seconds:.3f} s")


def free_blocks_are_not_copied() -> None:
    with amem.region("holes"):
        tensors = random_tensors(64, 4 * MIB)
    kept = tensors[::8]
    sums = [int(tensor.sum()) for tensor in kept]
    del tensors
    report = amem.pause("holes")
    expect(report.copied_bytes <= 1.02 * 8 * 4 * MIB, f"free blocks were copied: {report}")
    amem.resume("holes")
    expect([int(tensor.sum()) for tensor in kept] == sums, "contents beside free blocks")


def freed_while_paused() -> None:
    with amem.region("mixed"):
        tensors = random_tensors(16, 4 * MIB)
    sums = [int(tensor.sum()) for tensor in tensors[::2]]
    amem.pause("mixed")
    kept = tensors[::2]
    del tensors
    amem.pause("mixed")  # the free blocks have no memory now
    with amem.region("mixed"):
        new = torch.full((4 * MIB,), 9, dtype=torch.uint8, device="cuda")
    expect(bool((new == 9).all()), "memory that is allocated with a paused tag")
    amem.resume("mixed")
    expect([int(tensor.sum()) for tensor in kept] == sums, "contents beside tensors that were freed while paused")
    amem.pause("mixed")
    amem.resume("mixed")
    expect([int(tensor.sum()) for tensor in kept] == sums and bool((new == 9).all()), "contents after another pause")


def backup_on_the_host() -> None:
    with amem.region("kept"):
        full = random_tensors(1, 64 * MIB)[0]
        half = torch.zeros(64 * MIB, dtype=torch.uint8, device="cuda")  # pages that are zero are not kept
    half[: 32 * MIB].fill_(7)
    copies = [tensor.cpu() for tensor in (full, half)]
    try:
        amem.backup(full)
        expect(False, "a tensor that is not paused has a backup")
    except amem.AmemError as error:
        print("refused:", error)
    amem.pause("kept")
    for tensor, copy in zip((full, half), copies):
        expect(torch.equal(amem.backup(tensor), copy), "a backup of a paused tensor")
        expect(torch.equal(amem.backup(tensor, copy=True), copy), "a copied backup of a paused tensor")
    amem.resume("kept")
    expect(all(torch.equal(tensor.cpu(), copy) for tensor, copy in zip((full, half), copies)), "contents after backups")


def disabled_in_a_region() -> None:
    with amem.region("outer"):
        inside = torch.full((64 * MIB,), 1, dtype=torch.uint8, device="cuda")
        free = torch.empty_like(inside)
        del free  # a free block of the tag, which memory inside disable() must not use
        with amem.disable():
            outside = torch.full((64 * MIB,), 2, dtype=torch.uint8, device="cuda")
        after = torch.full((64 * MIB,), 3, dtype=torch.uint8, device="cuda")
    allocated = amem.stats()["tags"]["outer"]["allocated_bytes"]
    expect(128 * MIB <= allocated < 192 * MIB, f"{allocated} bytes have the tag")
    amem.pause("outer")
    expect(amem.stats()["tags"]["outer"]["resident_bytes"] == 0, "memory of the region stayed")
    expect(bool((outside == 2).all()), "memory inside disable() was paused")
    amem.resume("outer")
    expect(bool((inside == 1).all()) and bool((after == 3).all()), "memory beside disable()")


def zeroed() -> None:
    with amem.region("zeroed", backup="zero"):
        tensor = torch.full((64 * MIB,), 5, dtype=torch.uint8, device="cuda")
    for _ in range(2):
        before = free_bytes()
        amem.pause("zeroed")
        expect(free_bytes() - before >= 0.99 * 64 * MIB, "a pause of zeroed memory freed too little")
        amem.resume("zeroed")
        expect(bool((tensor == 0).all()), "zeroed memory after a resume")
        tensor.fill_(6)


def unknown_tag() -> None:
    with amem.region("known"):
        tensor = torch.full((64 * MIB,), 4, dtype=torch.uint8, device="cuda")
    before = free_bytes()
    report = amem.pause("unknown")
    expect(report.released_bytes == 0 and free_bytes() - before < MIB, f"a pause of an unknown tag: {report}")
    expect(amem.state("known") == "active" and bool((tensor == 4).all()), "another tag was paused")
    amem.resume("unknown")


def graphs() -> None:
    with amem.region("weights"):
        weight = torch.randn(2048, 2048, device="cuda")
    x = torch.randn(512, 2048, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            torch.relu(x @ weight) @ weight
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with amem.cuda_graph(graph, tag="cuda_graph"):
        with amem.region("other"):  # the graph's tag counts
            hidden = torch.relu(x @ weight)
        out = hidden @ weight
    graph.replay()
    wanted = out.clone()
    tags = amem.stats()["tags"]
    expect(tags["cuda_graph"]["allocated_bytes"] > 0, "memory of the graph has no tag")
    expect("other" not in tags, "a region inside a capture had an effect")
    for _ in range(3):
        amem.pause("cuda_graph", "weights")
        expect(amem.stats()["tags"]["cuda_graph"]["resident_bytes"] == 0, "the graph's memory stayed")
        amem.resume("cuda_graph", "weights")
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        expect(torch.equal(out, wanted), "replay after a resume")


def threads() -> None:
    results = []

    def work(tag: str) -> None:
        with amem.region(tag):
            results.append((tag, torch.full((8 * MIB,), len(tag), dtype=torch.uint8, device="cuda")))

    workers = [threading.Thread(target=work, args=("t" * (1 + i % 3),)) for i in range(12)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    with amem.region("backward", threads=True):
        x = torch.randn(1024, 1024, device="cuda", requires_grad=True)
        (x @ x).sum().backward()
    amem.pause("t", "tt", "ttt", "backward")
    amem.resume()
    expect(all(bool((tensor == len(tag)).all()) for tag, tensor in results), "memory of threads")
    expect(x.grad is not None and bool(torch.isfinite(x.grad).all()), "gradients")


def out_of_memory() -> None:
    with amem.region("big", backup=None):
        big = torch.empty(int(free_bytes() * 0.6), dtype=torch.uint8, device="cuda")
    amem.pause("big")
    other = torch.empty(int(free_bytes() * 0.8), dtype=torch.uint8, device="cuda")
    try:
        amem.resume("big")
        expect(False, "a resume without room succeeded")
    except amem.AmemError as error:
        print("refused:", error)
    expect(amem.state("big") == "paused", "the tag is not paused after a failed resume")
    del other
    torch.cuda.empty_cache()
    amem.resume("big")
    big.fill_(1)
    torch.cuda.synchronize()
    with amem.region("big", backup=None):
        try:
            torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
            expect(False, "an allocation of a petabyte succeeded")
        except torch.OutOfMemoryError:
            pass


CHECKS = (
    contents_and_addresses,
    on_disk,
    backup_on_the_host,
    free_blocks_are_not_copied,
    freed_while_paused,
    disabled_in_a_region,
    zeroed,
    unknown_tag,
    graphs,
    threads,
    out_of_memory,
)


def main() -> None:
    torch.cuda.init()
    failed = []
    for check in CHECKS:
        try:
            check()
            print("ok", check.__name__, flush=True)
        except (SystemExit, RuntimeError) as error:
            failed.append(f"wrong: {check.__name__}: {str(error).removeprefix('wrong: ')}")
    if failed:
        raise SystemExit("\n".join(failed))
    settings = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "the default settings")
    print(f"result: regions under PyTorch with {settings} are right")


main()
