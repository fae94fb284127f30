# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""One rank of a job that a launcher has started, on the simulated GPU: a collective, a pause, a resume, the collective,
and amem pause and amem resume of the ranks with the same parent.

  job.py FOLDER    the ranks meet in this folder

Rank and number of ranks are those that the launcher has set. Prints "rank R of N: right" and the launcher's host name.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests"))

# Before `import amem`, which would load the library too.
WAS_PRELOADED = "/libamem_nccl.so" in Path("/proc/self/maps").read_text()

import amem  # noqa: E402
from rank_job import NCCL, Rank, UniqueId, check  # noqa: E402

PATIENCE_S = 60
# torchrun, Open MPI, Slurm
VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)


def rank_and_ranks() -> tuple[int, int]:
    for rank, ranks in VARIABLES:
        if rank in os.environ:
            return int(os.environ[rank]), int(os.environ[ranks])
    raise SystemExit("no launcher has set a rank")


def wait_for(path: Path, who: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise SystemExit(f"{who} has not come")
        time.sleep(0.01)  # allow: between two looks, under a deadline


def meet(folder: Path, rank: int) -> UniqueId:
    """The unique id that rank 0 has made."""
    import ctypes

    path = folder / "unique_id"
    if rank == 0:
        unique_id = UniqueId()
        check(ctypes.CDLL(NCCL).ncclGetUniqueId(ctypes.byref(unique_id)), "ncclGetUniqueId")
        (folder / "new").write_bytes(bytes(unique_id))
        (folder / "new").rename(path)
    wait_for(path, "rank 0")
    return UniqueId.from_buffer_copy(path.read_bytes())


def pause_from_outside(folder: Path, rank: int) -> None:
    """Rank 0 has commands pause and resume its job, while all ranks make safe points."""
    with open(folder / f"parent_{os.getppid()}", "a", encoding="utf-8") as siblings:
        siblings.write(f"{rank}\n")
    if rank == 0:
        amem_pause = f"amem pause --pid {os.getpid()} >{folder}/moved && amem resume --pid {os.getpid()} >>{folder}/moved"
        subprocess.Popen(["sh", "-c", f"({amem_pause}); touch {folder}/end"])
    while not (folder / "end").exists():
        amem.safe_point()
    if rank == 0:
        moved = (folder / "moved").read_text()
        expected = len((folder / f"parent_{os.getppid()}").read_text().split())
        if (moved.count("MiB released"), moved.count("MiB restored")) != (expected, expected):
            raise SystemExit(f"{expected} ranks have one parent, and amem pause has said: {moved}")


def run(folder: Path, rank: int, ranks: int) -> str:
    """What the rank prints."""
    process = Rank(rank, ranks, meet(folder, rank))
    wanted = [ranks * (ranks + 1) / 2]
    for turn in range(2):
        found = process.reduce()
        if found != wanted:
            raise SystemExit(f"rank {rank}: {found} instead of {wanted}")
        if turn == 0:
            released = amem.pause().released_bytes
            if released == 0 or amem.state() != "paused":
                raise SystemExit(f"rank {rank}: {released} bytes released, {amem.state()}")
            # Otherwise a rank could start the next collective before another one pauses.
            (folder / f"paused_{rank}").touch()
            for other in range(ranks):
                wait_for(folder / f"paused_{other}", f"rank {other}")
            amem.resume()
    pause_from_outside(folder, rank)
    if process.reduce() != wanted:
        raise SystemExit(f"rank {rank}: another result after amem pause")
    return f"rank {rank} of {ranks}: right"


if __name__ == "__main__":
    if not WAS_PRELOADED:
        raise SystemExit("the launcher has not passed on the variables of amem")
    print(run(Path(sys.argv[1]), *rank_and_ranks()), flush=True)
