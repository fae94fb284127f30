# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The reward of verl's and OpenRLHF's jobs: the share of letters. Their workers load this file without its folder."""
from typing import Any


def _share_of_letters(text: str) -> float:
    return sum(map(str.isalpha, text)) / max(1, len(text))


def compute_score(data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **_: Any) -> float:
    """verl calls it."""
    return _share_of_letters(solution_str)


def reward_func(queries: Any, prompts: Any, labels: Any) -> Any:
    """OpenRLHF calls it, with one query, which is a prompt and its response."""
    reward = _share_of_letters(queries[0][len(prompts[0]) :])
    return {"rewards": reward, "scores": reward, "extra_logs": {}}
