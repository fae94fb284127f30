# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The order of pools in PyTorch 2.8 and 2.9, which allocate from the pool to which a thread has been routed first. In a thread with a
region the last one counts, as in newer versions.

Not public in PyTorch, read in 2.8 and 2.9: the functions of torch._C below, which torch.cuda.memory imports, and
torch.cuda.CUDAGraph.capture_begin(), which routes too.
"""

import contextlib
import functools
import threading
from typing import Any, Callable, List, NamedTuple, Optional, Set, Tuple

_FOR_THREAD, _FOR_ALL = "_cuda_beginAllocateCurrentThreadToPool", "_cuda_beginAllocateToPool"
_END, _RELEASE = "_cuda_endAllocateToPool", "_cuda_releasePool"
PoolId = Tuple[int, int]


class _Routing(NamedTuple):
    thread: Optional[int]  # None for all threads
    begin: Callable[[int, PoolId], None]
    device: int
    pool: PoolId


_mutex = threading.RLock()  # a region may end in a finalizer
_routings: List[_Routing] = []  # the last one first
of_amem: Set[PoolId] = set()


@functools.lru_cache(maxsize=None)
def keep(torch: Any) -> None:
    """Keeps this order from now on."""
    if not torch.cuda._is_compiled() or not (2, 8) <= torch.__version__ < (2, 10):
        return
    end, release, capture = getattr(torch._C, _END), getattr(torch._C, _RELEASE), torch.cuda.CUDAGraph.capture_begin

    def move_behind(pool: Optional[PoolId], device: int) -> None:
        outer = [each for each in _routings if each.device == device and each.thread in (None, threading.get_ident())]
        if of_amem.isdisjoint([pool, *(each.pool for each in outer)]):
            return  # as without amem
        for each in outer:
            with contextlib.suppress(RuntimeError):  # it has ended by a function that was imported before
                end(device, each.pool)
                each.begin(device, each.pool)
                release(device, each.pool)  # each begin takes a reference

    def first(name: str) -> Callable[[int, PoolId], None]:
        begin = getattr(torch._C, name)

        def begin_first(device: int, pool: PoolId) -> None:
            with _mutex:
                begin(device, pool)
                move_behind(pool, device)
                _routings.insert(0, _Routing(None if name == _FOR_ALL else threading.get_ident(), begin, device, pool))

        return begin_first

    def end_known(device: int, pool: PoolId) -> None:
        with _mutex:
            end(device, pool)
            _routings[:] = [each for each in _routings if (each.device, each.pool) != (device, pool)]

    def capture_first(self: Any, *arguments: Any, **named: Any) -> None:
        capture(self, *arguments, **named)
        with _mutex:
            move_behind(None, torch.cuda.current_device())

    for name, function in ((_FOR_THREAD, first(_FOR_THREAD)), (_FOR_ALL, first(_FOR_ALL)), (_END, end_known)):
        for module in (torch._C, torch.cuda.memory):
            setattr(module, name, function)
    torch.cuda.CUDAGraph.capture_begin = capture_first
