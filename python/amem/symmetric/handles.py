# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Buffers of symmetric memory and the handles on them, by the functions of amem/symmetric.h."""

import ctypes
import operator
import sys
import weakref
from typing import Any, ClassVar, Dict, List, Literal, Optional, Sequence, Tuple

from .. import groups
from ..calls import Int, check_tensor, in_c, value_of
from ..errors import AmemError, AmemValueError
from .dlpack import DeviceBytes
from .library import AllGather, Group, SymmetricInfo, call, require_symmetric_library

_TYPES = {"float32": 0, "float16": 1, "bfloat16": 2}  # amemDataType_t
Engine = Literal["kernels", "copy_engines"]
ENGINES: Dict[Engine, int] = {"kernels": 0, "copy_engines": 1}  # amemEngine_t


def _stream(stream: Optional[int]) -> int:
    torch = sys.modules.get("torch")
    if stream is None and torch is not None and torch.cuda.is_available():
        stream = torch.cuda.current_stream().cuda_stream
    return 0 if stream is None else stream


def product(sizes: Sequence[int]) -> int:
    """The number of elements of a tensor with these sizes."""
    count = 1
    for size in sizes:
        if size < 0:
            raise AmemValueError(f"the sizes {list(sizes)} contain a negative one")
        count *= operator.index(size)
    return count


def as_tensor(data: DeviceBytes, sizes: Sequence[int], dtype: Any) -> Any:
    torch = sys.modules.get("torch")
    if torch is None:
        return data
    return torch.from_dlpack(data).view(dtype).view(tuple(sizes))


class Buffer:
    """Symmetric memory on the device of the current CUDA context, and the handles on it.

    Freed when neither a tensor nor a handle refers to it.
    """

    _all: ClassVar["weakref.WeakValueDictionary[int, Buffer]"] = weakref.WeakValueDictionary()

    def __init__(self, size_bytes: int) -> None:
        pointer = ctypes.c_void_p()
        self._handles: Dict[str, int] = {}
        self.address = 0
        call("amemSymmetricMalloc", ctypes.byref(pointer), size_bytes)
        self.address, self.size_bytes = pointer.value or 0, size_bytes
        Buffer._all[self.address] = self

    def __del__(self) -> None:
        if sys is None or sys.is_finalizing() or not self.address:
            return
        scope = require_symmetric_library()
        for handle in self._handles.values():
            value_of("amemSymmetricDestroy", handle, library=scope)
        value_of("amemSymmetricFree", self.address, library=scope)

    def handle_of(self, group: groups.Group) -> "Handle":
        if group.name not in self._handles:
            self._handles[group.name] = _rendezvous(self.address, group)
        return Handle(self, self._handles[group.name])

    @classmethod
    def of(cls, tensor: Any) -> "Buffer":
        """The buffer that contains a tensor of PyTorch."""
        if isinstance(tensor, cls):
            return tensor
        check_tensor(tensor)
        address = tensor.data_ptr()
        for buffer in list(cls._all.values()):
            if buffer.address <= address < buffer.address + buffer.size_bytes:
                return buffer
        raise AmemError("the tensor is not in memory of amem.symmetric.empty()")


def _rendezvous(address: int, group: groups.Group) -> int:
    failure: List[BaseException] = []

    def all_gather(_context: object, mine: int, size_bytes: int, everything: int) -> int:
        try:
            gathered = group.all_gather(ctypes.string_at(mine, size_bytes))
            sizes = sorted({len(each) for each in gathered})
            if sizes != [size_bytes] or len(gathered) != group.world_size:
                raise AmemError(f"the group gathered {len(gathered)} items of {sizes} bytes, not {size_bytes}")
            ctypes.memmove(everything, b"".join(gathered), size_bytes * len(gathered))
            return 0
        except BaseException as error:  # must not cross the C interface
            failure.append(error)
            return 1

    handle = ctypes.c_void_p()
    rank, world_size = (in_c(Int(getattr(group, name)), name) for name in ("rank", "world_size"))
    ranks = Group(rank, world_size, AllGather(all_gather), None)
    try:
        call("amemSymmetricRendezvous", ctypes.byref(handle), address, ctypes.byref(ranks))
    except AmemError:
        if failure:
            raise failure[0] from None
        raise
    return handle.value or 0


class Handle:
    """The memory of all ranks of a group (torch's _SymmetricMemory)."""

    def __init__(self, buffer: Buffer, handle: int) -> None:
        self._buffer, self._handle = buffer, handle
        info = SymmetricInfo()
        call("amemSymmetricGetInfo", self._handle, ctypes.byref(info))
        self.rank, self.world_size, self._device = info.rank, info.world_size, info.device
        self.buffer_size, self.signal_pad_size = info.buffer_bytes, info.signal_pad_bytes
        self.buffer_ptrs = [info.buffers[rank] for rank in range(info.world_size)]
        self.signal_pad_ptrs = [info.signal_pads[rank] for rank in range(info.world_size)]
        self.buffer_ptrs_dev, self.signal_pad_ptrs_dev = info.device_buffers, info.device_signal_pads
        self.multicast_ptr = info.multicast or 0

    @property
    def device(self) -> Any:
        """A torch.device; the driver's ordinal without PyTorch."""
        torch = sys.modules.get("torch")
        return self._device if torch is None else torch.device("cuda", self._device)

    def has_multicast_support(self, _device_type: Any = None, _device_index: Any = None) -> bool:
        """Whether this handle has a multicast_ptr: AMEM_MULTICAST=1, and a GPU with multicast for each rank."""
        return self.multicast_ptr != 0

    def _part(
        self, pointers: List[int], limit_bytes: int, rank: int, sizes: Sequence[int], dtype: Any, storage_offset: int
    ) -> Any:
        element_bytes = 1 if dtype is None else dtype.itemsize
        begin, size_bytes = operator.index(storage_offset) * element_bytes, product(sizes) * element_bytes
        if not 0 <= rank < self.world_size:
            raise AmemError(f"there is no rank {rank}: the group has {self.world_size} ranks")
        if begin < 0 or begin + size_bytes > limit_bytes:
            raise AmemError(f"{size_bytes} bytes at {begin} of rank {rank}: it has {limit_bytes} bytes")
        data = DeviceBytes(pointers[rank] + begin, size_bytes, self._device, self)
        return as_tensor(data, sizes, dtype)

    def get_buffer(self, rank: int, sizes: Sequence[int], dtype: Any = None, storage_offset: int = 0) -> Any:
        """A tensor in the buffer of a rank. `storage_offset` is in elements. Without a dtype: bytes."""
        return self._part(self.buffer_ptrs, self.buffer_size, rank, sizes, dtype, storage_offset)

    get_remote_tensor = get_buffer

    def get_signal_pad(self, rank: int, sizes: Sequence[int] = (), dtype: Any = None, storage_offset: int = 0) -> Any:
        """A tensor in the signal pad of a rank. Without sizes: all of it, as 32-bit words."""
        if not sizes:
            torch = sys.modules.get("torch")
            dtype = dtype or (torch.uint32 if torch is not None else None)
            sizes = [self.signal_pad_size // (1 if dtype is None else dtype.itemsize) - storage_offset]
        return self._part(self.signal_pad_ptrs, self.signal_pad_size, rank, sizes, dtype, storage_offset)

    def barrier(self, channel: int = 0, timeout_ms: int = 0, *, stream: Optional[int] = None) -> None:
        """All ranks have reached this barrier. Timeouts: 0 is AMEM_GATE_TIMEOUT_MS."""
        call("amemSymmetricBarrier", self._handle, Int(channel), _stream(stream), timeout_ms)

    def put_signal(self, dst_rank: int, channel: int = 0, timeout_ms: int = 0, *, stream: Optional[int] = None) -> None:
        call("amemSymmetricPutSignal", self._handle, Int(dst_rank), Int(channel), _stream(stream), timeout_ms)

    def wait_signal(self, src_rank: int, channel: int = 0, timeout_ms: int = 0, *, stream: Optional[int] = None) -> None:
        call("amemSymmetricWaitSignal", self._handle, Int(src_rank), Int(channel), _stream(stream), timeout_ms)

    def write_value32(self, address: int, value: int, *, stream: Optional[int] = None) -> None:
        """Writes a word of any rank's buffer or signal pad (cuStreamWriteValue32)."""
        call("amemSymmetricWriteValue32", self._handle, address, Int(value, ctypes.c_uint32), _stream(stream))

    def fill32(self, address: int, value: int, count: int, *, stream: Optional[int] = None) -> None:
        """Sets words of any rank's buffer or signal pad (cuMemsetD32Async)."""
        call("amemSymmetricMemset32", self._handle, address, Int(value, ctypes.c_uint32), count, _stream(stream))

    @staticmethod
    def stream_write_value32(tensor: Any, offset: int, val: int) -> Any:
        """Writes word `offset` of a tensor in a buffer or signal pad of any rank. Returns the tensor."""
        handle, address = _words(tensor, offset, 1)
        handle.write_value32(address, val)
        return tensor

    @staticmethod
    def memset32(tensor: Any, offset: int, val: int, count: int = 1) -> Any:
        """Sets `count` words of such a tensor from word `offset` on. Returns the tensor."""
        handle, address = _words(tensor, offset, count)
        handle.fill32(address, val, count)
        return tensor

    def clear_signal_pad(self, *, stream: Optional[int] = None) -> None:
        call("amemSymmetricClearSignalPad", self._handle, _stream(stream))

    def check_error(self) -> None:
        """Raises AmemError if a kernel has not met a peer, or a peer has ended. Synchronize first."""
        call("amemSymmetricGetError", self._handle)

    # --- Collectives on addresses. `offset_bytes` is in the buffer.

    def all_reduce(
        self, output: int, offset_bytes: int, count: int, dtype: Any, algorithm: int = 0, stream: Optional[int] = None
    ) -> None:
        call("amemSymmetricAllReduce", self._handle, output, offset_bytes, count, _type(dtype), Int(algorithm), _stream(stream))

    def all_gather(
        self, output: int, offset_bytes: int, size_bytes: int, engine: Engine = "kernels", stream: Optional[int] = None
    ) -> None:
        call("amemSymmetricAllGather", self._handle, output, offset_bytes, size_bytes, _engine(engine), _stream(stream))

    def multimem_all_gather(self, input_address: int, offset_bytes: int, size_bytes: int, stream: Optional[int] = None) -> None:
        call("amemSymmetricMultimemAllGather", self._handle, input_address, offset_bytes, size_bytes, _stream(stream))

    def all_to_all(
        self, output: int, offset_bytes: int, size_bytes: int, engine: Engine = "kernels", stream: Optional[int] = None
    ) -> None:
        call("amemSymmetricAllToAll", self._handle, output, offset_bytes, size_bytes, _engine(engine), _stream(stream))

    def reduce_scatter(
        self,
        output: int,
        offset_bytes: int,
        count: int,
        dtype: Any,
        engine: Engine = "kernels",
        scratch: int = 0,
        stream: Optional[int] = None,
    ) -> None:
        handle, queue = self._handle, _stream(stream)
        call("amemSymmetricReduceScatter", handle, output, offset_bytes, count, _type(dtype), _engine(engine), scratch, queue)


def _words(tensor: Any, offset: int, count: int) -> Tuple[Handle, int]:
    """The handle whose memory the tensor is in, and the address of its word `offset`."""
    offset, count = operator.index(offset), operator.index(count)
    if isinstance(tensor, (Buffer, DeviceBytes)):
        address, size_bytes = tensor.address, tensor.size_bytes
    else:
        check_tensor(tensor, "dtype")
        if tensor.dtype.itemsize != 4 or not tensor.is_contiguous():
            raise AmemError(f"the tensor is not contiguous with elements of 4 bytes: {tensor.dtype}")
        address, size_bytes = tensor.data_ptr(), tensor.nbytes
    if offset < 0 or count < 0 or 4 * (offset + count) > size_bytes:
        raise AmemError(f"{count} words at word {offset}: the tensor has {size_bytes} bytes")
    address += 4 * offset
    for buffer in list(Buffer._all.values()):
        for number in list(buffer._handles.values()):
            handle = Handle(buffer, number)
            parts = [(begin, handle.buffer_size) for begin in handle.buffer_ptrs]
            parts += [(begin, handle.signal_pad_size) for begin in handle.signal_pad_ptrs]
            if any(begin <= address < begin + part_bytes for begin, part_bytes in parts):
                return handle, address
    raise AmemError("the tensor is not in a buffer or signal pad of a handle: call rendezvous() first")


def _type(dtype: Any) -> Int:
    name = str(dtype).rsplit(".", maxsplit=1)[-1]
    if name not in _TYPES:
        raise AmemValueError(f"{dtype} cannot be reduced; these can: {', '.join(_TYPES)}")
    return Int(_TYPES[name])


def _engine(name: Engine) -> Int:
    if name not in tuple(ENGINES):
        raise AmemValueError(f"there is no engine {name!r}, only {' and '.join(ENGINES)}")
    return Int(ENGINES[name])
