# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Regions with retain=True and functions of on_resume(), with the real PyTorch."""

from conftest import SimulatedTorch


def test_weights_that_change_in_part(simulated: SimulatedTorch) -> None:
    simulated.run("""
with amem.region("weights", retain=True):
    tensors = [of(3 * MIB) for _ in range(4)]
for seed, tensor in enumerate(tensors):
    write(tensor, seed)
seeds = list(range(4))
for changed in ([], [], [1], [0, 2], [], [0, 1, 2, 3], []):
    for i in changed:
        seeds[i] += 10
        write(tensors[i], seeds[i])
    report = amem.pause("weights")
    amem.resume("weights")
    expect(all(holds(tensor, seed) for tensor, seed in zip(tensors, seeds)), f"contents after {changed}")
    if report.unchanged_bytes:
        expect(len(changed) * 3 * MIB <= report.copied_bytes <= (len(changed) * 3 + 1) * MIB, f"{changed}: {report}")
print(report)
expect(report.copied_bytes == 0 and report.unchanged_bytes >= 12 * MIB, report)
""")


def test_tensors_that_are_freed_and_allocated_between_pauses(simulated: SimulatedTorch) -> None:
    """What is live changes: blocks that PyTorch has free are not copied, and come back with other contents."""
    simulated.run("""
import random
random.seed(3)
with amem.region("weights", retain=True):
    tensors = {seed: of(random.randint(1, 30) * 50_000) for seed in range(40)}
    for seed, tensor in tensors.items():
        write(tensor, seed)
    for cycle in range(12):
        for _ in range(min(random.choice([0, 0, 3, 15]), len(tensors) - 1)):
            del tensors[random.choice(list(tensors))]
            tensor = None
        for _ in range(random.choice([0, 0, 3])):
            seed = max(tensors) + 1
            tensors[seed] = of(random.randint(1, 30) * 50_000)
            write(tensors[seed], seed)
        if cycle == 8:
            gc.collect()
            torch.cuda.empty_cache()
        report = amem.pause("weights")
        amem.resume("weights")
        expect(all(holds(tensor, seed) for seed, tensor in tensors.items()), f"contents after cycle {cycle}: {report}")
del tensors, tensor
gc.collect()
torch.cuda.empty_cache()
amem.trim_host_memory()
expect(amem.stats()["times"]["host_capacity_bytes"] == 0, "host memory")
""")


def test_contents_that_the_program_makes_again(simulated: SimulatedTorch) -> None:
    simulated.run("""
masters = torch.arange(MIB, dtype=torch.float32)
amem.on_resume("weights", lambda: weights.copy_(masters))
with amem.region("weights"):
    weights = torch.empty(MIB, dtype=torch.bfloat16, device="cuda")
weights.copy_(masters)
for _ in range(2):
    report = amem.pause("weights")
    expect(report.copied_bytes == 0, report)
    amem.resume("weights")
    expect(torch.equal(weights.cpu(), masters.to(torch.bfloat16)), "contents")
""")


def test_retained_copy_of_an_active_tensor_is_not_its_contents(simulated: SimulatedTorch) -> None:
    simulated.run("""
with amem.region("weights", retain=True):
    weights = of(3 * MIB)
write(weights, 1)
amem.pause("weights")
expect(holds(amem.backup(weights), 1), "the copy while paused")
amem.resume("weights")
write(weights, 2)
for copy in (False, True):
    try:
        amem.backup(weights, copy=copy)
    except amem.AmemError as error:
        expect("is not paused" in str(error), error)
    else:
        sys.exit("contents of the last pause")
amem.pause("weights")
expect(holds(amem.backup(weights), 2), "the copy of the next pause")
""", GMM_LOG="1")
