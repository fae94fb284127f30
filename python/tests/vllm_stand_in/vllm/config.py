# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What vLLM 0.33.0 asks before it moves CUDA graphs to the memory that sleep offloads."""


class VllmConfig:
    def __init__(self, model_config):
        self.model_config = model_config

    @property
    def use_cumem_cudagraph_pool(self):
        return self.model_config is not None and self.model_config.sleep_mode_backend == "cumem"
