# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A version of PyTorch whose pools are used by all threads (before 2.8): regions have no effect, with a warning. This version is
made to look like one."""

OLD = """
if hasattr(torch._C, "_cuda_beginAllocateCurrentThreadToPool"):
    del torch._C._cuda_beginAllocateCurrentThreadToPool
"""


def test_regions_have_no_effect_and_say_why(simulated):
    said = simulated.run(OLD + """
import logging
logging.basicConfig(stream=sys.stdout)
with amem.region("weights"), amem.region("inner", backup=None):
    weights = of(20 * MIB)
with amem.disable():
    other = of(20 * MIB)
graph = torch.cuda.CUDAGraph()
with amem.cuda_graph(graph):
    out = of(20 * MIB)
write(weights, 1)
left = free()
amem.pause()
expect(free() - left < 20 * MIB and holds(weights, 1), "the memory stays")
amem.resume()
torch.cuda.empty_cache()
""")
    assert "use PyTorch 2.8 or newer" in said
