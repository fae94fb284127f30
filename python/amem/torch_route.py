# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""From the beginning of a region to its end PyTorch allocates from pools of amem, on every device."""

import contextlib
import logging
import threading
from typing import Any, Optional

from . import torch_order, torch_pools
from .errors import AmemError
from .torch_checks import BEGIN, can_route, torch_module, torch_with_cuda

_LOG = logging.getLogger(__name__)


class Route:
    """PyTorch allocates from pools of this tag from start() to end(): for the calling thread, or for all threads."""

    def __init__(self, tag: Optional[str], kind: int, all_threads: bool) -> None:
        self._tag, self._kind, self._all_threads = tag, kind, all_threads
        self._thread, self._has_ended = threading.get_ident(), False
        self._stack = contextlib.ExitStack()

    def start(self) -> None:
        torch = torch_module()
        if torch is None:
            self._stack.callback(self._check_import)
            return
        torch_order.keep(torch)
        if torch.cuda.is_initialized() or not hasattr(torch.cuda, "_lazy_call"):
            self._start(torch)
        else:
            torch.cuda._lazy_call(self._start_late)

    def _check_import(self) -> None:
        if torch_with_cuda() is not None:
            _LOG.warning("The region %r has no effect on PyTorch, which was imported inside it: import torch before", self._tag)

    def _start_late(self) -> None:
        """CUDA has been initialized by the calling thread."""
        if self._has_ended:
            return
        if not self._all_threads and self._thread != threading.get_ident():
            _LOG.warning("The region %r has no effect on PyTorch: another thread has initialized CUDA inside it", self._tag)
            return
        try:
            self._start(torch_module())
        except AmemError as error:  # would make torch.cuda unusable
            _LOG.error("The region %r has no effect on PyTorch: %s", self._tag, error)

    def _start(self, torch: Any) -> None:
        if not can_route(torch):
            return
        with contextlib.ExitStack() as stack:
            for device in range(torch.cuda.device_count()):
                pool = torch_pools.take(torch, torch_pools.Owner(self._tag, self._kind, device))
                stack.callback(torch_pools.give_back, torch, pool)
                getattr(torch._C, BEGIN[self._all_threads])(device, pool.id)
                stack.callback(torch._C._cuda_releasePool, device, pool.id)
                stack.callback(torch._C._cuda_endAllocateToPool, device, pool.id)
            self._stack = stack.pop_all()

    def end(self) -> None:
        """May be called from any thread, and without start()."""
        self._has_ended = True
        self._stack.close()  # each step whether or not another one fails
