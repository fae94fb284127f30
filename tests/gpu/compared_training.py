# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A training with pauses and the same one without, whose results must be the same to the last bit."""

import argparse
import hashlib
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


def expect(condition: Any, what: str) -> None:
    if not condition:
        raise SystemExit(f"wrong: {what}")


def digest(tensors: Any) -> str:
    """Of the bytes of all of them."""
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return found.hexdigest()


def begin(doc: str, modes: Any) -> Any:
    """Reads the arguments and makes PyTorch deterministic, on the GPU of this rank."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=modes)
    parser.add_argument("--no-pauses", action="store_true", help="two trainings without amem, to compare")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # of a deterministic cuBLAS
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return parser.parse_args()


def of_all_ranks(found: Any, gloo_group: Any) -> Any:
    gathered = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, found, group=gloo_group)
    return gathered


def train_twice(options: Any, trained: Callable[..., Any], gloo_group: Any, least_bytes: int) -> None:
    """`trained(pauses)` returns the losses and the norm of each step, and digests of the model's and the optimizer's weights;
    the last rank has losses. `gloo_group`: a group of Gloo. `least_bytes`: what each pause must release."""
    pauses = None
    if not options.no_pauses:
        from releases import Releases  # needs amem

        pauses = Releases(gloo_group, least_bytes)
    # First with pauses: communicators are also created after one, and the second training has those that were away.
    with_pauses = trained(pauses)
    steps, weights, masters = trained(None)
    expect(steps == with_pauses[0], f"losses and norms {with_pauses[0]}, without pauses {steps}")
    expect(weights == with_pauses[1], f"weights {with_pauses[1]}, without pauses {weights}")
    expect(masters == with_pauses[2], "the optimizer has other weights than without pauses")
    expect(all(norm > 0 for _, norm in steps), f"gradients are 0: {steps}")
    expect(not steps[0][0] or sum(steps[-1][0]) < sum(steps[0][0]), f"the model does not learn: {steps}")
    everything = of_all_ranks(with_pauses, gloo_group)
    least_freed = min(of_all_ranks(pauses.least_freed if pauses else 0, gloo_group))
    if dist.get_rank() == 0:
        left = f"{pauses.count} pauses, at least {least_freed >> 20} MiB left each time" if pauses else "no pauses"
        loss, bits = everything[-1][0][-1][0][-1], hashlib.sha256(repr(everything).encode()).hexdigest()[:16]
        print(f"result: {options.mode}, {len(steps)} steps bit-exact, last loss {loss:.4f}, bits {bits}, {left}", flush=True)
