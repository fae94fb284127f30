# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem.report(): whose the memory is, with the real PyTorch."""

import pytest

from conftest import SimulatedTorch

OWNERS = """
def owners():
    (gpu,) = amem.report()
    expect(gpu["not_attributed_bytes"] == 0, gpu)
    expect(sum(owner["bytes"] for owner in gpu["owners"]) == gpu["used_bytes"], gpu)
    return {owner["owner"]: owner["bytes"] // MIB for owner in gpu["owners"]}
STACKS = {"stacks of kernels (local memory)": 8}
"""


@pytest.mark.parametrize("attribution", ["0", "1"])
def test_every_byte_of_pytorch_has_an_owner(simulated: SimulatedTorch, attribution: str) -> None:
    simulated.run(
        OWNERS
        + """
with amem.region("weights"):
    weights = of(40 * MIB)
plain, free = of(60 * MIB), of(30 * MIB)
del free
now = owners()
expect(now == {"weights": 40, "PyTorch, tensors without a tag": 60, "PyTorch, free blocks of its cache": 30, **STACKS}, now)
amem.pause("weights")
torch.cuda.empty_cache()
now = owners()
expect(now == {"PyTorch, tensors without a tag": 60, **STACKS}, now)
amem.resume("weights")
with amem.disable():
    disabled = of(50 * MIB)
now = owners()
expect(now == {"weights": 40, "PyTorch, tensors without a tag": 110, **STACKS}, now)
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    of_pool = of(20 * MIB)
now = owners()
of_pools = "PyTorch, pools of graphs and of the program"
expect(now == {"weights": 40, "PyTorch, tensors without a tag": 110, of_pools: 20, **STACKS}, now)
""",
        AMEM_ATTRIBUTION=attribution,
    )


def test_with_a_tag_for_the_whole_process(simulated: SimulatedTorch) -> None:
    simulated.run(
        OWNERS
        + """
tensor = of(60 * MIB)
now = owners()
expect(now == {"job": 60, **STACKS}, now)
""",
        AMEM_TENSORS="job",
    )


def test_with_another_allocator(simulated: SimulatedTorch) -> None:
    """PyTorch has no snapshot of it."""
    simulated.run(
        """
torch.cuda.get_allocator_backend = lambda: "cudaMallocAsync"
torch.cuda.memory_snapshot = None
tensor = of(60 * MIB)
(gpu,) = amem.report()
expect(gpu["not_attributed_bytes"] == 60 * MIB, gpu)
"""
    )


def test_remedies_are_true(simulated: SimulatedTorch) -> None:
    simulated.run(
        OWNERS
        + """
with amem.region("weights"):
    weights = of(120 * MIB)
plain, free = of(110 * MIB), of(100 * MIB)
del free
(gpu,) = amem.report()
remedies = {owner["owner"]: owner.get("remedy") for owner in gpu["owners"]}
expect(remedies["weights"] == "amem.pause('weights') releases it", remedies)
expect("torch.cuda.empty_cache()" in remedies["PyTorch, free blocks of its cache"], remedies)
expect("amem.region(TAG)" in remedies["PyTorch, tensors without a tag"], remedies)
amem.pause("weights")
torch.cuda.empty_cache()
now = owners()
expect(now == {"PyTorch, tensors without a tag": 110, **STACKS}, now)
"""
    )
