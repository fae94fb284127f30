# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Which pool of PyTorch a region uses, and which blocks a pause holds: with a stand-in for PyTorch."""

import contextlib
import sys

import pytest

from fake_torch import FakeTorch

sys.path.insert(0, str(__import__("pathlib").Path(__file__).resolve().parent.parent))


@pytest.fixture
def pools(monkeypatch):
    monkeypatch.setenv("AMEM_ENABLE", "0")
    from amem import torch_pools

    for state in (torch_pools._idle, torch_pools._parked, torch_pools._held, torch_pools._pauses):
        state.clear()
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    torch_pools.torch = torch
    return torch_pools


def pool_of(pools, tag, kind="host"):
    with pools.routed(tag, kind):
        return pools.torch.routed[-1]


def no_region(_):
    return contextlib.nullcontext()


def test_a_tag_has_its_own_pool_and_each_thread_another(pools):
    first = pool_of(pools, "a")
    assert pool_of(pools, "a") is first
    assert pool_of(pools, "b") is not first
    assert pool_of(pools, "a", "none") is not first
    with pools.routed("a", "host"):
        assert pool_of(pools, "a") is not first


# PyTorch ends the process if a pool is destroyed while another is in use.
def test_pool_of_disabled_regions_is_kept(pools):
    outside = []
    with pools.routed("a", "host"):
        for _ in range(2):
            with pools.routed_outside():
                outside.append(pools.torch.routed[-1])
            assert any(outside[0] in kept for kept in pools._idle.values())
    assert outside[0] is outside[1]
    pools.park({"a"}, no_region)
    with pools.routed_outside():
        assert pools.torch.routed[-1] is outside[0]


def test_regions_of_a_paused_tag_use_new_pools_until_the_resume(pools):
    before = {kind: pool_of(pools, "a", kind) for kind in ("host", "none")}
    pools.park({"a"}, no_region)
    during = {kind: pool_of(pools, "a", kind) for kind in ("host", "none")}
    assert not set(before.values()) & set(during.values())
    pools.unpark(lambda tag: False)
    assert pool_of(pools, "a") is during["host"]
    pools.unpark(lambda tag: True)
    assert {id(pool) for pool in pools._idle[pools.Owner("a", "host", 0)]} == {id(before["host"]), id(during["host"])}


def test_pool_that_is_open_during_a_pause_is_not_used_before_the_resume(pools):
    with pools.routed("a", "host"):
        opened = pools.torch.routed[-1]
        pools.park({"a"}, no_region)
    assert pool_of(pools, "a") is not opened
    pools.unpark(lambda tag: True)
    assert opened in pools._idle[pools.Owner("a", "host", 0)]


@pytest.mark.parametrize("kind", ["host", "disk"])
def test_only_free_blocks_that_would_be_copied_are_zeroed_once(pools, kind):
    not_kept = {pool_of(pools, "a", other).id: [2048] for other in ("none", "zero")}
    pools.torch.blocks = {pool_of(pools, "a", kind).id: [512, 1024], **not_kept}
    pool_of(pools, "b")
    pools.park({"a"}, no_region)
    assert pools.torch.zeroed == [512, 1024]
    pools.park(set(), no_region)  # the tag is paused now
    assert pools.torch.zeroed == [512, 1024]
    pools.unpark(lambda tag: True)
    assert pools._held == {}


def test_free_blocks_are_taken_from_their_pool_in_its_region(pools, monkeypatch):
    """What PyTorch allocates for them beside the cached blocks has the tag of the pool, and is on its device."""
    torch, opened, devices, seen = pools.torch, [], [], []
    pool = pool_of(pools, "a")

    @contextlib.contextmanager
    def opening(stack, value):
        stack.append(value)
        yield
        stack.pop()

    monkeypatch.setattr(torch.cuda, "device", lambda device: opening(devices, device))
    zeros = torch.zeros
    torch.blocks = {pool.id: [512]}
    torch.zeros = lambda size, **options: (seen.append((opened[:], devices[:1], torch.routed[:])), zeros(size, **options))[1]
    pools.park({"a"}, lambda owner: opening(opened, owner))
    assert seen == [([pools.Owner("a", "host", 0)], [0], [pool])]


@pytest.fixture
def process_pools(pools, monkeypatch):
    """All memory of the process has the tag "a"."""
    monkeypatch.setattr(pools, "process_tag", "a")
    return pools


def test_free_blocks_of_the_common_cache_are_held_until_the_resume(process_pools):
    pools, blocks = process_pools, [{"size": 2048, "state": "inactive"}]
    other = {"segment_pool_id": (0, 7), "segment_type": "large", "device": 0, "stream": 0, "blocks": blocks}
    pools.torch.expandable, pools.torch.pending = [other], [4096]
    pools.torch.blocks = {(0, 0): [512, 1024]}
    pools.park({"b"}, no_region)
    assert pools.torch.zeroed == []
    pools.park({"a"}, no_region)
    assert pools.torch.zeroed == [512, 1024, 4096]
    pools.unpark(lambda tag: tag != "a")
    assert pools._held["a"] != []
    pools.unpark(lambda tag: True)
    assert pools._held == {}


def test_small_segments_are_held_whole(process_pools):
    mib, torch = 1 << 20, process_pools.torch
    torch.segment_type = "small"
    torch.blocks = {(0, 0): [2 * mib - 512, mib + 512, 1024]}
    process_pools.park({"a"}, no_region)
    assert torch.blocks == {(0, 0): []}
    assert max(torch.zeroed) == mib


def test_free_blocks_that_cannot_be_held_are_a_warning(process_pools, caplog):
    torch = process_pools.torch
    torch.blocks, torch.takes_from_cache = {(0, 0): [512]}, False
    process_pools.park({"a"}, no_region)
    assert torch.zeroed == [512] and process_pools._held["a"] == []
    assert "allocate in amem.disable() only" in caplog.text


def test_expandable_segments_are_off_while_any_region_is_open(pools):
    first, second = pools.routed("a", "host"), pools.routed("b", "host")
    first.__enter__()
    assert pools.torch.settings.endswith(",expandable_segments:False")
    second.__enter__()
    first.__exit__(None, None, None)
    assert pools.torch.settings.endswith(",expandable_segments:False")
    second.__exit__(None, None, None)
    assert pools.torch.settings == "expandable_segments:True"
