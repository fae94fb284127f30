# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Contents in a file, on disks that fail: a thin device that runs full, a deadline that is shorter than the reading, a file
that another program modifies. No word of 4 GiB may differ.

torch_disks.py [--mib 4096]. The thin device is an ext4 file system in a sparse file on a tmpfs: it needs root and a loop device.
"""

import argparse
import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import amem

MIB = 1 << 20


def expect(holds: Any, what: str) -> None:
    if not holds:
        raise SystemExit(f"not so: {what}")
    print(f"{what}: right", flush=True)


@contextlib.contextmanager
def thin_device(folder: Path, size_mib: int, promised_mib: int) -> Any:
    """A mounted file system of `promised_mib` on `size_mib`; None where this machine lets nobody mount."""
    below, above = folder / "below", folder / "above"
    below.mkdir()
    above.mkdir()
    image = below / "image"
    steps = [
        ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "none", str(below)],
        ["truncate", "-s", f"{promised_mib}m", str(image)],
        ["mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=1", str(image)],
        ["mount", "-o", "loop", str(image), str(above)],
    ]
    try:
        for step in steps:
            done = subprocess.run(step, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                print(f"no thin device: {' '.join(step)}: {done.stderr.strip()}", flush=True)
                yield None
                return
        yield above
    finally:
        for place in (above, below):
            subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)


def backup_file_of(folder: Path) -> Any:
    """The nameless file of this process in the folder, through /proc."""
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if os.readlink(link).startswith(str(folder)) and "(deleted)" in os.readlink(link):
                return link
    raise SystemExit(f"no backup file in {folder}")


def failing(call: Callable[[], Any]) -> str | None:
    try:
        call()
    except amem.AmemError as error:
        return str(error)
    return None


def full_disk(weights: Any, expected: Any, folder: Path, mib: int) -> None:
    with thin_device(folder, mib // 2, mib * 2) as device:
        if device is None:
            return
        amem.set_backup_directory(str(device))
        text = failing(lambda: amem.pause("weights"))
        print(f"full disk: {text}", flush=True)
        expect(text is not None, "a pause onto a disk that runs full fails")
        amem.resume("weights")
        expect(torch.equal(weights.cpu(), expected), "contents after a pause onto a full disk")
        amem.set_backup_directory(str(folder))


def short_deadlines(weights: Any, expected: Any, folder: Path) -> None:
    start = time.monotonic()
    amem.pause("weights", timeout=300)
    paused_s = time.monotonic() - start
    failures = 0
    start = time.monotonic()
    while (text := failing(lambda: amem.resume("weights", timeout=0.3))) is not None:
        failures += 1
        if failures == 1:
            print(f"short deadline: {text}", flush=True)
            expect(str(folder) in text and "/s" in text, "the error names the disk and the rate")
        expect(failures < 200, f"resume {failures} goes on where the last one ended")
    resumed_s = time.monotonic() - start
    print(f"result: pause {paused_s:.2f} s, resume {resumed_s:.2f} s in {failures + 1} calls of 0.3 s", flush=True)
    expect(torch.equal(weights.cpu(), expected), "contents after resumes that ran out of time")


def modified_file(weights: Any, expected: Any, folder: Path) -> None:
    amem.pause("weights", timeout=300)
    descriptor = os.open(backup_file_of(folder), os.O_RDWR)
    offset = os.fstat(descriptor).st_size // 2
    before = os.pread(descriptor, 1, offset)
    os.pwrite(descriptor, bytes([before[0] ^ 1]), offset)
    text = failing(lambda: amem.resume("weights", timeout=300))
    print(f"modified: {text}", flush=True)
    expect(text is not None and amem.state("weights") == "paused", "a resume from a modified file fails")
    os.pwrite(descriptor, before, offset)
    os.close(descriptor)
    amem.resume("weights", timeout=300)
    expect(torch.equal(weights.cpu(), expected), "contents when the file is as it was")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=4096)
    mib = parser.parse_args().mib
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        amem.set_backup_directory(str(folder))
        with amem.region("weights", backup="disk"):
            weights = torch.randint(0, 1 << 30, (mib * MIB // 4,), dtype=torch.int32, device="cuda")
        expected = weights.cpu()
        full_disk(weights, expected, folder, mib)
        short_deadlines(weights, expected, folder)
        modified_file(weights, expected, folder)


if __name__ == "__main__":
    main()
