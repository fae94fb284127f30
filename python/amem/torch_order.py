# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The order of pools in PyTorch 2.8 and 2.9, which allocate from the pool to which a thread has been routed first: what a region
keeps would be lost inside one that discards. In a thread with a region the last one counts, as in newer versions.

Not public in PyTorch, read in 2.8 and 2.9: the functions of torch._C below, which torch.cuda.memory imports, and
torch.cuda.CUDAGraph.capture_begin(), which routes too.
"""

import contextlib
import functools
import threading
from typing import Any, Callable, List, Optional, Tuple

from .torch_checks import BEGIN, torch_module
from .torch_pools import PoolId, owners

_mutex = threading.RLock()  # a region may end in a finalizer
# The last one first: the thread, or None for all threads; how it began; device and pool.
_routings: List[Tuple[Optional[int], Callable[[int, PoolId], None], int, PoolId]] = []


@functools.lru_cache(maxsize=None)
def keep(torch: Any) -> None:
    """Keeps this order from now on."""
    if not torch.cuda._is_compiled() or not (2, 8) <= torch.__version__ < (2, 10):
        return
    end, release, capture = torch._C._cuda_endAllocateToPool, torch._C._cuda_releasePool, torch.cuda.CUDAGraph.capture_begin

    def move_behind(device: int, pool: Optional[PoolId] = None) -> None:
        outer = [each for each in _routings if each[0] in (None, threading.get_ident()) and each[2] == device]
        if owners.keys().isdisjoint([pool, *(each[3] for each in outer)]):
            return  # as without amem
        for _, begin, _, each in outer:
            with contextlib.suppress(RuntimeError):  # it has ended by a function that was imported before
                end(device, each)
                begin(device, each)
                release(device, each)  # each begin takes a reference

    def begin_first(begin: Callable[..., None], thread: Callable[[], Optional[int]], device: int, pool: PoolId) -> None:
        with _mutex:
            begin(device, pool)
            move_behind(device, pool)
            _routings.insert(0, (thread(), begin, device, pool))

    def end_known(device: int, pool: PoolId) -> None:
        with _mutex:
            end(device, pool)
            _routings[:] = [each for each in _routings if each[2:] != (device, pool)]

    def capture_first(self: Any, *arguments: Any, **named: Any) -> None:
        capture(self, *arguments, **named)
        with _mutex:
            move_behind(torch.cuda.current_device())

    begins = zip(BEGIN, (threading.get_ident, lambda: None))
    replaced = {name: functools.partial(begin_first, getattr(torch._C, name), thread) for name, thread in begins}
    for module in (torch.cuda.memory, torch._C):
        vars(module).update(replaced, _cuda_endAllocateToPool=end_known)
    torch.cuda.CUDAGraph.capture_begin = capture_first


if torch_module() is not None:
    keep(torch_module())  # before the program uses pools of its own
