# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""PyTorch itself on the simulated GPU, without and with amem: what the tests of regions build on."""

from conftest import SimulatedTorch


def test_contents_streams_and_graphs(simulated: SimulatedTorch) -> None:
    simulated.run("""
tensor = of(3 * MIB)
write(tensor, 1)
expect(holds(tensor, 1), "contents")
with torch.cuda.stream(torch.cuda.Stream()):
    copy = of(3 * MIB)
    copy.copy_(tensor)
torch.cuda.synchronize()
expect(holds(copy, 1), "contents of a copy in another stream")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = of(5 * MIB)
    out[: 3 * MIB].copy_(tensor)
out[: 3 * MIB].copy_(torch.zeros(3 * MIB, dtype=torch.uint8))
graph.replay()
expect(holds(out[: 3 * MIB], 1), "contents that a replay has copied")
""")


def test_out_of_memory_is_pytorchs_error(simulated: SimulatedTorch) -> None:
    simulated.run("""
try:
    of(8 << 30)
except torch.OutOfMemoryError:
    pass
else:
    sys.exit("8 GiB fit into 4")
tensor = of(MIB)
""")


def test_cache_returns_what_is_free(simulated: SimulatedTorch) -> None:
    simulated.run("""
before = free()
tensor = of(100 * MIB)
expect(before - free() == 100 * MIB, "a segment")
del tensor
torch.cuda.empty_cache()
expect(free() == before, "all of it returned")
""")
