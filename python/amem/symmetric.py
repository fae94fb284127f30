# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Symmetric memory of amem, with the names of torch.distributed._symmetric_memory.

    import amem.symmetric as symm_mem

    t = symm_mem.empty(4096, device="cuda")
    hdl = symm_mem.rendezvous(t, dist.group.WORLD)
    peer = hdl.get_buffer(next_rank, t.shape, t.dtype)
    hdl.barrier(channel=0)

amem.pause("symmetric") releases the memory on this rank, amem.resume("symmetric") restores it: calls of
other ranks that need this one wait until then. Functions enqueue their work in PyTorch's current stream, or
in `stream`, a cudaStream_t as an int. They raise AmemError with the reason.

PyTorch is not necessary: Buffer is memory without it, and without it get_buffer() returns an object for
from_dlpack() of other libraries.
"""

import ctypes
import sys
import weakref
from typing import Dict, List, Optional, Sequence

from . import groups
from .calls import call
from .dlpack import DeviceBytes
from .errors import AmemError
from .library import require_library

MAX_RANKS = 16
_TYPES = {"float32": 0, "float16": 1, "bfloat16": 2}  # amemDataType_t
_ONE_SHOT, _TWO_SHOT, _MULTIMEM = 1, 2, 3  # amemAllReduce_t
ENGINES = {"kernels": 0, "copy_engines": 1}  # amemEngine_t

_AllGather = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


class _Group(ctypes.Structure):
    """amemGroup_t."""

    _fields_ = [
        ("rank", ctypes.c_int),
        ("world_size", ctypes.c_int),
        ("all_gather", _AllGather),
        ("context", ctypes.c_void_p),
    ]


class _Info(ctypes.Structure):
    """amemSymmetricInfo_t."""

    _fields_ = [
        ("rank", ctypes.c_int),
        ("world_size", ctypes.c_int),
        ("device", ctypes.c_int),
        ("buffer_bytes", ctypes.c_size_t),
        ("signal_pad_bytes", ctypes.c_size_t),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
        ("signal_pads", ctypes.POINTER(ctypes.c_void_p)),
        ("device_buffers", ctypes.c_void_p),
        ("device_signal_pads", ctypes.c_void_p),
        ("multicast", ctypes.c_void_p),
    ]


def _stream(stream: Optional[int]) -> ctypes.c_void_p:
    torch = sys.modules.get("torch")
    if stream is None and torch is not None and torch.cuda.is_available():
        stream = torch.cuda.current_stream().cuda_stream
    return ctypes.c_void_p(stream or 0)


def _as_tensor(data: DeviceBytes, sizes: Sequence[int], dtype):
    torch = sys.modules.get("torch")
    if torch is None:
        return data
    return torch.from_dlpack(data).view(dtype).view(tuple(sizes))


class Buffer:
    """Symmetric memory on the device of the current CUDA context, and the handles on it.

    Freed when neither a tensor nor a handle refers to it.
    """

    _all: "weakref.WeakValueDictionary[int, Buffer]" = weakref.WeakValueDictionary()

    def __init__(self, size_bytes: int):
        pointer = ctypes.c_void_p()
        self._handles: Dict[str, int] = {}
        self.address = 0
        call("amemSymmetricMalloc", ctypes.byref(pointer), ctypes.c_size_t(size_bytes))
        self.address, self.size_bytes = pointer.value, size_bytes
        Buffer._all[self.address] = self

    def __del__(self):
        if sys is None or sys.is_finalizing() or not self.address:
            return
        scope = require_library()
        for handle in self._handles.values():
            scope.amemSymmetricDestroy(ctypes.c_void_p(handle))
        scope.amemSymmetricFree(ctypes.c_void_p(self.address))

    def handle_of(self, group) -> "Handle":
        if group.name not in self._handles:
            self._handles[group.name] = _rendezvous(self.address, group)
        return Handle(self, self._handles[group.name])

    @classmethod
    def of(cls, tensor) -> "Buffer":
        """The buffer that contains a tensor of PyTorch."""
        if isinstance(tensor, cls):
            return tensor
        address = tensor.data_ptr()
        for buffer in list(cls._all.values()):
            if buffer.address <= address < buffer.address + buffer.size_bytes:
                return buffer
        raise AmemError("the tensor is not in memory of amem.symmetric.empty()")


def _rendezvous(address: int, group) -> int:
    failure: List[BaseException] = []

    @_AllGather
    def all_gather(_context, mine, size_bytes, everything):
        try:
            gathered = group.all_gather(ctypes.string_at(mine, size_bytes))
            sizes = sorted({len(each) for each in gathered})
            if sizes != [size_bytes] or len(gathered) != group.world_size:
                raise AmemError(f"the group gathered {len(gathered)} items of {sizes} bytes, not {size_bytes}")
            ctypes.memmove(everything, b"".join(gathered), size_bytes * len(gathered))
            return 0
        except BaseException as error:  # pylint: disable=broad-except  # must not cross the C interface
            failure.append(error)
            return 1

    handle = ctypes.c_void_p()
    ranks = _Group(group.rank, group.world_size, all_gather, None)
    try:
        call("amemSymmetricRendezvous", ctypes.byref(handle), ctypes.c_void_p(address), ctypes.byref(ranks))
    except AmemError:
        if failure:
            raise failure[0] from None
        raise
    return handle.value


class Handle:
    """The memory of all ranks of a group (torch's _SymmetricMemory)."""

    def __init__(self, buffer: Buffer, handle: int):
        self._buffer, self._handle = buffer, ctypes.c_void_p(handle)
        info = _Info()
        call("amemSymmetricGetInfo", self._handle, ctypes.byref(info))
        self.rank, self.world_size, self.device = info.rank, info.world_size, info.device
        self.buffer_size, self.signal_pad_size = info.buffer_bytes, info.signal_pad_bytes
        self.buffer_ptrs = [info.buffers[rank] for rank in range(info.world_size)]
        self.signal_pad_ptrs = [info.signal_pads[rank] for rank in range(info.world_size)]
        self.buffer_ptrs_dev, self.signal_pad_ptrs_dev = info.device_buffers, info.device_signal_pads
        self.multicast_ptr = info.multicast or 0

    def has_multicast_support(self, _device_type=None, _device_index=None) -> bool:
        """Whether this handle has a multicast_ptr: AMEM_MULTICAST=1, and a GPU with multicast for each rank."""
        return self.multicast_ptr != 0

    def _part(self, pointers, limit_bytes, rank, sizes, dtype, storage_offset):
        element_bytes = 1 if dtype is None else dtype.itemsize
        count = 1
        for size in sizes:
            count *= size
        begin, size_bytes = storage_offset * element_bytes, count * element_bytes
        if not 0 <= rank < self.world_size or begin < 0 or begin + size_bytes > limit_bytes:
            raise AmemError(f"{size_bytes} bytes at {begin} of rank {rank}: it has {limit_bytes} bytes")
        data = DeviceBytes(pointers[rank] + begin, size_bytes, self.device, self)
        return _as_tensor(data, sizes, dtype)

    def get_buffer(self, rank: int, sizes: Sequence[int], dtype=None, storage_offset: int = 0):
        """A tensor in the buffer of a rank. `storage_offset` is in elements. Without a dtype: bytes."""
        return self._part(self.buffer_ptrs, self.buffer_size, rank, sizes, dtype, storage_offset)

    get_remote_tensor = get_buffer

    def get_signal_pad(self, rank: int, sizes: Sequence[int] = (), dtype=None, storage_offset: int = 0):
        """A tensor in the signal pad of a rank. Without sizes: all of it, as 32-bit words."""
        if not sizes:
            torch = sys.modules.get("torch")
            dtype = dtype or (torch.uint32 if torch is not None else None)
            sizes = [self.signal_pad_size // (1 if dtype is None else dtype.itemsize) - storage_offset]
        return self._part(self.signal_pad_ptrs, self.signal_pad_size, rank, sizes, dtype, storage_offset)

    def barrier(self, channel: int = 0, timeout_ms: int = 0, *, stream: Optional[int] = None) -> None:
        """All ranks have reached this barrier. Timeouts: 0 is AMEM_GATE_TIMEOUT_MS."""
        call("amemSymmetricBarrier", self._handle, channel, _stream(stream), ctypes.c_uint64(timeout_ms))

    def put_signal(self, dst_rank: int, channel: int = 0, timeout_ms: int = 0, *, stream: Optional[int] = None) -> None:
        arguments = (dst_rank, channel, _stream(stream), ctypes.c_uint64(timeout_ms))
        call("amemSymmetricPutSignal", self._handle, *arguments)

    def wait_signal(
        self, src_rank: int, channel: int = 0, timeout_ms: int = 0, *, stream: Optional[int] = None
    ) -> None:
        arguments = (src_rank, channel, _stream(stream), ctypes.c_uint64(timeout_ms))
        call("amemSymmetricWaitSignal", self._handle, *arguments)

    def write_value32(self, address: int, value: int, *, stream: Optional[int] = None) -> None:
        """Writes a word of any rank's buffer or signal pad (cuStreamWriteValue32)."""
        arguments = (ctypes.c_void_p(address), ctypes.c_uint32(value), _stream(stream))
        call("amemSymmetricWriteValue32", self._handle, *arguments)

    def clear_signal_pad(self, *, stream: Optional[int] = None) -> None:
        call("amemSymmetricClearSignalPad", self._handle, _stream(stream))

    def check_error(self) -> None:
        """Raises AmemError if a kernel has not met a peer, or a peer has ended. Synchronize first."""
        call("amemSymmetricGetError", self._handle)

    # --- Collectives on addresses. `offset_bytes` is in the buffer.

    def all_reduce(self, output: int, offset_bytes: int, count: int, dtype: str, algorithm=0, stream=None) -> None:
        arguments = (ctypes.c_void_p(output), ctypes.c_size_t(offset_bytes), ctypes.c_size_t(count))
        call("amemSymmetricAllReduce", self._handle, *arguments, _type(dtype), algorithm, _stream(stream))

    def all_gather(self, output: int, offset_bytes: int, size_bytes: int, engine="kernels", stream=None) -> None:
        arguments = (ctypes.c_void_p(output), ctypes.c_size_t(offset_bytes), ctypes.c_size_t(size_bytes))
        call("amemSymmetricAllGather", self._handle, *arguments, ENGINES[engine], _stream(stream))

    def multimem_all_gather(self, input_address: int, offset_bytes: int, size_bytes: int, stream=None) -> None:
        arguments = (ctypes.c_void_p(input_address), ctypes.c_size_t(offset_bytes), ctypes.c_size_t(size_bytes))
        call("amemSymmetricMultimemAllGather", self._handle, *arguments, _stream(stream))

    def all_to_all(self, output: int, offset_bytes: int, size_bytes: int, engine="kernels", stream=None) -> None:
        arguments = (ctypes.c_void_p(output), ctypes.c_size_t(offset_bytes), ctypes.c_size_t(size_bytes))
        call("amemSymmetricAllToAll", self._handle, *arguments, ENGINES[engine], _stream(stream))

    def reduce_scatter(
        self, output: int, offset_bytes: int, count: int, dtype: str, engine="kernels", scratch=0, stream=None
    ) -> None:
        arguments = (ctypes.c_void_p(output), ctypes.c_size_t(offset_bytes), ctypes.c_size_t(count))
        last = (_type(dtype), ENGINES[engine], ctypes.c_void_p(scratch), _stream(stream))
        call("amemSymmetricReduceScatter", self._handle, *arguments, *last)


def _type(dtype) -> int:
    name = str(dtype).rsplit(".", maxsplit=1)[-1]
    if name not in _TYPES:
        raise AmemError(f"{dtype} cannot be reduced; these can: {', '.join(_TYPES)}")
    return _TYPES[name]


def empty(*size, dtype=None, device=None):
    """A tensor of PyTorch in symmetric memory. Arguments as torch.empty(); the device must be a GPU."""
    import torch

    sizes = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    dtype = dtype or torch.get_default_dtype()
    count = 1
    for each in sizes:
        count *= each
    with torch.cuda.device(device if device is not None else torch.cuda.current_device()):
        torch.empty(1, device="cuda")  # makes the context current
        buffer = Buffer(max(count * dtype.itemsize, 1))
        index = torch.cuda.current_device()
    return _as_tensor(DeviceBytes(buffer.address, count * dtype.itemsize, index, buffer), sizes, dtype)


def rendezvous(tensor, group=None) -> Handle:
    """The handle of the buffer of a tensor. Collective: all ranks of the group call it; again, it returns the same.

    Args:
        tensor: of empty(), or a Buffer.
        group: a ProcessGroup of torch.distributed, its name, None for all ranks, or a group of amem.groups.
    """
    if group is None or isinstance(group, str) or not hasattr(group, "all_gather"):
        group = groups.of_torch(group)
    return Buffer.of(tensor).handle_of(group)


def set_signal_pad_size(size_bytes: int) -> None:
    call("amemSymmetricSetSignalPadSize", ctypes.c_size_t(size_bytes))


def get_signal_pad_size() -> int:
    return require_library().amemSymmetricGetSignalPadSize()


def enable_symm_mem_for_group(_group_name: str) -> None:
    """Nothing is necessary."""


# --- Operators, as those of torch.ops.symm_mem


def _reduce(tensor, reduce_op, group, output, algorithm):
    if reduce_op != "sum":
        raise AmemError(f"the operation {reduce_op!r} is not supported, only 'sum'")
    handle = rendezvous(tensor, group)
    offset_bytes = tensor.data_ptr() - Buffer.of(tensor).address
    handle.all_reduce(output.data_ptr(), offset_bytes, tensor.numel(), tensor.dtype, algorithm)
    return output


def one_shot_all_reduce(tensor, reduce_op: str = "sum", group=None):
    """The sum of all ranks' tensors in a new tensor. All ranks read all data: for small tensors."""
    return _reduce(tensor, reduce_op, group, tensor.new_empty(tensor.shape), _ONE_SHOT)


def two_shot_all_reduce_(tensor, reduce_op: str = "sum", group=None):
    """The same in place, for large tensors."""
    return _reduce(tensor, reduce_op, group, tensor, _TWO_SHOT)


def multimem_all_reduce_(tensor, reduce_op: str = "sum", group=None):
    """The same by multicast. Needs handle.has_multicast_support()."""
    return _reduce(tensor, reduce_op, group, tensor, _MULTIMEM)


def multimem_all_gather_out(tensor, group=None, out=None):
    """All ranks' tensors, by rank, in `out` of each rank, which is of empty(). Needs has_multicast_support()."""
    handle = rendezvous(out, group)
    if out.nbytes != handle.world_size * tensor.nbytes:
        raise AmemError(f"out has {out.nbytes} bytes, for {handle.world_size} tensors of {tensor.nbytes}")
    handle.multimem_all_gather(tensor.data_ptr(), out.data_ptr() - Buffer.of(out).address, tensor.nbytes)
    return out


def all_gather(tensor, group=None, *, engine: str = "kernels"):
    """All ranks' tensors, by rank. engine="copy_engines" leaves the multiprocessors to other kernels."""
    handle = rendezvous(tensor, group)
    output = tensor.new_empty((handle.world_size * tensor.shape[0], *tensor.shape[1:]))
    offset_bytes = tensor.data_ptr() - Buffer.of(tensor).address
    handle.all_gather(output.data_ptr(), offset_bytes, tensor.nbytes, engine)
    return output


def reduce_scatter(tensor, group=None, *, engine: str = "kernels"):
    """The sum of this rank's part of all ranks' tensors; parts are along dimension 0."""
    handle = rendezvous(tensor, group)
    if tensor.shape[0] % handle.world_size != 0:
        raise AmemError(f"dimension 0 has {tensor.shape[0]} elements, for {handle.world_size} ranks")
    output = tensor.new_empty((tensor.shape[0] // handle.world_size, *tensor.shape[1:]))
    scratch = tensor.new_empty(tensor.shape) if engine == "copy_engines" else None
    offset_bytes = tensor.data_ptr() - Buffer.of(tensor).address
    address = 0 if scratch is None else scratch.data_ptr()
    handle.reduce_scatter(output.data_ptr(), offset_bytes, output.numel(), tensor.dtype, engine, address)
    return output


def all_to_all(tensor, group=None, *, engine: str = "kernels"):
    """Part r of the result is this rank's part of rank r's tensor; parts are along dimension 0."""
    handle = rendezvous(tensor, group)
    if tensor.shape[0] % handle.world_size != 0:
        raise AmemError(f"dimension 0 has {tensor.shape[0]} elements, for {handle.world_size} ranks")
    output = tensor.new_empty(tensor.shape)
    offset_bytes = tensor.data_ptr() - Buffer.of(tensor).address
    handle.all_to_all(output.data_ptr(), offset_bytes, tensor.nbytes // handle.world_size, engine)
    return output
