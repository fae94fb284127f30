# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What the jobs of verl and OpenRLHF share. Ray starts their trainers and vLLM's workers on the same two GPUs."""

import argparse
import os
import random
import re
import shutil
import string
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from programs import adopt_orphans, run_program

GPUS = 2
PROMPTS = 8  # of a step
REWARDS = Path(__file__).resolve().with_name("rewards.py")
PAD, END = "<|endoftext|>", "<|im_end|>"
VOCABULARY = 256 + 2  # bytes, PAD and END
LIMIT_S = 480
LEAST_MIB = 256
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
    "VLLM_USE_FLASHINFER_SAMPLER": "0",  # it is compiled or fetched
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False, epilog="Other arguments are further options of the framework.")
    parser.add_argument("--without-amem", action="store_true", help="the same job, to compare")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--keep", metavar="FOLDER", help="for the logs of the job and of Ray's workers")
    options, more = parser.parse_known_args()
    options.more = more
    if os.environ.get("AMEM_ENABLE") == "1":
        parser.error("it starts amem run itself")
    if not options.without_amem and not shutil.which("amem"):
        parser.error("amem is not on PATH")
    return options


def write_tokenizer(folder: Path) -> None:
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


def write_model(folder: Path) -> None:
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


def prompts(steps: int) -> Iterator[str]:
    numbers = random.Random(1)
    for _ in range(PROMPTS * steps):
        yield "".join(numbers.choices(string.ascii_lowercase, k=numbers.randint(16, 48)))


def read_moves(logs: str, actor: Any) -> Any:
    """What NCCL's memory did in the processes of an actor of Ray: {process: {"paused" or "resumed": [MiB]}}."""
    found = {}
    for text in logs:
        if re.search(rf"^:actor_name:{actor}$", text, re.MULTILINE):
            for process, what, mib in MOVE.findall(text):
                found.setdefault(process, {"paused": [], "resumed": []})[what].append(int(mib))
    return found


class Job:
    """Below the folder are the model, the log of the job, and Ray's files in `ray`."""

    def __init__(self, folder: str, options: Any) -> None:
        self.folder, self.options = Path(folder), options
        self.log = self.folder / "job.log"

    def expect(self, condition: Any, what: str) -> None:
        if not condition:
            lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
            raise SystemExit("\n".join([f"wrong: {what}; the end of the log:", *lines[-40:]]))

    def run(self, command: Any, **more: Any) -> None:
        """Ends what the command has started, such as Ray, when it ends."""
        variables = {**os.environ, **VARIABLES, **more, "HF_HOME": str(self.folder / "huggingface")}
        variables.pop("RAY_ADDRESS", None)  # a cluster of its own
        if not self.options.without_amem:
            variables["AMEM_TMS"] = "weights"
        adopt_orphans()
        problem = run_program(command, variables, LIMIT_S, self.log)
        self.expect(problem is None, problem or "")

    def paths_of_logs(self) -> Any:
        """Of Ray's workers."""
        return sorted((self.folder / "ray" / "session_latest" / "logs").glob("worker-*"))

    def logs_of_workers(self) -> Any:
        return [path.read_text(errors="replace") for path in self.paths_of_logs()]

    def keep(self, folder: Path) -> None:
        os.makedirs(folder, exist_ok=True)
        for path in filter(Path.exists, [self.log, *self.paths_of_logs()]):
            shutil.copy(path, folder)

    def least_released(self, actor: Any, what: str, least_pauses: int) -> Any:
        """MiB. Each process of the actor has paused and resumed NCCL's memory in each step."""
        moves = read_moves(self.logs_of_workers(), actor)
        self.expect(len(moves) == GPUS, f"{len(moves)} {what} paused NCCL's memory instead of {GPUS}")
        for process, each in moves.items():
            is_enough = len(each["paused"]) >= least_pauses and len(each["resumed"]) >= self.options.steps
            self.expect(is_enough, f"process {process} of the {what}: {each}")
        least = min(mib for each in moves.values() for mib in each["paused"])
        self.expect(least >= LEAST_MIB, f"{what} released only {least} MiB")
        return least

    def check_releases(self, trainer: Any, rollout: Any, least_pauses: int) -> str:
        """What to say of NCCL's memory, given the names of the actors. Each trainer has paused that often."""
        if self.options.without_amem:
            return "without amem"
        logs = [self.log.read_text(errors="replace"), *self.logs_of_workers()]
        self.expect(not any("stays on the GPU" in text for text in logs), "memory of NCCL stayed on the GPU")
        trainers = self.least_released(trainer, "trainers", least_pauses)
        rollouts = self.least_released(rollout, "rollouts", self.options.steps)
        return f"trainers released {trainers} MiB, rollouts released {rollouts} MiB"


def main(run: Callable[..., Any], check: Callable[..., Any]) -> None:
    """A framework's job: run(job) runs it, check(job) gives what to say of it."""
    options = parse()
    with tempfile.TemporaryDirectory(prefix="ray_job_") as folder:  # the paths of Ray's sockets must be short
        job = Job(folder, options)
        try:
            write_tokenizer(job.folder / "model")
            write_model(job.folder / "model")
            run(job)
            said = check(job)
        finally:
            if options.keep:
                job.keep(options.keep)
    print(f"result: {said}", flush=True)
