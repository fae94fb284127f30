# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Retained weights under PyTorch on one GPU: contents over pauses between which none, some and all of them change, and the time
of a pause beside that of a region without retain.

python3 tests/gpu/torch_retained.py [--tensors 300] [--mib 48] [--cycles 7] [--limit-ms MS]

Exit code 0 if all of it is right, and if the median pause of unchanged weights takes at most --limit-ms (0: any time).
"""

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import torch

import amem

MIB = 1 << 20
PAGE = 64 << 10


def expect(condition: Any, what: str) -> None:
    if not condition:
        raise SystemExit(f"wrong: {what}")


def weights(tag: str, retain: bool, count: int, size_bytes: int) -> Any:
    with amem.region(tag, retain=retain):
        return [torch.randint(0, 2**31, (size_bytes // 8,), device="cuda") for _ in range(count)]


def cycles(tag: str, tensors: Any, count: int, change: Callable[[Any, int], None]) -> list[amem.Report]:
    """Reports of pauses, before each of which `change` has written. Contents are compared after each resume."""
    reports = []
    for cycle in range(count):
        change(tensors, cycle)
        sums = torch.stack([(tensor * torch.arange(1, tensor.numel() + 1, device="cuda")).sum() for tensor in tensors]).tolist()
        torch.cuda.synchronize()
        reports.append(amem.pause(tag))
        # What another program leaves in the memory must not stay.
        other = torch.full((512 * MIB,), 0xEE, dtype=torch.uint8, device="cuda")
        del other
        torch.cuda.empty_cache()
        amem.resume(tag)
        found = torch.stack([(tensor * torch.arange(1, tensor.numel() + 1, device="cuda")).sum() for tensor in tensors]).tolist()
        expect(found == sums, f"contents of {tag} after cycle {cycle}")
    return reports


def nothing(_tensors: Any, _cycle: int) -> None:
    pass


def one_page_each(tensors: Any, cycle: int) -> None:
    for number, tensor in enumerate(tensors):
        at = (cycle * 7919 + number * 104729) % (tensor.numel() // (PAGE // 8))
        tensor[at * (PAGE // 8) + cycle] += 1


def everything(tensors: Any, _cycle: int) -> None:
    for tensor in tensors:
        tensor.add_(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("--tensors", 300), ("--mib", 48), ("--cycles", 7), ("--limit-ms", 0)):
        parser.add_argument(name, type=int, default=default)
    options = parser.parse_args()
    size_bytes = options.mib * MIB
    total = options.tensors * size_bytes

    def row(name: str, reports: list[amem.Report]) -> float:
        times = [1e3 * report.seconds for report in reports]
        median = statistics.median(times)
        last = reports[-1]
        print(
            f"{name}: {options.tensors} tensors of {options.mib} MiB, pause {median:.1f} ms ({min(times):.1f} to {max(times):.1f}), "
            f"{last.copied_bytes >> 20} MiB copied, {last.unchanged_bytes >> 20} MiB unchanged"
        )
        return median

    print(torch.cuda.get_device_name())
    plain = weights("plain", False, options.tensors, size_bytes)
    cycles("plain", plain, 1, nothing)
    row("without retain", cycles("plain", plain, options.cycles, nothing))
    del plain
    torch.cuda.empty_cache()
    amem.trim_host_memory()

    retained = weights("weights", True, options.tensors, size_bytes)
    row("first pause", cycles("weights", retained, 1, nothing))
    reports = cycles("weights", retained, options.cycles, nothing)
    expect(all(report.copied_bytes == 0 and report.unchanged_bytes >= total for report in reports), f"unchanged: {reports}")
    unchanged_ms = row("unchanged", reports)
    reports = cycles("weights", retained, options.cycles, one_page_each)
    expect(all(report.copied_bytes == options.tensors * PAGE for report in reports), f"one page each: {reports}")
    row("one page of each changed", reports)
    reports = cycles("weights", retained, options.cycles, everything)
    expect(all(report.copied_bytes >= total for report in reports), f"all changed: {reports}")
    row("all changed", reports)
    expect(options.limit_ms == 0 or unchanged_ms <= options.limit_ms, f"{unchanged_ms:.1f} ms is more than {options.limit_ms}")


if __name__ == "__main__":
    main()
