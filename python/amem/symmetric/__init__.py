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

from typing import Any, Tuple

from .. import groups
from ..errors import AmemError, AmemValueError
from .dlpack import DeviceBytes
from .handles import Buffer, Engine, Handle, as_tensor, product
from .library import call, require_symmetric_library

_ONE_SHOT, _TWO_SHOT, _MULTIMEM = 1, 2, 3  # amemAllReduce_t


def empty(*size: Any, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of PyTorch in symmetric memory. Arguments as torch.empty(); the device must be a GPU."""
    import torch

    sizes = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    dtype = dtype or torch.get_default_dtype()
    count = product(sizes)
    with torch.cuda.device(device if device is not None else torch.cuda.current_device()):
        torch.empty(1, device="cuda")  # makes the context current
        buffer = Buffer(max(count * dtype.itemsize, 1))
        index = torch.cuda.current_device()
    return as_tensor(DeviceBytes(buffer.address, count * dtype.itemsize, index, buffer), sizes, dtype)


def rendezvous(tensor: Any, group: Any = None) -> Handle:
    """The handle of the buffer of a tensor. Collective: all ranks of the group call it; again, it returns the same.

    Args:
        tensor: of empty(), or a Buffer.
        group: a ProcessGroup of torch.distributed, its name, None for all ranks, or a group of amem.groups.
    """
    buffer = Buffer.of(tensor)
    if group is None or isinstance(group, str) or not hasattr(group, "all_gather"):
        group = groups.of_torch(group)
    return buffer.handle_of(group)


def set_signal_pad_size(size_bytes: int) -> None:
    call("amemSymmetricSetSignalPadSize", size_bytes)


def get_signal_pad_size() -> int:
    return int(require_symmetric_library().amemSymmetricGetSignalPadSize())


def enable_symm_mem_for_group(_group_name: str) -> None:
    """Nothing is necessary."""


def is_symm_mem_enabled_for_group(_group_name: str) -> bool:
    return True


def is_nvshmem_available() -> bool:
    """amem does not use NVSHMEM."""
    return False


def get_backend(_device: Any) -> str:
    return "CUDA"


def set_backend(name: str) -> None:
    if name != "CUDA":
        raise AmemValueError(f"amem.symmetric has no backend {name!r}, only 'CUDA'")


# --- Operators, as those of torch.ops.symm_mem


def _input(tensor: Any, group: Any) -> Tuple[Handle, int]:
    """The handle of the buffer of a tensor, and where the tensor is in the buffer, in bytes."""
    return rendezvous(tensor, group), tensor.data_ptr() - Buffer.of(tensor).address


def _check_parts(tensor: Any, handle: Handle) -> None:
    if tensor.shape[0] % handle.world_size != 0:
        raise AmemError(f"dimension 0 has {tensor.shape[0]} elements, for {handle.world_size} ranks")


def _reduce(tensor: Any, reduce_op: str, group: Any, output: Any, algorithm: int) -> Any:
    if reduce_op != "sum":
        raise AmemValueError(f"the operation {reduce_op!r} is not supported, only 'sum'")
    handle, offset_bytes = _input(tensor, group)
    handle.all_reduce(output.data_ptr(), offset_bytes, tensor.numel(), tensor.dtype, algorithm)
    return output


def one_shot_all_reduce(tensor: Any, reduce_op: str = "sum", group: Any = None) -> Any:
    """The sum of all ranks' tensors in a new tensor. All ranks read all data: for small tensors."""
    return _reduce(tensor, reduce_op, group, tensor.new_empty(tensor.shape), _ONE_SHOT)


def one_shot_all_reduce_out(tensor: Any, reduce_op: str, group: Any, out: Any) -> Any:
    """The same in `out`."""
    return _reduce(tensor, reduce_op, group, out, _ONE_SHOT)


def two_shot_all_reduce_(tensor: Any, reduce_op: str = "sum", group: Any = None) -> Any:
    """The same in place, for large tensors."""
    return _reduce(tensor, reduce_op, group, tensor, _TWO_SHOT)


def two_shot_all_reduce_out(tensor: Any, reduce_op: str, group: Any, output: Any) -> Any:
    """The same in `output`; `tensor` has the sum too."""
    return _reduce(tensor, reduce_op, group, output, _TWO_SHOT)


def multimem_all_reduce_(tensor: Any, reduce_op: str = "sum", group: Any = None) -> Any:
    """The same by multicast. Needs handle.has_multicast_support()."""
    return _reduce(tensor, reduce_op, group, tensor, _MULTIMEM)


def multimem_all_gather_out(tensor: Any, group: Any = None, out: Any = None) -> Any:
    """All ranks' tensors, by rank, in `out` of each rank, which is of empty(). Needs has_multicast_support()."""
    handle, offset_bytes = _input(out, group)
    if out.nbytes != handle.world_size * tensor.nbytes:
        raise AmemError(f"out has {out.nbytes} bytes, for {handle.world_size} tensors of {tensor.nbytes}")
    handle.multimem_all_gather(tensor.data_ptr(), offset_bytes, tensor.nbytes)
    return out


def all_gather(tensor: Any, group: Any = None, *, engine: Engine = "kernels") -> Any:
    """All ranks' tensors, by rank. engine="copy_engines" leaves the multiprocessors to other kernels."""
    handle, offset_bytes = _input(tensor, group)
    output = tensor.new_empty((handle.world_size * tensor.shape[0], *tensor.shape[1:]))
    handle.all_gather(output.data_ptr(), offset_bytes, tensor.nbytes, engine)
    return output


def reduce_scatter(tensor: Any, group: Any = None, *, engine: Engine = "kernels") -> Any:
    """The sum of this rank's part of all ranks' tensors; parts are along dimension 0."""
    handle, offset_bytes = _input(tensor, group)
    _check_parts(tensor, handle)
    output = tensor.new_empty((tensor.shape[0] // handle.world_size, *tensor.shape[1:]))
    scratch = tensor.new_empty(tensor.shape if engine == "copy_engines" else 0)  # without elements, its address is 0
    handle.reduce_scatter(output.data_ptr(), offset_bytes, output.numel(), tensor.dtype, engine, scratch.data_ptr())
    return output


def all_to_all(tensor: Any, group: Any = None, *, engine: Engine = "kernels") -> Any:
    """Part r of the result is this rank's part of rank r's tensor; parts are along dimension 0."""
    handle, offset_bytes = _input(tensor, group)
    _check_parts(tensor, handle)
    output = tensor.new_empty(tensor.shape)
    handle.all_to_all(output.data_ptr(), offset_bytes, tensor.nbytes // handle.world_size, engine)
    return output
