# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A stand-in for PyTorch on a machine with two GPUs, for programs of the tests too."""

import contextlib
import ctypes
import types


class FakePool:
    made = 0

    def __init__(self):
        FakePool.made += 1
        self.id = (0, FakePool.made)


class FakeTorch(types.ModuleType):
    """Two GPUs, of which the process has used the first; remembers the settings and the blocks that were zeroed."""

    def __init__(self):
        super().__init__("torch")
        self.uint8 = "uint8"
        self.captured = []  # (graph, options)
        self.expandable = []  # segments
        self.segment_type = "large"  # of the others
        self.pending = []  # blocks of the common cache that are free after the work of another stream
        self.takes_from_cache = True
        self.settings, self.zeroed, self.routed, self.blocks = "expandable_segments:True", [], [], {}
        nothing = contextlib.nullcontext
        self.cuda = types.SimpleNamespace(
            is_available=lambda: True,
            is_initialized=lambda: True,
            is_current_stream_capturing=lambda: False,
            device_count=lambda: 2,
            current_device=lambda: 0,
            device=lambda _: nothing(),
            stream=lambda _: nothing(),
            ExternalStream=lambda address: address,
            graph=self.graph,
            default_stream=lambda: 0,
            MemPool=FakePool,
            use_mem_pool=self.use_mem_pool,
            synchronize=self.synchronize,
            OutOfMemoryError=MemoryError,
        )
        self._C = types.SimpleNamespace(
            _cuda_hasPrimaryContext=lambda device: device == 0,
            _cuda_memorySnapshot=self.snapshot,
            _accelerator_setAllocatorSettings=lambda settings: setattr(self, "settings", settings),
        )

    @contextlib.contextmanager
    def use_mem_pool(self, pool, device=None):
        self.routed.append(pool)
        yield
        self.routed.remove(pool)

    @contextlib.contextmanager
    def graph(self, graph, **options):
        self.captured.append((graph, options))
        yield

    def snapshot(self, pool_id):
        on = self.settings.rpartition("expandable_segments:")[2].startswith("True")
        settings = {"expandable_segments": on, "PYTORCH_CUDA_ALLOC_CONF": self.settings}
        blocks = [{"size": size, "state": "inactive"} for size in self.blocks.get(pool_id, ())]
        blocks += [{"size": size, "state": "active_pending_free"} for size in self.pending]
        segment = {"device": 0, "stream": 0, "segment_type": self.segment_type, "blocks": blocks}
        return {"allocator_settings": settings, "segments": [segment, *self.expandable]}

    def zeros(self, size, **_):
        self.zeroed.append(size)
        for sizes in self.blocks.values() if self.takes_from_cache else ():
            self.take(sizes, size)
        return size

    def take(self, sizes, size):
        """From the smallest block that has room."""
        found = min((block for block in sizes if block >= size), default=None)
        if found is not None and (self.segment_type == "large" or size <= 1 << 20):
            sizes.remove(found)
            sizes += [found - size] if found > size else []

    def frombuffer(self, data, dtype):
        return FakeTensor(data, ctypes.addressof(data))

    def synchronize(self):
        self.blocks.setdefault((0, 0), []).extend(self.pending)
        self.pending = []

    def empty(self, shape, dtype, device="cpu"):
        data = ctypes.create_string_buffer(shape)
        return FakeTensor(data, ctypes.addressof(data), shape)


class FakeTensor:
    """Bytes at an address; `data` keeps those of the host."""

    dtype = "uint8"

    def __init__(self, data, address, size=None):
        self.data, self.address = data, address
        self.shape = self.nbytes = len(data) if size is None else size

    def is_contiguous(self):
        return True

    def data_ptr(self):
        return self.address

    def view(self, _):
        return self

    def values(self):
        """The set of the bytes on the host."""
        return set(bytes(self.data))
