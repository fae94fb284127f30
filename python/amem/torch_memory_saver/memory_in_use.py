# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""torch_memory_saver.testing_utils, implemented by amem."""

from .preload import is_xpu


def get_device() -> str:
    """The name of PyTorch's device."""
    return "xpu" if is_xpu() else "cuda"


def empty_cache() -> None:
    """torch.cuda.empty_cache()."""
    import torch

    torch.cuda.empty_cache()


def get_and_print_gpu_memory(message: str, gpu_id: int = 0) -> int:
    """The bytes in use on a GPU, by all processes."""
    import torch

    free, total = torch.cuda.mem_get_info(gpu_id)
    print(f"GPU {gpu_id}: {(total - free) / 2**30:.2f} GiB in use ({message})")
    return int(total - free)
