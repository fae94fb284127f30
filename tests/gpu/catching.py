# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""How amem catches a stock NCCL that a program opens by itself: two ranks that call it by ctypes.

catching.py MODE --nccl libnccl.so.2 --amem libamem_nccl.so [--shared]

ordinary      amem first: a pause succeeds
late          a communicator first: every pause is refused, all calls go on
pointer       work by a function whose address was taken before amem came: every later pause is refused
non_blocking  communicators with blocking=0, one of them split in a group: a pause succeeds

On GPUs the ranks share GPU 0, as one_gpu.py starts them; simulated ones have a device each.
"""

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RANKS = 2
COUNT = 100000
FLOAT32, SUM = 7, 0
IN_PROGRESS, INVALID_USAGE = 7, 5
LATE = "amem was loaded after NCCL had been initialized"
UNGATED = "NCCL work was started by a call that does not pass amem's gate"
DEADLINE_S = 60


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Config(ctypes.Structure):
    """ncclConfig_t as NCCL 2.17 had it, non-blocking."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        *((name, ctypes.c_int) for name in ("blocking", "cga_cluster_size", "min_ctas", "max_ctas")),
        ("net_name", ctypes.c_char_p),
        ("split_share", ctypes.c_int),
    ]

    def __init__(self) -> None:
        unset = -(1 << 31)
        super().__init__(ctypes.sizeof(Config), 0xCAFEBEEF, 21701, 0, unset, unset, unset, None, unset)


class Gpu:
    """A buffer of COUNT floats."""

    def __init__(self, device: int) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.context, self.address = ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuInit", 0)
        count = ctypes.c_int(0)
        self.call("cuDeviceGetCount", ctypes.byref(count))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device % count.value)
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(COUNT * 4))

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.cuda, name)(*arguments)
        assert code == 0, f"{name} returned {code}"

    def fill(self, value: float) -> None:
        values = (ctypes.c_float * COUNT)(*([value] * COUNT))
        self.call("cuMemcpyHtoD_v2", self.address, values, ctypes.c_size_t(COUNT * 4))

    def values(self) -> set[float]:
        self.call("cuCtxSynchronize")
        values = (ctypes.c_float * COUNT)()
        self.call("cuMemcpyDtoH_v2", values, self.address, ctypes.c_size_t(COUNT * 4))
        return set(values)


class Nccl:
    """NCCL's functions, looked up at every call unless they were kept."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.kept = ctypes.CDLL(path)
        # The address as the symbol has it now; a later CDLL looks it up again.
        self.kept_all_reduce = self.kept.ncclAllReduce

    def call(self, name: str, *arguments: object) -> int:
        return int(getattr(ctypes.CDLL(self.path), name)(*arguments))


class Amem:
    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        self.library.amemGetLastError.restype = ctypes.c_char_p
        self.library.amemEnable()

    def pause(self) -> tuple[int, str]:
        code = self.library.ncclPause(None)
        return code, self.library.amemGetLastError().decode() if code else ""

    def expect_cycle(self) -> None:
        assert (said := self.pause()) == (0, ""), said
        code = self.library.ncclResume(None)
        assert code == 0, self.library.amemGetLastError().decode()

    def expect_refusal(self, text: str) -> None:
        code, said = self.pause()
        assert code == INVALID_USAGE and text in said, (code, said)
        print(f"refused: {said}", flush=True)


class Rank:
    def __init__(self, rank: int, folder: Path, nccl: Nccl) -> None:
        self.rank, self.folder, self.nccl = rank, folder, nccl
        self.gpu = Gpu(rank)
        self.comms: list[ctypes.c_void_p] = []

    def unique_id(self, name: str) -> UniqueId:
        """Made by rank 0, read by the others."""
        path, unique_id = self.folder / name, UniqueId()
        if self.rank == 0:
            assert self.nccl.call("ncclGetUniqueId", ctypes.byref(unique_id)) == 0
            path.with_suffix(".new").write_bytes(bytes(unique_id))
            path.with_suffix(".new").rename(path)
        self.wait_until(path.exists)
        return UniqueId.from_buffer_copy(path.read_bytes())

    @staticmethod
    def wait_until(holds: Any) -> None:
        until = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < until, "waited too long"
            time.sleep(0.001)  # allow: asks a file or NCCL, which announce nothing

    def meet(self, name: str) -> None:
        """Returns when every rank is here."""
        (self.folder / f"{name}.{self.rank}").touch()
        self.wait_until(lambda: all((self.folder / f"{name}.{rank}").exists() for rank in range(RANKS)))

    def settled(self, comm: ctypes.c_void_p) -> None:
        """Waits until a non-blocking communicator has ended what it was doing."""
        state = ctypes.c_int(IN_PROGRESS)

        def has_ended() -> bool:
            assert self.nccl.call("ncclCommGetAsyncError", comm, ctypes.byref(state)) == 0
            return state.value != IN_PROGRESS

        self.wait_until(has_ended)
        assert state.value == 0, f"the communicator has failed with {state.value}"

    def make(self, name: str) -> ctypes.c_void_p:
        comm = ctypes.c_void_p()
        code = self.nccl.call("ncclCommInitRank", ctypes.byref(comm), RANKS, self.unique_id(name), self.rank)
        assert code == 0, f"ncclCommInitRank returned {code}"
        self.comms.append(comm)
        return comm

    def make_non_blocking(self, name: str) -> ctypes.c_void_p:
        comm, config = ctypes.c_void_p(), Config()
        call = "ncclCommInitRankConfig"
        code = self.nccl.call(call, ctypes.byref(comm), RANKS, self.unique_id(name), self.rank, ctypes.byref(config))
        assert code in (0, IN_PROGRESS), f"{call} returned {code}"
        self.settled(comm)
        self.comms.append(comm)
        return comm

    def split_in_group(self, parent: ctypes.c_void_p) -> ctypes.c_void_p:
        child, config = ctypes.c_void_p(), Config()
        assert self.nccl.call("ncclGroupStart") == 0
        code = self.nccl.call("ncclCommSplit", parent, 0, self.rank, ctypes.byref(child), ctypes.byref(config))
        assert code in (0, IN_PROGRESS), f"ncclCommSplit returned {code}"
        code = self.nccl.call("ncclGroupEnd")
        assert code in (0, IN_PROGRESS), f"ncclGroupEnd returned {code}"
        self.settled(parent)
        self.wait_until(lambda: child.value)
        self.settled(child)
        self.comms.append(child)
        return child

    def all_reduce(self, comm: ctypes.c_void_p, function: Callable[..., Any] | None = None) -> None:
        """The sum of 1 and 2."""
        self.gpu.fill(self.rank + 1.0)
        address, count = ctypes.c_void_p(self.gpu.address.value), ctypes.c_size_t(COUNT)
        arguments = (address, address, count, FLOAT32, SUM, comm, ctypes.c_void_p(0))
        code = function(*arguments) if function else self.nccl.call("ncclAllReduce", *arguments)
        assert code in (0, IN_PROGRESS), f"ncclAllReduce returned {code}"
        if code == IN_PROGRESS:
            self.settled(comm)
        values = self.gpu.values()
        assert values == {3.0}, f"sums {sorted(values)[:5]}"

    def end(self) -> None:
        for comm in self.comms:
            self.nccl.call("ncclCommAbort", comm)


def ordinary(rank: Rank, amem: Amem) -> None:
    comms = [rank.make("world"), rank.make("second")]
    for cycle in range(3):
        for comm in comms:
            rank.all_reduce(comm)
        rank.meet(f"before{cycle}")
        amem.expect_cycle()
        rank.meet(f"after{cycle}")
    for comm in comms:
        rank.all_reduce(comm)


def late(rank: Rank, path: str) -> None:
    comm = rank.make("world")
    rank.all_reduce(comm)
    amem = Amem(path)
    for _ in range(2):
        amem.expect_refusal(LATE)
        rank.all_reduce(comm)
    second = rank.make("second")
    rank.all_reduce(second)
    amem.expect_refusal(LATE)


def pointer(rank: Rank, amem: Amem) -> None:
    comm = rank.make("world")
    rank.all_reduce(comm)
    rank.meet("before")
    amem.expect_cycle()
    rank.meet("after")
    rank.all_reduce(comm, rank.nccl.kept_all_reduce)
    rank.meet("ungated")
    for _ in range(2):
        amem.expect_refusal(UNGATED)
    rank.all_reduce(comm)


def non_blocking(rank: Rank, amem: Amem) -> None:
    comms = [rank.make_non_blocking("world")]
    rank.all_reduce(comms[0])
    comms.append(rank.split_in_group(comms[0]))
    comms.append(rank.split_in_group(comms[1]))
    for cycle in range(3):
        for comm in comms:
            rank.all_reduce(comm)
        rank.meet(f"before{cycle}")
        amem.expect_cycle()
        rank.meet(f"after{cycle}")
    for comm in comms:
        rank.all_reduce(comm)


MODES: dict[str, Callable[..., None]] = {"ordinary": ordinary, "late": late, "pointer": pointer, "non_blocking": non_blocking}


def run_rank(options: argparse.Namespace) -> None:
    nccl = Nccl(options.nccl)
    amem = options.amem if options.mode == "late" else Amem(options.amem)
    rank = Rank(options.rank, Path(options.folder), nccl)
    MODES[options.mode](rank, amem)
    rank.meet("end")
    rank.end()
    print(f"rank {options.rank}: {options.mode}: ok", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--nccl", required=True)
    parser.add_argument("--amem", required=True, help="libamem_nccl.so")
    parser.add_argument("--shared", action="store_true", help="one host, P2P: needs NCCL 2.30.3")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is not None:
        run_rank(options)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(RANKS):
            place = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"} if options.shared else {"NCCL_HOSTID": f"host{rank}"}
            network = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket"}
            command = [sys.executable, __file__, *sys.argv[1:], "--rank", str(rank), "--folder", folder]
            children.append(subprocess.Popen(command, env={**os.environ, **network, **place}))
        until = time.monotonic() + DEADLINE_S
        while any(child.poll() is None for child in children) and time.monotonic() < until:
            if any(child.poll() not in (None, 0) for child in children):
                until = min(until, time.monotonic() + 5)
            time.sleep(0.05)  # allow: asks two processes in turn
        for child in children:
            child.kill()
        codes = [child.wait() for child in children]
    print(f"result: {options.mode} {'ok' if codes == [0] * RANKS else f'failed: {codes}'}", flush=True)
    return int(codes != [0] * RANKS)


if __name__ == "__main__":
    sys.exit(main())
