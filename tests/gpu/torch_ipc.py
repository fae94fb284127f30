# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Region tensors that torch.multiprocessing sends to another process, which updates them between pauses."""

import torch
import torch.multiprocessing as multiprocessing

import amem

COUNT, CYCLES = 16 << 20, 3


def expect(condition, what):
    if not condition:
        raise SystemExit(f"wrong: {what}")


def trainer(tensors, commands, replies):
    """Writes to the weights of the rollout process, as a weight update does."""
    weights = tensors.get(timeout=60)
    addresses = [weight.data_ptr() for weight in weights]
    replies.put("opened")
    while (value := commands.get(timeout=60)) is not None:
        for number, weight in enumerate(weights):
            weight.fill_(value + number)
        torch.cuda.synchronize()
        same = addresses == [weight.data_ptr() for weight in weights]
        replies.put(same and all(bool((weight == value + number).all()) for number, weight in enumerate(weights)))
    del weights


def main():
    context = multiprocessing.get_context("spawn")
    tensors, commands, replies = context.Queue(), context.Queue(), context.Queue()
    child = context.Process(target=trainer, args=(tensors, commands, replies))
    child.start()
    with amem.region("weights"):
        weights = [torch.zeros(COUNT, device="cuda") for _ in range(3)]
    tensors.put(weights)
    expect(replies.get(timeout=100) == "opened", "the other process opened the tensors")
    for cycle in range(CYCLES):
        value = 10 * cycle + 1
        commands.put(value)
        expect(replies.get(timeout=60) is True, f"the other process sees its update {value}")
        free = torch.cuda.mem_get_info()[0]
        report = amem.pause("weights")
        gain = torch.cuda.mem_get_info()[0] - free
        # The other process allocates a few MiB of its own while it starts.
        released = report.resident_bytes == 0 and gain >= 3 * 4 * COUNT - (32 << 20)
        expect(released, f"the pause freed {gain} bytes: {report}")
        amem.resume("weights")
        for number, weight in enumerate(weights):
            expect(bool((weight == value + number).all()), f"update {value} after a pause")
    commands.put(None)
    child.join(60)
    expect(child.exitcode == 0, f"the other process ended with {child.exitcode}")
    print(f"result: {CYCLES} updates from another process, each kept over a pause")


if __name__ == "__main__":
    main()
