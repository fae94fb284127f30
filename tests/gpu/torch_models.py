# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Models in regions: the same tokens, and the same losses to the last bit, with and without pauses.

One rank, or ranks of a job (torchrun, one_gpu.py). The models are Hugging Face's, with random weights.
"""

import os
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

import amem

STEPS = 6
CONFIG = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8}


def expect(condition: Any, what: str) -> None:
    if not condition:
        raise SystemExit(f"wrong: {what}")


def expect_that_memory_left(tag: str) -> None:
    """Except workspaces of cuBLAS that a thread of autograd has allocated in the region: PyTorch uses them outside it too."""
    stats = amem.stats()
    memory, reasons = stats["tags"][tag], set(stats["persistent"])
    expect(memory["resident_bytes"] == memory["fixed_bytes"], f"memory with the tag {tag} stayed: {memory}")
    expect(reasons <= {"a workspace of cuBLAS", "a workspace of cuBLASLt"}, f"memory stayed: {reasons}")


def model_in_region(tag: str) -> Any:
    torch.manual_seed(1)
    with amem.region(tag), torch.device("cuda"):
        return LlamaForCausalLM(LlamaConfig(vocab_size=1000, **CONFIG))


def generate(model: Any, prompt: Any) -> Any:
    with torch.no_grad():
        return model.generate(prompt, max_new_tokens=32, do_sample=False, pad_token_id=0).tolist()


def same_tokens() -> None:
    model = model_in_region("weights").eval()
    prompt = torch.arange(1, 17, device="cuda").unsqueeze(0)
    wanted = generate(model, prompt)
    for _ in range(3):
        amem.pause("weights")
        expect_that_memory_left("weights")
        amem.resume("weights")
        expect(generate(model, prompt) == wanted, "other tokens after a resume")


def shard(model: Any, pauses: bool) -> None:
    """The shards of FSDP have the tag: they leave and come back with it."""
    with amem.region("training"):
        for layer in model.model.layers:
            fully_shard(layer)
        fully_shard(model)
    if not pauses:
        return
    with torch.no_grad():
        shards = [parameter.to_local() for parameter in model.parameters()]
    copies, least = [each.cpu() for each in shards], sum(each.nbytes for each in shards)
    resident = amem.stats()["tags"]["training"]["resident_bytes"]
    expect(resident >= least > 0, f"{resident} bytes have the tag, the shards have {least}")
    amem.pause("training")
    expect_that_memory_left("training")
    # amem has backups only of memory with a tag.
    expect(all(torch.equal(amem.backup(each), copy) for each, copy in zip(shards, copies)), "backups of the shards")
    amem.resume("training")
    expect(all(torch.equal(each.cpu(), copy) for each, copy in zip(shards, copies)), "shards after a resume")


def losses(pauses: bool) -> Any:
    """Of training steps; everything is paused and resumed after each of them."""
    model = model_in_region("training").train()
    if dist.is_initialized():
        shard(model, pauses)
    with amem.region("training", threads=True):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        found = []
        for _ in range(STEPS):
            generator = torch.Generator().manual_seed(int(os.environ.get("RANK", "0")))
            tokens = torch.randint(0, 1000, (2, 64), generator=generator).cuda()
            loss = model(tokens, labels=tokens).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
            if pauses:
                amem.pause()
                expect_that_memory_left("training")
                amem.resume()
    return found


def main() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    if "RANK" in os.environ:
        dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    same_tokens()
    without, with_pauses = losses(False), losses(True)
    expect(without == with_pauses, f"losses {without}, with pauses {with_pauses}")
    expect(without[-1] < without[0], f"the model does not learn: {without}")
    print(f"result: same tokens, {STEPS} losses bit-exact, {amem.stats()['tags']['training']['allocated_bytes'] >> 20} MiB")
    if dist.is_initialized():
        dist.destroy_process_group()


main()
