# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A verl job: trainers have NCCL's memory only while they train, rollouts only while they generate.

GRPO with a reference model: FSDP trainers, and vLLM rollouts with tensor parallelism on the same two GPUs. In each step
the rollouts must have the trainers' weights: verl compares the probabilities that both give the generated tokens.

python3 tests/gpu/verl_job.py [--steps N] [--keep FOLDER] [NAME=VALUE...]      needs verl, vLLM, and amem on PATH
python3 tests/gpu/verl_job.py --without-amem                                   to compare
"""

import importlib.metadata
import math
import re
import sys
from pathlib import Path
from typing import Any

import ray_job
from ray_job import GPUS, PROMPTS, REWARDS

LEAST_CORRELATION = 0.99  # with the weights of one step before it is below 0.6
TRAINER, ROLLOUT = "WorkerDict", "vLLMHttpServer"  # verl's actors; vLLM's workers write into the log of theirs
VARIABLES = {
    "HYDRA_FULL_ERROR": "1",
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",  # of what verl sends to vLLM's workers
}


def write_data(path: Path, steps: int) -> None:
    import pyarrow
    from pyarrow import parquet

    rows = []
    for text in ray_job.prompts(steps):
        prompt = [{"role": "user", "content": text}]
        rows.append({"data_source": "letters", "prompt": prompt, "reward_model": {"ground_truth": ""}})
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def overrides(folder: Path) -> list[str]:
    """Of verl's defaults."""
    actor, rollout, vllm = (f"actor_rollout_ref.{name}" for name in ("actor", "rollout", "rollout.engine_kwargs.vllm"))
    return [
        "algorithm.adv_estimator=grpo",
        f"data.train_files={folder}/data.parquet",
        f"data.val_files={folder}/data.parquet",
        f"data.train_batch_size={PROMPTS}",
        "data.max_prompt_length=64",
        "data.max_response_length=32",
        "data.dataloader_num_workers=0",
        f"actor_rollout_ref.model.path={folder}/model",
        "+actor_rollout_ref.model.override_config.attn_implementation=eager",  # flash-attn need not be there
        f"{actor}.optim.lr=1e-3",  # each step changes the probabilities a lot
        f"{actor}.ppo_mini_batch_size={PROMPTS}",
        f"{actor}.ppo_micro_batch_size_per_gpu=4",
        f"{actor}.use_kl_loss=True",
        f"{actor}.fsdp_config.use_torch_compile=False",
        "actor_rollout_ref.ref.fsdp_config.use_torch_compile=False",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4",
        f"{rollout}.name=vllm",
        f"{rollout}.tensor_model_parallel_size={GPUS}",
        f"{rollout}.n=4",
        f"{rollout}.log_prob_micro_batch_size_per_gpu=4",
        f"{rollout}.enforce_eager=True",
        f"{rollout}.agent.num_workers=1",
        f"+{vllm}.kv_cache_memory_bytes={2 << 30}",
        f"+{vllm}.disable_custom_all_reduce=True",  # NCCL's instead
        f"reward.custom_reward_function.path={REWARDS}",
        "reward.num_workers=1",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
        "trainer.logger=[console]",
        f"trainer.n_gpus_per_node={GPUS}",
        "trainer.val_before_train=False",
        "trainer.total_epochs=1",
        "trainer.resume_mode=disable",
        f"hydra.run.dir={folder}/hydra",
        "ray_kwargs.ray_init.num_cpus=16",  # as Ray counts them
        "+ray_kwargs.ray_init.include_dashboard=False",
        "+ray_kwargs.ray_init._node_ip_address=127.0.0.1",
        f"+ray_kwargs.ray_init._temp_dir={folder}/ray",
    ]


def read_metrics(text: str) -> Any:
    """Of each step: the correlation of probabilities and the norm of the gradient, from verl's console logger."""

    def number(line: str, name: str) -> Any:
        match = re.search(rf"{name}:(?:np\.\w+\()?([-+.\w]+)", line)
        return float(match[1]) if match else math.nan

    names = ("training/rollout_actor_probs_pearson_corr", "actor/grad_norm")
    lines = re.findall(r"\bstep:(\d+) - (.*)", text)
    return {int(step): tuple(number(line, name) for name in names) for step, line in lines}


def run(job: ray_job.Job) -> None:
    write_data(job.folder / "data.parquet", job.options.steps)
    command = [sys.executable, "-m", "verl.trainer.main_ppo", *overrides(job.folder)]
    if not job.options.without_amem:
        command = ["amem", "run", "--", *command, "actor_rollout_ref.model.external_lib=amem.verl"]
    job.run([*command, *job.options.more], **VARIABLES)


def check(job: ray_job.Job) -> str:
    """What to say of the job."""
    metrics, steps = read_metrics("\n".join(job.logs_of_workers())), job.options.steps
    job.expect(sorted(metrics) == list(range(1, steps + 1)), f"steps {sorted(metrics)} instead of {steps}")
    for step, (correlation, norm) in metrics.items():
        job.expect(correlation > LEAST_CORRELATION, f"step {step}: other probabilities, correlation {correlation}")
        job.expect(0 < norm < math.inf, f"step {step}: the gradient has the norm {norm}")
    least = min(correlation for correlation, _ in metrics.values())
    releases = job.check_releases(TRAINER, ROLLOUT, steps)
    return f"verl {importlib.metadata.version('verl')}, {steps} steps, correlation {least:.4f}, {releases}"


if __name__ == "__main__":
    ray_job.main(run, check)
