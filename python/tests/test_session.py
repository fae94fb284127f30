# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Pause and resume before any use of NCCL, on the simulated GPU."""

import json


def test_pauses_and_resumes_before_any_use_of_nccl(build):
    code = """
import amem
seen = [amem.state()]
for call in (amem.pause, amem.pause, amem.resume, amem.resume):
    call()
    seen.append(amem.state())
print(*seen, amem.enabled(), [amem.last_error()])
"""
    assert build.job(code) == "active paused paused active active True ['']"


def test_context_manager_resumes_however_the_block_ends(build):
    code = """
import amem
try:
    with amem.paused():
        print(amem.state())
        raise KeyError("the caller's own")
except KeyError:
    print(amem.state())
"""
    assert build.job(code).split() == ["paused", "active"]


RANK_OF_A_GROUP = """
import sys, types
torch = sys.modules["torch"] = types.ModuleType("torch")
torch.zeros = lambda count, device: device
torch.cuda = types.SimpleNamespace(is_available=lambda: False)
torch.distributed = sys.modules["torch.distributed"] = types.ModuleType("torch.distributed")
import amem
def meet(tensor, group):
    print(group, "meets by", tensor, amem.state())
torch.distributed.all_reduce = meet
"""


def test_ranks_of_a_group_pause_together(build):
    code = RANK_OF_A_GROUP + """
print(amem.pause("nccl", group="trainers").released_bytes, amem.state())
"""
    assert build.job(code).splitlines() == ["trainers meets by cpu active", "trainers meets by cpu paused", "0 paused"]


def test_rank_whose_pause_is_refused_meets_the_others_all_the_same(build):
    code = RANK_OF_A_GROUP + """
try:
    amem.pause("a,b", group="trainers")
except amem.AmemError as error:
    print(error)
"""
    meetings = ["trainers meets by cpu active"] * 2
    assert build.job(code).splitlines() == [*meetings, "'a,b' is not a tag: write each tag as an argument"]


def test_group_that_cannot_meet_is_named_before_anything_is_paused(build):
    code = RANK_OF_A_GROUP + """
def without_gloo(tensor, group):
    raise RuntimeError("No backend type associated with device type cpu")
torch.distributed.all_reduce = without_gloo
try:
    amem.pause("nccl", group="trainers")
except amem.AmemError as error:
    print(amem.state(), error)
"""
    text = build.job(code)
    assert text.startswith("active the ranks of the group did not meet before the pause: No backend type associated with")
    assert text.endswith('All of its ranks must call, and it needs Gloo: torch.distributed.new_group(backend="gloo")')


def test_statistics_have_all_keys(build):
    settings = {"AMEM_GROUPID": "3", "AMEM_GROUP": "train"}
    stats = json.loads(build.job("import amem, json; print(json.dumps(amem.stats()))", **settings))

    assert set(stats) == {
        *("pid", "group", "group_name", "state", "version", "total", "devices", "tags", "context_bytes", "imports"),
        *("driver_objects", "times", "persistent"),
    }
    assert (stats["state"], stats["group"], stats["group_name"], stats["devices"]) == ("active", 3, "train", {})
    sums = {"objects", "allocated_bytes", "resident_bytes", "released_bytes", "saved_bytes", "fixed_bytes", "disk_bytes"}
    assert set(stats["total"]) == set(stats["imports"]) == sums
    assert {"pause_ms", "resume_ms", "pause_copied_bytes", "host_capacity_bytes"} <= set(stats["times"])


def test_group_is_set_and_out_of_range_refused(build):
    code = """
import amem
amem.set_group(7)
try:
    amem.set_group(-1)
except amem.AmemError as error:
    print(amem.stats()["group"], error.code, str(error) == amem.last_error(), error)
"""
    text = build.job(code)

    assert text.startswith("7 5 True ncclSetGroupID failed: ")
    assert "-1" in text


def test_wrong_arguments_are_refused_with_a_sentence(build):
    code = """
import amem
for call in (
    lambda: amem.pause(["weights", "kv_cache"]),
    lambda: amem.resume("weights,kv_cache"),
    lambda: amem.state(5),
    lambda: amem.region(5).__enter__(),
    lambda: amem.region(None, threads=True).__enter__(),
    lambda: amem.prepare_host_memory(-1),
):
    try:
        print("no error", call())
    except amem.AmemError as error:
        print(error.code, error)
"""
    assert build.job(code).splitlines() == [
        "None a tag is a str, not ['weights', 'kv_cache']; write each tag as an argument: pause(*tags)",
        "None 'weights,kv_cache' is not a tag: write each tag as an argument",
        "None a tag is a str, not 5",
        "None a tag is a str, not 5",
        "None a tag is a str, not None",
        "None the size is -1 bytes",
    ]


def test_host_memory_that_no_pause_has_made_is_nothing_to_give_back(build):
    assert build.job("import amem; print(amem.trim_host_memory())") == "0"


def test_other_threads_run_while_one_is_paused_or_pausing(build):
    code = """
import threading
import amem
calls = [threading.Thread(target=call) for call in [amem.pause, amem.resume] * 20]
for thread in calls:
    thread.start()
for thread in calls:
    thread.join(30)
amem.resume()
print(any(thread.is_alive() for thread in calls), amem.state())
"""
    assert build.job(code) == "False active"
