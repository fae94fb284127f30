# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A transformer trains with ZeRO of DeepSpeed on two GPUs; NCCL's memory leaves before the first step and after each.

Losses, gradient norms and weights are the same to the last bit as without pauses. Nothing of DeepSpeed is compiled.

amem run -- torchrun --nproc-per-node 2 tests/gpu/deepspeed_trainer.py zero1|zero2|zero3
torchrun --nproc-per-node 2 tests/gpu/deepspeed_trainer.py zero1|zero2|zero3 --no-pauses      to compare, without amem
"""

import gc
from typing import Any

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.utils import safe_get_full_fp32_param
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from compared_training import begin, digest, expect, train_twice

STEPS = 6
WIDTH, HEADS, LAYERS = 1024, 16, 4
WORDS, LENGTH = 8192, 512  # of the vocabulary, of a sequence
BATCH, BATCHES = 2, 2  # sequences of a batch, batches of a step
BUCKET = 4_000_000  # parameters that are reduced or gathered at once; the vocabulary has more
PERSISTENT = 8192  # parameters of a tensor that each rank keeps whole; matrices have more
LIVE = 16_000_000  # parameters that are whole at once with ZeRO 3
LEAST_BYTES = 64 << 20  # of one communicator
BFLOAT16 = {"bf16": {"enabled": True}}
SHARDED = {
    "stage3_prefetch_bucket_size": BUCKET,
    "stage3_param_persistence_threshold": PERSISTENT,
    "stage3_max_live_parameters": LIVE,
    "stage3_max_reuse_distance": LIVE,
}
# Of the optimizer's state, of gradients too, and of weights too.
MODES = {"zero1": ({"stage": 1}, {}), "zero2": ({"stage": 2}, BFLOAT16), "zero3": ({"stage": 3, **SHARDED}, BFLOAT16)}


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inputs, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, data: Any) -> Any:
        heads = self.inputs(data).view(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        with sdpa_kernel(SDPBackend.MATH):  # deterministic
            mixed = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.output(mixed.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        wide = [nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)]
        self.attention = nn.Sequential(nn.LayerNorm(WIDTH), Attention())
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), *wide)

    def forward(self, data: Any) -> Any:
        data = data + self.attention(data)
        return data + self.mlp(data)


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)), nn.LayerNorm(WIDTH))
        self.output = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, batch: Any) -> Any:
        """The mean loss."""
        places = torch.arange(LENGTH, device=batch.device)
        found = self.output(self.layers(self.words(batch[:, :-1]) + self.positions(places)))
        return nn.functional.cross_entropy(found.float().view(-1, WORDS), batch[:, 1:].reshape(-1))


def settings(mode: str) -> dict[str, Any]:
    zero, more = MODES[mode]
    buckets = {"reduce_bucket_size": BUCKET, "allgather_bucket_size": BUCKET}
    return {
        "train_micro_batch_size_per_gpu": BATCH,
        "gradient_accumulation_steps": BATCHES,
        "gradient_clipping": 1.0,
        "steps_per_print": 1000,
        "zero_optimization": {"overlap_comm": True, **buckets, **zero},
        **more,
    }


class Training:
    """A model that starts from the same weights each time."""

    def __init__(self, mode: str) -> None:
        torch.manual_seed(1)
        model = Transformer()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)  # not DeepSpeed's own, which it would compile
        self.engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings(mode))
        numbers = torch.Generator().manual_seed(dist.get_rank())
        self.batches = [torch.randint(WORDS, (BATCH, LENGTH + 1), generator=numbers).cuda() for _ in range(BATCHES)]

    def step(self) -> Any:
        """Its losses, and the norm of the gradients."""
        losses = []
        for batch in self.batches:
            loss = self.engine(batch)
            losses.append(loss.detach().clone())
            self.engine.backward(loss)
            self.engine.step()  # steps after the last batch
        expect(self.engine.was_step_applied(), "the optimizer left a step out")
        return [loss.item() for loss in losses], float(self.engine.get_global_grad_norm())

    def weights(self) -> Any:
        """Digests of the model's and of the optimizer's."""
        parameters = list(self.engine.module.parameters())
        with deepspeed.zero.GatheredParameters(parameters):
            models = digest(parameters)
        return models, digest(safe_get_full_fp32_param(each) for each in parameters)

    def run(self, pauses: Any) -> Any:
        """The results of all steps, and digests of the weights: of the model, and of the optimizer."""
        found = []
        if pauses:
            pauses.release()
        for _ in range(STEPS):
            found.append(self.step())
            if pauses:
                pauses.expect_active("a training step")
                pauses.release()
        return found, *self.weights()


def trained(mode: str, pauses: Any) -> Any:
    """What a training had as results."""
    training = Training(mode)
    found = training.run(pauses)
    training.engine.destroy()
    del training
    gc.collect()
    torch.cuda.empty_cache()
    return found


def main() -> None:
    options = begin(__doc__, MODES)
    deepspeed.init_distributed("nccl")  # with device_id: the first communicator is there at once, others are split off
    gloo_group = dist.new_group(backend="gloo")
    train_twice(options, lambda pauses: trained(options.mode, pauses), gloo_group, LEAST_BYTES)
    dist.barrier(device_ids=[torch.cuda.current_device()])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
