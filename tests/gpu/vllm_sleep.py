# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""vLLM sleeps with amem's backend: NCCL's memory leaves with weights and KV cache, and the same tokens come afterwards.

Two GPUs, CUDA graphs that contain collectives, levels 1 and 2, wake-ups at once and by tag as frameworks for RL do.

AMEM_TMS=weights amem run -- python tests/gpu/vllm_sleep.py [--custom-all-reduce]
python tests/gpu/vllm_sleep.py --own-backend [--custom-all-reduce]      to compare, without amem
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import pynvml

from served_model import NEW_TOKENS, PROMPTS, check_tokens, write_model

CYCLES = 4
MOST_LEFT_MIB = 1024  # contexts, kernels and graphs
MIB = 1 << 20


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--custom-all-reduce", action="store_true", help="vLLM's instead of NCCL's")
    parser.add_argument("--own-backend", action="store_true", help="vLLM's sleep mode without amem, to compare")
    options = parser.parse_args()
    if options.own_backend == (os.environ.get("AMEM_ENABLE") == "1"):
        parser.error("with --own-backend it runs without amem, otherwise under amem run")
    return options


def used_mib() -> list[Any]:
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")[:2]
    handles = [pynvml.nvmlDeviceGetHandleByIndex(int(device)) for device in devices]
    return [pynvml.nvmlDeviceGetMemoryInfo(handle).used // MIB for handle in handles]


def state_of_nccl(worker: Any) -> Any:
    """In a worker of vLLM."""
    import amem

    return amem.state("nccl")


def timed(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    begin = time.monotonic()
    function(*arguments, **options)
    return time.monotonic() - begin


def wake(llm: Any, level: int, by_tag: bool) -> Any:
    seconds = timed(llm.wake_up, ["weights"] if by_tag else None)
    if level == 2:
        llm.collective_rpc("reload_weights")
    return seconds + (timed(llm.wake_up, ["kv_cache"]) if by_tag else 0.0)


def main() -> None:
    options = parse()
    # Functions are sent to workers; the engine is in this process, so that batches are the same each time.
    os.environ.update(VLLM_ALLOW_INSECURE_SERIALIZATION="1", VLLM_ENABLE_V1_MULTIPROCESSING="0")
    os.environ.update(VLLM_WORKER_MULTIPROC_METHOD="spawn", VLLM_ALLREDUCE_USE_SYMM_MEM="0", VLLM_NO_USAGE_STATS="1")
    from vllm import LLM, SamplingParams

    pynvml.nvmlInit()
    before = used_mib()
    with tempfile.TemporaryDirectory() as folder:
        write_model(folder)
        llm = LLM(
            folder,
            skip_tokenizer_init=True,
            tensor_parallel_size=2,
            enable_sleep_mode=True,
            max_model_len=512,
            max_num_seqs=len(PROMPTS),
            gpu_memory_utilization=0.3,
            enable_prefix_caching=False,
            disable_custom_all_reduce=not options.custom_all_reduce,
            compilation_config={"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY", "cudagraph_capture_sizes": [1, 8]},
        )
        sampling = SamplingParams(temperature=0.0, max_tokens=NEW_TOKENS, ignore_eos=True, detokenize=False)
        prompts = [{"prompt_token_ids": prompt} for prompt in PROMPTS]

        def generate() -> Any:
            return [list(each.outputs[0].token_ids) for each in llm.generate(prompts, sampling, use_tqdm=False)]

        tokens = generate()
        check_tokens(tokens)
        awake = used_mib()
        for cycle in range(CYCLES):
            level, by_tag = 1 + cycle % 2, cycle < 2
            slept = timed(llm.sleep, level)
            if not options.own_backend:
                assert llm.collective_rpc(state_of_nccl) == ["paused"] * 2
            left = [now - at_start for now, at_start in zip(used_mib(), before)]
            assert options.own_backend or max(left) < MOST_LEFT_MIB, f"{left} MiB stayed"
            woken = wake(llm, level, by_tag)
            if not options.own_backend:
                assert llm.collective_rpc(state_of_nccl) == ["active"] * 2
            assert generate() == tokens, f"cycle {cycle}, level {level}: other tokens"
            assert max(abs(now - then) for now, then in zip(used_mib(), awake)) < 64, (used_mib(), awake)
            print(f"level {level}: {left} MiB left while asleep, sleep {slept:.3f} s, wake-up {woken:.3f} s", flush=True)
    print(f"result: the same {len(PROMPTS) * NEW_TOKENS} tokens after {CYCLES} sleeps, {left[0]} MiB left while asleep", flush=True)


if __name__ == "__main__":
    main()
