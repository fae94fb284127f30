# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""PyTorch keeps the workspace of a stream for all later products: it has no tag, wherever the first product was."""

import pytest

from conftest import SimulatedTorch

PRODUCTS = {
    "cublas": "torch.mm(a, a)",
    "cublaslt": "torch.addmm(bias, a, a)",
    "gelu": "torch.nn.functional.linear(a, a, bias)",
}
START = """
a, bias = torch.empty(512, 512, device="cuda"), torch.empty(512, device="cuda")
streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
"""


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_first_product_in_a_region(simulated: SimulatedTorch, product: str) -> None:
    simulated.run(START + f"""
with amem.region("weights"):
    weights = of(40 * MIB)
    for stream in streams:
        with torch.cuda.stream(stream):
            inside = {product}
left = free()
report = amem.pause("weights")
expect(free() - left >= 40 * MIB and report.resident_bytes <= 80 * MIB, f"all but the workspaces has left: {{report}}")
for stream in streams:
    with torch.cuda.stream(stream):
        {product}
torch.cuda.synchronize()
amem.resume("weights")
""")


def test_first_product_in_a_graph(simulated: SimulatedTorch) -> None:
    simulated.run(START + """
tagged, plain = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
with amem.cuda_graph(tagged):
    y = torch.mm(a, a)
with torch.cuda.graph(plain):
    z = torch.mm(a, a)
report = amem.pause("cuda_graph")
# Since 2.15 a graph has a workspace of its own, which stays.
most = 0 if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15) else 32 * MIB
expect(report.released_bytes > 0 and report.resident_bytes <= most, f"no other workspace is memory of the graph: {report}")
plain.replay()
torch.mm(a, a)
torch.cuda.synchronize()
amem.resume("cuda_graph")
tagged.replay()
torch.cuda.synchronize()
""")


@pytest.mark.parametrize("settings", ["", "expandable_segments:True"])
@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_with_a_tag_for_the_whole_process(simulated: SimulatedTorch, product: str, settings: str) -> None:
    simulated.run(START + f"""
for stream in streams:
    with torch.cuda.stream(stream):
        {product}
weights = of(400 * MIB)
torch.cuda.synchronize()
report = amem.pause("job")
expect(report.released_bytes >= 400 * MIB and report.resident_bytes > 0, f"all but the workspaces has left: {{report}}")
with amem.disable():
    a, bias = torch.empty(512, 512, device="cuda"), torch.empty(512, device="cuda")
for stream in streams:
    with torch.cuda.stream(stream), amem.disable():
        {product}
torch.cuda.synchronize()
amem.resume("job")
""", AMEM_TENSORS="job", PYTORCH_CUDA_ALLOC_CONF=settings)


def test_released_memory_cannot_be_used(simulated: SimulatedTorch) -> None:
    """The other tests rely on it."""
    simulated.run("""
with amem.region("weights"):
    weights = of(40 * MIB)
amem.pause("weights")
for other in (of(40 * MIB), torch.empty(40 * MIB, dtype=torch.uint8), torch.empty(40 * MIB, dtype=torch.uint8, pin_memory=True)):
    for to, source in ((weights, other), (other, weights)):
        try:
            to.copy_(source)
        except RuntimeError:
            continue
        expect(False, f"an error of a copy from {source.device} to {to.device}")
""")


def test_of_a_library_in_a_process_without_pytorch(simulated: SimulatedTorch) -> None:
    """XLA's are part of its memory, which all has the tag."""
    simulated.script("-c", """
import ctypes, os
import amem
runtime, size = ctypes.CDLL(os.environ["LD_PRELOAD"]), 64 << 20
chunk = ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(chunk), ctypes.c_size_t(size)) == 0
nothing = [None] * 13
assert runtime.cublasLtMatmul(*nothing, chunk, ctypes.c_size_t(1 << 20), None) == 0
assert runtime.cudaDeviceSynchronize() == 0
report = amem.pause("job")
assert (report.released_bytes, report.resident_bytes) == (size, 0), report
amem.resume("job")
""", AMEM_TENSORS="job")
