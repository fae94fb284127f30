# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""An OpenRLHF job: trainers have NCCL's memory only while they train, rollouts only while they generate.

GRPO without a reference model: trainers with ZeRO 3, and vLLM rollouts with tensor parallelism on the same two GPUs. In
each step the rollouts must have the trainers' weights: OpenRLHF compares the probabilities that both give the generated
tokens. It needs OpenRLHF 0.11.2, vLLM, and amem on PATH.

python3 tests/gpu/openrlhf_job.py [--steps N] [--keep FOLDER] [OPTION...]
python3 tests/gpu/openrlhf_job.py --without-amem                                to compare
"""

import importlib.metadata
import json
import math
import re
import secrets
import shlex
import sys
from pathlib import Path
from typing import Any

import ray_job
from one_gpu import free_port
from ray_job import GPUS, PROMPTS, REWARDS

SAMPLES = 4  # of each prompt
MOST_DIFFERENCE = 0.005  # of logarithms of probabilities, on average; with the weights of one step before above 0.2
TRAINER, ROLLOUT = "PolicyModelActor", "RayWorkerProc"  # OpenRLHF's actor and vLLM's
HOOK = {"runtime_env": {"worker_process_setup_hook": "amem.openrlhf.install"}, "metadata": {}}


def write_data(path: Path, steps: int) -> None:
    path.write_text("".join(json.dumps({"input": text, "label": ""}) + "\n" for text in ray_job.prompts(steps)))


def options(folder: Path, steps: int) -> list[str]:
    """Of openrlhf.cli.train_ppo_ray."""
    valued = {
        "actor.model_name_or_path": folder / "model",
        "actor.num_gpus_per_node": GPUS,
        "actor.adam.lr": 1e-3,  # each step changes the probabilities a lot
        "actor.lr_scheduler": "constant",
        "reward.remote_url": REWARDS,
        "data.prompt_dataset": folder / "data.jsonl",
        "data.input_key": "input",
        "data.label_key": "label",
        "data.max_samples": PROMPTS * steps,
        "data.max_len": 128,
        "vllm.num_engines": 1,
        "vllm.tensor_parallel_size": GPUS,
        "vllm.gpu_memory_utilization": 0.2,
        "ds.zero_stage": 3,
        "ds.param_dtype": "bf16",
        "ds.attn_implementation": "eager",
        "algo.advantage.estimator": "group_norm",
        "algo.advantage.is_correction_level": "token",  # the rollouts give probabilities, and the log has vllm_kl
        "algo.kl.init_coef": 0,
        "rollout.batch_size": PROMPTS,
        "rollout.n_samples_per_prompt": SAMPLES,
        "rollout.micro_batch_size": 4,
        "rollout.max_new_tokens": 32,
        "train.batch_size": PROMPTS * SAMPLES,
        "train.micro_batch_size": 4,
        "train.num_episodes": 1,
        "ckpt.output_dir": folder / "trained",
        "ckpt.path": folder / "states",
        "logger.logging_steps": 1,
    }
    shared = ["--train.colocate_all", "--vllm.enable_sleep", "--ds.enable_sleep"]
    switches = [*shared, "--vllm.enforce_eager", "--actor.gradient_checkpointing_enable"]
    return [*(f"--{name}={value}" for name, value in valued.items()), *switches]


def ray_start(folder: Path, port: int) -> list[str]:
    """The workers have the environment of the cluster, not of the driver."""
    node = ["--head", f"--port={port}", "--node-ip-address=127.0.0.1", f"--temp-dir={folder}/ray"]
    has = [f"--num-gpus={GPUS}", "--num-cpus=16", f"--object-store-memory={2 << 30}"]  # as Ray counts them
    return [sys.executable, "-m", "ray.scripts.scripts", "start", "--include-dashboard=false", *node, *has]


def run(job: ray_job.Job) -> None:
    write_data(job.folder / "data.jsonl", job.options.steps)
    port = free_port()
    start = ray_start(job.folder, port)
    driver = [sys.executable, "-m", "openrlhf.cli.train_ppo_ray", *options(job.folder, job.options.steps)]
    variables = [f"RAY_ADDRESS=127.0.0.1:{port}"]
    if not job.options.without_amem:
        start, driver = ["amem", "run", "--", *start], ["amem", "run", "--", *driver]
        variables.append(f"RAY_JOB_CONFIG_JSON_ENV_VAR={json.dumps(HOOK)}")  # as ray job submit passes it on
    driver = ["env", *variables, *driver, *job.options.more]
    # A token of its own: where ~/.ray has one, ray start demands it, and the driver does not show it.
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex()}
    job.run(["sh", "-c", f"{shlex.join(start)} && {shlex.join(driver)}"], **token)


def read_metrics(text: str) -> Any:
    """Of each step: the mean difference of logarithms of probabilities and the norm of the gradient."""

    def number(line: str, name: str) -> Any:
        match = re.search(rf"'{name}': (?:[\w.]+\()?([-+.\w]+)", line)
        return float(match[1]) if match else math.nan

    lines = re.findall(r"\bGlobal step (\d+): (\{.*)", text)
    return {int(step): (number(line, "vllm_kl"), number(line, "actor_grad_norm")) for step, line in lines}


def check(job: ray_job.Job) -> str:
    """What to say of the job."""
    metrics, steps = read_metrics("\n".join(job.logs_of_workers())), job.options.steps
    job.expect(sorted(metrics) == list(range(1, steps + 1)), f"steps {sorted(metrics)} instead of {steps}")
    for step, (difference, norm) in metrics.items():
        job.expect(abs(difference) < MOST_DIFFERENCE, f"step {step}: other probabilities, by {difference}")
        job.expect(0 < norm < math.inf, f"step {step}: the gradient has the norm {norm}")
    most = max(abs(difference) for difference, _ in metrics.values())
    releases = job.check_releases(TRAINER, ROLLOUT, steps + 1)  # before the first step too
    return f"OpenRLHF {importlib.metadata.version('openrlhf')}, {steps} steps, difference {most:.4f}, {releases}"


if __name__ == "__main__":
    ray_job.main(run, check)
