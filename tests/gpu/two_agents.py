# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Starts a PyTorch job on two nodes that are this host: two torchrun agents, which meet by c10d at localhost.

two_agents.py [--ranks-per-node 1] [--gpus 2] script.py [arguments]

NCCL_HOSTID tells NCCL of two hosts, which it connects by sockets. Where the user may make mount namespaces, each node also
has a /dev/shm of its own, so that amem cannot reach the other node. Ends with the first exit code that is not 0.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile

from one_gpu import free_port, wait_for

NODES = 2
NETWORK = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1", "GLOO_SOCKET_IFNAME": "lo"}


def can_separate() -> bool:
    test = ["unshare", "--mount", "true"]
    try:
        return subprocess.run(test, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def separated(command: list[str], folder: str) -> list[str]:
    """The command with this folder as its /dev/shm."""
    script = f"mount --bind {shlex.quote(folder)} /dev/shm && exec {shlex.join(command)}"
    return ["unshare", "--mount", "sh", "-c", script]


def agent(port: int, ranks_per_node: int) -> list[str]:
    """c10d would have the ranks meet at the host's name, which may have no address."""
    return [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(NODES), "--nproc-per-node",
            str(ranks_per_node), "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}",
            "--rdzv-id", f"nodes-{port}", "--local-addr", "127.0.0.1"]


def variables_of(node: int, ranks: int, gpus: int) -> dict[str, str]:
    own = ",".join(str((node * ranks + rank) % gpus) for rank in range(ranks))
    return {**os.environ, **NETWORK, "NCCL_HOSTID": f"node{node}", "CUDA_VISIBLE_DEVICES": own}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks-per-node", type=int, default=1)
    parser.add_argument("--gpus", type=int, default=2, help="the nodes have their GPUs in turn")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = [*agent(free_port(), options.ranks_per_node), *options.command]
    is_separate = can_separate()
    print("each node has", "a /dev/shm of its own" if is_separate else "the /dev/shm of this host", flush=True)
    with tempfile.TemporaryDirectory(prefix="amem-nodes-") as folder:
        children = []
        for node in range(NODES):
            os.mkdir(f"{folder}/{node}")
            words = separated(command, f"{folder}/{node}") if is_separate else command
            variables = variables_of(node, options.ranks_per_node, options.gpus)
            children.append(subprocess.Popen(words, env=variables))
        return wait_for(children)


if __name__ == "__main__":
    sys.exit(main())
