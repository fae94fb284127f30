# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A verl job: trainers have NCCL's memory only while they train, rollouts only while they generate.

GRPO with a reference model: FSDP trainers, and vLLM rollouts with tensor parallelism on the same two GPUs. In each step
the rollouts must have the trainers' weights: verl compares the probabilities that both give the generated tokens.

python3 tests/gpu/verl_job.py [--steps N] [--keep FOLDER] [OVERRIDE...]        needs verl, vLLM, and amem on PATH
python3 tests/gpu/verl_job.py --without-amem                                   to compare
"""

import argparse
import importlib.metadata
import math
import os
import random
import re
import shutil
import string
import sys
import tempfile
from pathlib import Path

GPUS = 2
PROMPTS = 8  # of a step
PAD, END = "<|endoftext|>", "<|im_end|>"
VOCABULARY = 256 + 2  # bytes, PAD and END
LIMIT_S = 480
LEAST_CORRELATION = 0.99  # with the weights of one step before it is below 0.6
LEAST_MIB = 256
TRAINER, ROLLOUT = "WorkerDict", "vLLMHttpServer"  # verl's actors; vLLM's workers write into the log of theirs
MOVE = re.compile(r"(\d+):\d+ \[.*?\] AMEM INFO (paused|resumed) nccl in .*?: (\d+) MiB")
VARIABLES = {
    # No multicast memory.
    "NCCL_NVLS_ENABLE": "0",
    "NVSHMEM_DISABLE_NVLS": "1",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "VLLM_ALLREDUCE_USE_FLASHINFER": "0",
    "VLLM_ALLREDUCE_USE_SYMM_MEM": "0",
    # Without a network.
    "GLOO_SOCKET_IFNAME": "lo",
    "HF_HUB_OFFLINE": "1",
    "NCCL_SOCKET_IFNAME": "lo",
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",  # of what verl sends to vLLM's workers
    "VLLM_USE_FLASHINFER_SAMPLER": "0",  # it is compiled or fetched
    "HYDRA_FULL_ERROR": "1",
}


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **_):
    """verl's reward function: the share of letters."""
    return sum(map(str.isalpha, solution_str)) / max(1, len(solution_str))


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--without-amem", action="store_true", help="the same job, to compare")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--keep", metavar="FOLDER", help="for the logs of the job and of Ray's workers")
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="further options of verl: NAME=VALUE")
    options = parser.parse_args()
    if os.environ.get("AMEM_ENABLE") == "1":
        parser.error("it starts amem run itself")
    if not options.without_amem and not shutil.which("amem"):
        parser.error("amem is not on PATH")
    return options


def write_tokenizer(folder):
    """Of Qwen's kind; each byte is a token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = [PAD, END, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, eos_token=END)
    fast.chat_template = "{% for message in messages %}{{ message['content'] + '" + END + "\n' }}{% endfor %}"
    fast.save_pretrained(folder)


def write_model(folder):
    """A Qwen2 with random weights."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(1)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=256,
        tie_word_embeddings=False,
        bos_token_id=None,
        pad_token_id=0,
        eos_token_id=1,
    )
    Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def write_data(path, steps):
    import pyarrow
    from pyarrow import parquet

    numbers = random.Random(1)
    rows = []
    for _ in range(PROMPTS * steps):
        text = "".join(numbers.choices(string.ascii_lowercase, k=numbers.randint(16, 48)))
        prompt = [{"role": "user", "content": text}]
        rows.append({"data_source": "letters", "prompt": prompt, "reward_model": {"ground_truth": ""}})
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def overrides(folder):
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
        f"reward.custom_reward_function.path={Path(__file__).resolve()}",
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


def read_metrics(text):
    """Of each step: the correlation of probabilities and the norm of the gradient, from verl's console logger."""

    def number(line, name):
        match = re.search(rf"{name}:(?:np\.\w+\()?([-+.\w]+)", line)
        return float(match[1]) if match else math.nan

    names = ("training/rollout_actor_probs_pearson_corr", "actor/grad_norm")
    lines = re.findall(r"\bstep:(\d+) - (.*)", text)
    return {int(step): tuple(number(line, name) for name in names) for step, line in lines}


def read_moves(logs):
    """What NCCL's memory did: {actor: {process: {"paused" or "resumed": [MiB]}}}."""
    found = {TRAINER: {}, ROLLOUT: {}}
    for text in logs:
        actor = re.search(r"^:actor_name:(\w+)", text, re.MULTILINE)
        if actor and actor[1] in found:
            for process, what, mib in MOVE.findall(text):
                found[actor[1]].setdefault(process, {"paused": [], "resumed": []})[what].append(int(mib))
    return found


class Job:
    def __init__(self, folder, options):
        self.folder, self.options = Path(folder), options
        self.log = self.folder / "job.log"

    def expect(self, condition, what):
        if not condition:
            lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
            raise SystemExit("\n".join([f"wrong: {what}; the end of the log:", *lines[-40:]]))

    def run(self):
        # Here, because verl's workers load this file without its folder.
        from programs import adopt_orphans, run_program

        write_tokenizer(self.folder / "model")
        write_model(self.folder / "model")
        write_data(self.folder / "data.parquet", self.options.steps)
        command = [sys.executable, "-m", "verl.trainer.main_ppo", *overrides(self.folder)]
        variables = {**os.environ, **VARIABLES, "HF_HOME": str(self.folder / "huggingface")}
        variables.pop("RAY_ADDRESS", None)  # a cluster of its own
        if not self.options.without_amem:
            command = ["amem", "run", "--", *command, "actor_rollout_ref.model.external_lib=amem.verl"]
            variables["AMEM_TMS_NCCL"] = "weights"
        command += self.options.overrides
        adopt_orphans()
        problem = run_program(command, variables, LIMIT_S, self.log)
        self.expect(problem is None, problem)

    def logs_of_workers(self):
        return sorted((self.folder / "ray" / "session_latest" / "logs").glob("worker-*"))

    def keep(self, folder):
        os.makedirs(folder, exist_ok=True)
        for path in filter(Path.exists, [self.log, *self.logs_of_workers()]):
            shutil.copy(path, folder)

    def least_released(self, moves, what):
        """MiB. Each process of the actor has paused and resumed NCCL's memory in each step."""
        self.expect(len(moves) == GPUS, f"{len(moves)} {what} paused NCCL's memory instead of {GPUS}")
        for process, each in moves.items():
            times = min(len(each["paused"]), len(each["resumed"]))
            self.expect(times >= self.options.steps, f"process {process} of the {what}: {each}")
        least = min(mib for each in moves.values() for mib in each["paused"])
        self.expect(least >= LEAST_MIB, f"{what} released only {least} MiB")
        return least

    def check(self):
        """What to say of the job."""
        logs = [path.read_text(errors="replace") for path in self.logs_of_workers()]
        metrics, steps = read_metrics("\n".join(logs)), self.options.steps
        self.expect(sorted(metrics) == list(range(1, steps + 1)), f"steps {sorted(metrics)} instead of {steps}")
        for step, (correlation, norm) in metrics.items():
            self.expect(correlation > LEAST_CORRELATION, f"step {step}: other probabilities, correlation {correlation}")
            self.expect(0 < norm < math.inf, f"step {step}: the gradient has the norm {norm}")
        least = min(correlation for correlation, _ in metrics.values())
        said = f"verl {importlib.metadata.version('verl')}, {steps} steps, correlation {least:.4f}"
        if self.options.without_amem:
            return f"{said}, without amem"
        self.expect(not any("stays on the GPU" in text for text in logs), "memory of NCCL stayed on the GPU")
        moves = read_moves(logs)
        trainers = self.least_released(moves[TRAINER], "trainers")
        rollouts = self.least_released(moves[ROLLOUT], "rollouts")
        return f"{said}, trainers released {trainers} MiB, rollouts released {rollouts} MiB"


def main():
    options = parse()
    with tempfile.TemporaryDirectory(prefix="verl_job_") as folder:
        job = Job(folder, options)
        try:
            job.run()
            said = job.check()
        finally:
            if options.keep:
                job.keep(options.keep)
    print(f"result: {said}", flush=True)


if __name__ == "__main__":
    main()
