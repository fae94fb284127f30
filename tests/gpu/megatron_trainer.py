# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A GPT of Megatron Core trains on two GPUs; NCCL's memory leaves before the first step and after each one.

Losses, gradient norms and weights are the same to the last bit as without pauses. Nothing of Transformer Engine or Apex.

CUDA_DEVICE_MAX_CONNECTIONS=1 amem run -- torchrun --nproc-per-node 2 tests/gpu/megatron_trainer.py tp|pp|dp
torchrun --nproc-per-node 2 tests/gpu/megatron_trainer.py tp|pp|dp --no-pauses      to compare, without amem
"""

import gc
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules, get_num_layers_to_build
from megatron.core.transformer.transformer_config import TransformerConfig

from compared_training import begin, digest, expect, train_twice

STEPS = 6
WIDTH, HEADS, LAYERS = 1024, 16, 4
WORDS, LENGTH = 8192, 512  # of the vocabulary, of a sequence
BATCH, BATCHES = 2, 4  # sequences of a batch, batches of a step
BUCKET = 4_000_000  # parameters that are reduced and gathered at once
LEAST_BYTES = 64 << 20  # of one communicator


@dataclass(frozen=True)
class Mode:
    """How the ranks share the work."""

    tensor: int = 1
    pipeline: int = 1
    shards_optimizer: bool = False  # and reduces gradients and gathers weights while it computes


MODES = {"tp": Mode(tensor=2), "pp": Mode(pipeline=2), "dp": Mode(shards_optimizer=True)}


class Norm(torch.nn.LayerNorm):
    """Megatron's own without Apex refuses to run with sequence_parallel; its gradients are summed by this attribute."""

    def __init__(self, config: Any, hidden_size: int, eps: float) -> None:
        super().__init__(hidden_size, eps, device=torch.cuda.current_device())
        for parameter in self.parameters():
            parameter.sequence_parallel = config.sequence_parallel


def transformer_config(mode: Any) -> Any:
    return TransformerConfig(
        num_layers=LAYERS,
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        tensor_model_parallel_size=mode.tensor,
        sequence_parallel=mode.tensor > 1,
        pipeline_model_parallel_size=mode.pipeline,
        pipeline_dtype=torch.bfloat16,
        bf16=True,
        params_dtype=torch.bfloat16,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        deterministic_mode=True,
        # These need kernels of Apex or of Transformer Engine.
        gradient_accumulation_fusion=False,
        masked_softmax_fusion=False,
        persist_layer_norm=False,
    )


def new_model(mode: Any) -> Any:
    config = transformer_config(mode)
    layer = get_gpt_layer_local_spec()
    layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = Norm
    model = GPTModel(
        config,
        TransformerBlockSubmodules([layer] * get_num_layers_to_build(config), Norm),
        vocab_size=WORDS,
        max_sequence_length=LENGTH,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=True,
        position_embedding_type="rope",
    )
    data_parallel = DistributedDataParallelConfig(
        grad_reduce_in_fp32=True,
        use_distributed_optimizer=mode.shards_optimizer,
        overlap_grad_reduce=mode.shards_optimizer,
        overlap_param_gather=mode.shards_optimizer,
        bucket_size=BUCKET,
    )
    return DistributedDataParallel(config, data_parallel, Float16Module(config, model.cuda()))


def new_optimizer(mode: Any, model: Any) -> Any:
    config = OptimizerConfig(
        optimizer="adam",
        lr=1e-3,
        weight_decay=0.01,
        bf16=True,
        params_dtype=torch.bfloat16,
        clip_grad=1.0,
        use_distributed_optimizer=mode.shards_optimizer,
        overlap_param_gather=mode.shards_optimizer,
    )
    return get_megatron_optimizer(config, [model])


def new_batches() -> Any:
    """Other ones for each replica of the model, on all of its ranks the same."""
    numbers = torch.Generator().manual_seed(parallel_state.get_data_parallel_rank())
    return [torch.randint(WORDS, (BATCH, LENGTH + 1), generator=numbers).cuda() for _ in range(BATCHES)]


def forward(batches: Any, model: Any) -> Any:
    batch = next(batches)
    positions = torch.arange(LENGTH, device="cuda").repeat(BATCH, 1)
    output = model(batch[:, :-1].contiguous(), positions, None, labels=batch[:, 1:].contiguous())

    def mean(losses: Any) -> Any:
        loss = losses.float().mean()
        return loss, loss.detach().clone()  # the schedule divides the first in place

    return output, mean


class Training:
    """A model that starts from the same weights each time."""

    def __init__(self, mode: Any) -> None:
        torch.manual_seed(1)
        model_parallel_cuda_manual_seed(1)
        self.overlaps = mode.shards_optimizer
        self.model = new_model(mode)
        self.config = self.model.config
        self.config.finalize_model_grads_func = finalize_model_grads
        if self.overlaps:
            self.config.no_sync_func = self.model.no_sync
        self.optimizer = new_optimizer(mode, self.model)
        self.config.grad_scale_func = self.optimizer.scale_loss
        self.batches = new_batches()

    def step(self) -> Any:
        """Its losses, none but in the last stage of a pipeline, and the norm of the gradients."""
        self.model.zero_grad_buffer()
        self.optimizer.zero_grad()
        losses = get_forward_backward_func()(
            forward_step_func=forward,
            data_iterator=iter(self.batches),
            model=[self.model],
            num_microbatches=BATCHES,
            seq_length=LENGTH,
            micro_batch_size=BATCH,
        )
        stepped, norm, _ = self.optimizer.step()
        expect(stepped, "the optimizer left a step out")
        return [loss.item() for loss in losses], float(norm)

    def run(self, pauses: Any) -> Any:
        """The results of all steps, and digests of the weights: of the model, and of the optimizer."""
        found = []
        if self.overlaps:  # in the first step there is nothing to gather yet: as Megatron's own loop does
            self.model.disable_forward_pre_hook(param_sync=False)
        if pauses:
            pauses.release()
        for step in range(STEPS):
            found.append(self.step())
            if self.overlaps and step == 0:
                self.model.enable_forward_pre_hook()
            if pauses:
                pauses.expect_active("a training step")
                pauses.release()
        if self.overlaps:
            self.model.disable_forward_pre_hook()  # gathers
        masters = [each for group in self.optimizer.param_groups for each in group["params"]]
        return found, digest(self.model.parameters()), digest(masters)


def trained(mode: Any, pauses: Any) -> Any:
    """What a training had as results."""
    found = Training(mode).run(pauses)
    has_losses = parallel_state.is_pipeline_last_stage()
    expect(all(len(losses) == (BATCHES if has_losses else 0) for losses, _ in found[0]), f"losses are missing: {found[0]}")
    gc.collect()
    torch.cuda.empty_cache()
    return found


def main() -> None:
    options = begin(__doc__, MODES)
    mode = MODES[options.mode]
    dist.init_process_group("nccl")  # without device_id, as Megatron's own: communicators come with their first call
    gloo_group = dist.new_group(backend="gloo")
    parallel_state.initialize_model_parallel(mode.tensor, mode.pipeline)
    dist.barrier(device_ids=[torch.cuda.current_device()])
    train_twice(options, lambda pauses: trained(mode, pauses), gloo_group, LEAST_BYTES)
    dist.barrier(device_ids=[torch.cuda.current_device()])
    parallel_state.destroy_model_parallel()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
