# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What engines serve in tests: a Qwen3 with random weights, and prompts as numbers of tokens."""

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

VOCABULARY = 32000
PROMPTS = [[(7 * place + 101 * which + 3) % VOCABULARY for place in range(16 + which)] for which in range(8)]
NEW_TOKENS = 64


def write_model(folder: str) -> None:
    """The weights are large enough that a token depends on all before it."""
    torch.manual_seed(1)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=128,
        max_position_embeddings=2048,
        initializer_range=0.06,
        tie_word_embeddings=False,
    )
    Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def check_tokens(tokens: list[list[int]]) -> None:
    """A model that repeats itself would not notice wrong weights."""
    assert [len(each) for each in tokens] == [NEW_TOKENS] * len(PROMPTS)
    assert len({token for each in tokens for token in each}) > len(PROMPTS) * NEW_TOKENS // 4, tokens
