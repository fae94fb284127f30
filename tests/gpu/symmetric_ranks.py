# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Every kernel of amem's symmetric memory in two ranks, with their results checked: amem_rank, which COMMAND starts.

symmetric_ranks.py AMEM_RANK [COMMAND, such as compute-sanitizer --tool memcheck --error-exitcode 9]
"""

import contextlib
import os
import subprocess
import sys
import tempfile

RANKS, TIMEOUT_MS = 2, 120_000
_OF_SANITIZER = "========="


def orders_of(rank: int, folder: str) -> dict[str, str]:
    """What a rank is told, and what it answers."""
    peer = 1 - rank
    return {
        f"device {rank}": "",
        f"sym_malloc b {4 << 20}": "",
        f"sym_meet h b {folder}/h {rank} {RANKS}": "",
        # One vector, odd numbers of them, and both kinds of all-reduce: 27 results for each size.
        "sym_collectives h 16 48 2064 131072 131088 200016": "162",
        f"sym_put h {peer} 3 {TIMEOUT_MS}": "",
        f"sym_wait h {peer} 3 {TIMEOUT_MS}": "",
        f"sym_write h {peer} 4711": "",
        f"sym_barrier h 0 {TIMEOUT_MS}": "",
        "sym_read b": "4711",
        "sym_pad h clear": "0",
        f"sym_barrier h 1 {TIMEOUT_MS}": "",
        "sym_destroy h": "",
        "sym_free b": "",
    }


def check(rank: int, code: int, output: str, orders: dict[str, str]) -> str:
    """What was wrong with a rank."""
    said = [line for line in output.splitlines() if not line.startswith(_OF_SANITIZER)]
    print("\n".join(line for line in output.splitlines() if line.startswith(_OF_SANITIZER)), flush=True)
    for (order, wanted), answer in zip(orders.items(), [*said, *["no answer"] * len(orders)]):
        if not answer.startswith("ok") or (wanted and answer != f"ok {wanted}"):
            return f"rank {rank}: {order}: {answer}"
    return f"rank {rank}: exit code {code}" if code else ""


def main() -> int:
    rank_program, starter = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory(prefix="amem-ranks-") as folder:
        orders = [orders_of(rank, folder) for rank in range(RANKS)]
        variables, pipe = {**os.environ, "AMEM_ENABLE": "1"}, subprocess.PIPE
        command = [*starter, rank_program]
        ranks = [subprocess.Popen(command, env=variables, stdin=pipe, stdout=pipe, text=True) for _ in orders]
        for each, told in zip(ranks, orders):
            with contextlib.suppress(BrokenPipeError):  # it has ended: the answers are missing
                each.stdin.write("\n".join([*told, "exit", ""]))
                each.stdin.flush()
        outputs = [each.communicate()[0] for each in ranks]
    wrong = [check(rank, ranks[rank].returncode, outputs[rank], orders[rank]) for rank in range(RANKS)]
    print("\n".join(filter(None, wrong)) or "result: all kernels, two ranks: right results", flush=True)
    return 1 if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
