# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Starts the ranks of a PyTorch job on one GPU, or on fewer GPUs than ranks, as torchrun does on one GPU for each rank.

one_gpu.py [--ranks 2] [--gpus 1] [--shared] script.py [arguments]

NCCL refuses two ranks of a host on one GPU. NCCL_HOSTID tells it of as many hosts as there are ranks, so they connect by
sockets over the loopback interface. With --shared they stay ranks of one host and connect by P2P, which needs NCCL 2.30.3
(NCCL_MULTI_RANK_GPU_ENABLE). Ends with the first exit code that is not 0.
"""

import argparse
import os
import socket
import subprocess
import sys
import time

_GRACE_S = 20


def variables_of(rank: int, ranks: int, gpus: int, port: int, shared: bool) -> dict[str, str]:
    """What torch.distributed and NCCL of one rank read."""
    network = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1", "GLOO_SOCKET_IFNAME": "lo"}
    place = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"} if shared else {"NCCL_HOSTID": f"host{rank}"}
    ranked = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank % gpus, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return {**os.environ, **network, **place, **{name: str(value) for name, value in ranked.items()}}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(children: list[subprocess.Popen[bytes]]) -> int:
    """The first exit code that is not 0, or 0. The others of a failed job have a moment to end."""
    until: float | None = None
    try:
        while True:
            codes = [child.poll() for child in children]
            failed = [code for code in codes if code not in (None, 0)]
            if None not in codes:
                return failed[0] if failed else 0
            if failed and until is None:
                until = time.monotonic() + _GRACE_S
            if until is not None and time.monotonic() > until:
                return failed[0]
            time.sleep(0.1)  # allow: asks several processes in turn
    finally:
        for child in children:
            child.kill()
            child.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--gpus", type=int, default=1, help="the GPUs that the ranks share")
    parser.add_argument("--shared", action="store_true", help="one host, P2P")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    port = free_port()
    command = [sys.executable, *options.command]
    places = [variables_of(rank, options.ranks, options.gpus, port, options.shared) for rank in range(options.ranks)]
    return wait_for([subprocess.Popen(command, env=place) for place in places])


if __name__ == "__main__":
    sys.exit(main())
