# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The PyTorch of this process, and what regions need of it. They initialize nothing."""

import logging
import os
import sys
from typing import Any

from .errors import AmemError

_LOG = logging.getLogger(__name__)
# Not public in PyTorch, read in 2.8 to 2.15; torch_order.py lists those of 2.8 and 2.9. Without one of them regions have no
# effect on PyTorch, with a warning.
BEGIN = ("_cuda_beginAllocateCurrentThreadToPool", "_cuda_beginAllocateToPool")  # for all threads: the second
_OF_C = (*BEGIN, "_cuda_endAllocateToPool", "_cuda_hasPrimaryContext", "_cuda_releasePool")
_OF_CUDA = ("_lazy_call", "_maybe_exchange_device")
# Not public either, and replaced. Without them torch.cuda.empty_cache() leaves up to 64 MiB of free memory for each tag.
EMPTY_CACHE = ("_cuda_emptyCache", "_accelerator_emptyCache")
OF_HANDLES = (BEGIN[0], "_cuda_endAllocateToPool")  # with the id of a pool


def torch_module() -> Any:
    """The torch module, imported by the program; None if it is not, or not yet complete."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "cuda") else None


def torch_with_cuda() -> Any:
    """The torch module; None unless PyTorch has initialized CUDA in this process. Does not initialize it."""
    torch = torch_module()
    return torch if torch is not None and torch.cuda.is_initialized() else None


def is_capturing() -> bool:
    """True if the calling thread captures a CUDA graph with PyTorch."""
    torch = torch_with_cuda()
    return torch is not None and torch.cuda.is_current_stream_capturing()


def can_route(torch: Any) -> bool:
    """False, with a warning, if regions have no effect on tensors."""
    missing = [name for owner, names in ((torch._C, _OF_C), (torch.cuda, _OF_CUDA)) for name in names if not hasattr(owner, name)]
    reason = ""
    if missing:
        reason = f"PyTorch {torch.__version__} has no {missing[0]}(): use PyTorch 2.8 or newer, or amem run --tensors"
    if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        reason = "PYTORCH_NO_CUDA_MEMORY_CACHING is set"
    if reason:
        _LOG.warning("Regions have no effect on tensors of PyTorch: %s", reason)
    return not reason


def check_backend() -> None:
    """Raises AmemError if PyTorch's allocator has no pools."""
    torch = torch_module()
    backend = torch.cuda.get_allocator_backend() if torch is not None and torch.cuda._is_compiled() else "native"
    if backend != "native":
        raise AmemError(
            f"regions need PyTorch's native allocator, and this process uses {backend!r}: set no backend in "
            "PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF, and do not call change_current_allocator()"
        )
