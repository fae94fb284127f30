# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Pause and resume before any use of NCCL, on the simulated GPU."""

import json
import platform
import re
import subprocess
import sys

from conftest import PACKAGE, Build


def test_pauses_and_resumes_before_any_use_of_nccl(build: Build) -> None:
    code = """
import amem
seen = [amem.state()]
for call in (amem.pause, amem.pause, amem.resume, amem.resume):
    call()
    seen.append(amem.state())
print(*seen, amem.enabled(), [amem.last_error()])
"""
    assert build.job(code) == "active paused paused active active True ['']"


def test_log_says_once_that_aarch64_has_not_run_on_hardware(build: Build) -> None:
    command = [str(build.command), "run", "--", sys.executable, "-c", "import amem; amem.pause(); amem.resume()"]
    log = subprocess.run(command, env=build.variables(AMEM_LOG="info"), capture_output=True, text=True, check=True, timeout=240).stderr
    said = log.count("it has not run on a GPU")
    assert said == (platform.machine() == "aarch64") and "resumed" in log


def test_context_manager_resumes_however_the_block_ends(build: Build) -> None:
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


def test_context_manager_resumes_when_its_pause_is_interrupted(build: Build) -> None:
    code = """
import amem
from amem import session
def interrupted(*arguments):  # as Ctrl-C during the pause
    session._report = report
    raise KeyboardInterrupt
report, session._report = session._report, interrupted
try:
    with amem.paused():
        print("it has not begun")
except KeyboardInterrupt:
    print(amem.state())
"""
    assert build.job(code).split() == ["active"]


NO_TAG = "a tag has 1 to 64 letters, digits, '_', '-', '.', ':' or '/', unlike"
RANK_OF_A_GROUP = """
import amem, fake_group
def meet(count, group):
    print(group, "meets", amem.state(), count)
distributed = fake_group.install(meet)
def pause(tag, group="trainers"):
    try:
        print(amem.pause(tag, group=group).released_bytes, amem.state())
    except amem.AmemError as error:
        print(amem.state(), error)
"""
BEFORE, AFTER = "trainers meets active [0]", "trainers meets paused [0]"


def test_ranks_of_a_group_pause_together(build: Build) -> None:
    assert build.runtime_job(RANK_OF_A_GROUP + "pause('nccl')").splitlines() == [BEFORE, AFTER, "0 paused"]


def test_rank_whose_pause_is_refused_says_so_to_the_others(build: Build) -> None:
    refused = f"active {NO_TAG} 'a,b'; write each tag as an argument: pause(*tags)"
    failed = "trainers meets active [1]"
    assert build.runtime_job(RANK_OF_A_GROUP + "pause('a,b')").splitlines() == [BEFORE, failed, refused]
    lost = """
def meet_once(count, group):
    print("meets", count)
    if count[0]:
        raise RuntimeError("connection closed")
distributed.all_reduce = meet_once
pause('a,b')
"""
    assert build.runtime_job(RANK_OF_A_GROUP + lost).splitlines() == ["meets [0]", "meets [1]", refused]


def test_rank_that_has_paused_learns_that_another_has_not(build: Build) -> None:
    code = """
def meet_a_rank_that_failed(count, group):
    count[0] += amem.state() == "paused"
distributed.all_reduce = meet_a_rank_that_failed
pause('nccl')
"""
    assert build.runtime_job(RANK_OF_A_GROUP + code) == "paused 1 of the group's ranks could not pause; this rank has paused"


def test_ranks_that_do_not_meet_are_an_error_that_says_when(build: Build) -> None:
    code = """
def meet_nobody(count, group):
    if amem.state() == state:
        raise RuntimeError("timed out")
distributed.all_reduce = meet_nobody
for state in ("active", "paused"):
    pause('nccl')
amem.resume()
distributed.get_rank = lambda group: -1
pause('nccl')
"""
    first, second, third = build.runtime_job(RANK_OF_A_GROUP + code).splitlines()
    begin, gloo = "the ranks of the process group did not meet", 'torch.distributed.new_group(backend="gloo")'
    assert first.startswith(f"active {begin} before the pause: timed out") and first.endswith(gloo)
    assert second.startswith(f"paused {begin} after the pause, which has succeeded on this rank: timed out")
    assert third.startswith(f"active {begin} before the pause: this rank is not in it")


def fields_of(structure: str) -> set[str]:
    """Of a structure of amem.h."""
    header = (PACKAGE.parent / "include" / "amem.h").read_text()
    body = re.sub(r"/\*.*?\*/", "", header.partition(f"}} {structure};")[0].rpartition("typedef struct {")[2], flags=re.DOTALL)
    return set(re.findall(r"(\w+);", body))


def test_statistics_have_all_keys(build: Build) -> None:
    settings = {"AMEM_GROUPID": "3", "AMEM_GROUP": "train"}
    stats = json.loads(build.job("import amem, json; print(json.dumps(amem.stats()))", **settings))

    assert set(stats) == {
        *("pid", "group", "group_name", "state", "version", "total", "devices", "tags", "context_bytes", "imports"),
        *("driver_objects", "times", "persistent"),
    }
    assert (stats["state"], stats["group"], stats["group_name"], stats["devices"]) == ("active", 3, "train", {})
    assert set(stats["total"]) == set(stats["imports"]) == fields_of("amemTotals_t")
    assert set(stats["driver_objects"]) == fields_of("amemDriverObjects_t")
    assert set(stats["times"]) == fields_of("amemTimes_t")


def test_statistics_while_amem_is_off_have_the_same_keys(build: Build) -> None:
    code = """
import amem, json
off = amem.stats()
print(off["state"], json.dumps([off["total"], off["imports"], off["driver_objects"], off["times"]]))
"""
    state, _, sums = build.python(code, LD_PRELOAD=build.preload, AMEM_ENABLE="0").partition(" ")
    total, imports, driver_objects, times = json.loads(sums)
    assert state == "off" and set(total) == set(imports) == fields_of("amemTotals_t")
    assert set(driver_objects) == fields_of("amemDriverObjects_t") and set(times) == fields_of("amemTimes_t")


def test_group_is_set_and_out_of_range_refused(build: Build) -> None:
    code = """
import amem
amem.set_group(7)
try:
    amem.set_group(-1)
except amem.AmemError as error:
    print(amem.stats()["group"], error.code, error)
"""
    assert build.job(code) == "7 None a group is 0 or greater, not -1"


def test_wrong_arguments_are_refused_with_a_sentence(build: Build) -> None:
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
        f"None {NO_TAG} 'weights,kv_cache'; write each tag as an argument: pause(*tags)",
        "None a tag is a str, not 5",
        "None a tag is a str, not 5",
        "None a tag is a str, not None",
        "None the size is -1 bytes, not 0 to 2**50",
    ]


def test_host_memory_that_no_pause_has_made_is_nothing_to_give_back(build: Build) -> None:
    assert build.job("import amem; print(amem.trim_host_memory())") == "0"


def test_other_threads_run_while_one_is_paused_or_pausing(build: Build) -> None:
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
