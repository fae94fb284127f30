# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Contents that stay on the host after a resume, and contents that the program makes again, on the simulated GPU."""

from collections.abc import Callable

import pytest

from conftest import Build

START = """
import ctypes, amem
from runtime_user import MIB, fill, read, user
PAGE = 64 << 10
def attempt(call, *arguments, **named):
    try:
        return call(*arguments, **named)
    except (amem.AmemError, KeyboardInterrupt) as error:
        return f"{type(error).__name__}: {error}"
def cycle(*tags):
    report = amem.pause(*tags)
    amem.resume(*tags)
    return report.copied_bytes // PAGE, report.unchanged_bytes // PAGE
def weights(tag="weights", mib=4, **options):
    with amem.region(tag, **options):
        pointer = user.user_malloc(mib * MIB)
    fill(pointer, 7, mib * MIB)
    return pointer
"""


@pytest.fixture
def run(build: Build) -> Callable[..., str]:
    def run(code: str, **settings: str) -> str:
        return build.runtime_job(START + code, **settings)

    return run


def test_unchanged_pages_are_not_copied(run: Callable[..., str]) -> None:
    code = """
pointer = weights(retain=True)
print(*[cycle("weights") for _ in range(3)])
fill(pointer + 3 * PAGE - 8, 9, 16)
print(cycle("weights"), read(pointer, 3 * PAGE - 8), read(pointer + 3 * PAGE - 8, 16), read(pointer + 3 * PAGE + 8, 4 * MIB - 3 * PAGE - 8))
print(cycle("weights"), amem.stats()["devices"][0]["retain"]["objects"], amem.stats()["times"]["pause_unchanged_bytes"] // PAGE)
print(amem.pause("nowhere").unchanged_bytes)
user.user_free(pointer)
print(amem.trim_host_memory() > 0)
"""
    assert run(code).splitlines() == ["(64, 0) (0, 64) (0, 64)", "(2, 62) {7} {9} {7}", "(0, 64) 1 64", "0", "True"]


def test_log_of_a_pause_says_what_is_unchanged(run: Callable[..., str]) -> None:
    code = """
import os
os.dup2(1, 2)  # the log
pointer = weights(retain=True)
cycle("weights"); cycle("weights")
"""
    assert "4 MiB released, 0 MiB saved, 4 MiB unchanged (work" in run(code, AMEM_LOG="3")


def test_retain_is_of_the_region(run: Callable[..., str]) -> None:
    code = """
retained, kept = weights(retain=True), weights()
print(cycle("weights"), cycle("weights"), read(retained), read(kept))
"""
    assert run(code) == "(128, 0) (64, 64) {7} {7}"


@pytest.mark.parametrize("backup", ["None", "'disk'", "'zero'"])
def test_retain_is_for_host_memory(run: Callable[..., str], backup: str) -> None:
    code = f"""
print(attempt(amem.region, "weights", backup={backup}, retain=True))
try:
    amem.region("weights", backup={backup}, retain=True)
except ValueError as error:
    print(type(error).__name__)
"""
    text = f"AmemValueError: retain=True keeps the copy in host memory: backup must be 'host', not {backup}"
    assert run(code).splitlines() == [text, "AmemValueError"]


def test_copies_give_way_to_a_pause_that_lacks_host_memory(run: Callable[..., str]) -> None:
    code = """
first, second = weights("first", 4, retain=True), weights("second", 6)
fill(second, 8, 6 * MIB)
print(cycle("first"), cycle("first"), cycle("second"), cycle("first"), read(first, 4 * MIB), read(second, 6 * MIB))
amem.pause("first")
print("AMEM_HOST_LIMIT" in str(attempt(amem.pause, "second")), amem.state("second"))
amem.resume()
print(read(first, 4 * MIB), read(second, 6 * MIB))
"""
    printed = ["(64, 0) (0, 64) (96, 0) (64, 0) {7} {8}", "True active", "{7} {8}"]
    assert run(code, AMEM_HOST_LIMIT="8").splitlines() == printed


def test_trimmed_copies_are_made_again(run: Callable[..., str]) -> None:
    code = """
pointer = weights(retain=True)
print(cycle("weights"), cycle("weights"), amem.trim_host_memory() // MIB, cycle("weights"), read(pointer))
amem.pause("weights")
print(attempt(amem.trim_host_memory).partition(": ")[0])
amem.resume("weights"); print(read(pointer))
"""
    assert run(code, AMEM_HOST_LIMIT="4").splitlines() == ["(64, 0) (0, 64) 4 (64, 0) {7}", "AmemError", "{7}"]


def test_torch_memory_saver_retains(run: Callable[..., str]) -> None:
    code = """
import amem.torch_memory_saver
from torch_memory_saver import torch_memory_saver as saver
with saver.region(enable_cpu_backup=True):
    pointer = user.user_malloc(4 * MIB)
fill(pointer, 7, 4 * MIB)
def unchanged():
    saver.pause(); saver.resume()
    return amem.stats()["times"]["pause_unchanged_bytes"] // PAGE
saver.retain_cpu_backup = True
print(unchanged(), unchanged(), read(pointer, 4 * MIB))
saver.retain_cpu_backup = False
print(unchanged(), unchanged())
"""
    assert run(code).splitlines() == ["0 64 {7}", "0 0"]


# --- on_resume()

CALLS = """
calls = []
def made(name):
    return lambda: calls.append((name, amem.state("weights")))
def taken():
    try:
        return calls[:]
    finally:
        calls.clear()
"""


def test_functions_run_after_the_resume_of_their_tag(run: Callable[..., str]) -> None:
    code = CALLS + """
import threading
pointer, other = weights(), weights("other")
first = amem.on_resume("weights", made("first"))
amem.on_resume("other", made("other"))
amem.on_resume("weights", lambda: calls.append(threading.current_thread() is threading.main_thread()))
amem.resume("weights"); print(taken())
amem.pause("weights"); print(taken())
amem.resume("other"); print(taken())
amem.resume("weights"); print(taken())
amem.resume("weights"); print(taken())
amem.pause(); amem.resume(); print(taken())
first.remove(); first.remove()
with amem.paused("weights"): pass
print(taken())
"""
    once = "[('first', 'active'), True]"
    both = "[('first', 'active'), ('other', 'active'), True]"
    assert run(code).splitlines() == ["[]", "[]", "[]", once, "[]", both, "[True]"]


def test_function_of_a_tag_that_another_function_has_paused_waits_for_its_resume(run: Callable[..., str]) -> None:
    code = CALLS + """
pointer, other = weights(), weights("other")
amem.on_resume("weights", lambda: (calls.append("pauses"), amem.pause("other")))
amem.on_resume("other", lambda: calls.append(amem.state("other")))
pauses_itself = amem.on_resume("weights", lambda: amem.pause("weights"))
amem.pause(); amem.resume(); print(taken(), amem.state("weights"), amem.state("other"))
pauses_itself.remove()
amem.resume("other"); print(taken())
"""
    assert run(code).splitlines() == ["['pauses'] paused paused", "['active']"]


def test_function_that_fails_is_called_by_the_next_resume(run: Callable[..., str]) -> None:
    code = CALLS + """
pointer = weights()
errors = [KeyError("masters"), KeyboardInterrupt("stop")]
def fail():
    if errors: raise errors.pop(0)
    calls.append("made")
for function in (made("before"), fail, made("after")): amem.on_resume("weights", function)
amem.pause("weights")
print(attempt(amem.resume, "weights")); print(amem.state("weights"), read(pointer), taken())
print(attempt(amem.resume)); print(taken())
print(attempt(amem.resume) is not None, taken())
"""
    failed = (
        "AmemError: 'weights' is active, but a function of on_resume('weights') failed: KeyError('masters'); "
        "the next resume('weights') calls it again"
    )
    before, after = "[('before', 'active')]", "['made', ('after', 'active')]"
    assert run(code).splitlines() == [failed, f"active {{7}} {before}", "KeyboardInterrupt: stop", "[]", f"True {after}"]


def test_cause_of_a_failure_is_in_the_error(run: Callable[..., str]) -> None:
    code = """
weights()
amem.on_resume("weights", lambda: 1 / 0)
amem.pause("weights")
try:
    amem.resume("weights")
except amem.AmemError as error:
    print(type(error.__cause__).__name__, error.code)
"""
    assert run(code) == "ZeroDivisionError None"


def test_resume_that_fails_calls_nothing(run: Callable[..., str]) -> None:
    code = CALLS + """
pointer = weights(mib=300)
amem.on_resume("weights", made("weights"))
amem.pause("weights")
other = user.user_malloc(300 * MIB)
print(type(attempt(amem.resume, "weights")) is str, taken(), amem.state("weights"))
user.user_free(other)
amem.resume("weights"); print(taken())
"""
    assert run(code).splitlines() == ["True [] paused", "[('weights', 'active')]"]


FAILING = """
import threading
simulator = ctypes.CDLL("libcuda.so.1")
def fail(call, *arguments, **named):
    assert simulator.amemSimSetFault(b"cuMemcpyDtoHAsync:1..=999") == 0
    try:
        return type(attempt(call, *arguments, **named)) is str
    finally:
        simulator.amemSimSetFault(b"")
made = weights(backup=None)
amem.on_resume("weights", lambda: (calls.append("made"), fill(made, 5, 4 * MIB)))
"""


def test_contents_are_made_again_after_a_pause_that_fails(run: Callable[..., str]) -> None:
    """They have left before the copy of other contents fails."""
    code = CALLS + FAILING + """
kept = weights("kept")
print(fail(amem.pause), amem.state("weights"), read(made), read(kept), taken())
amem.resume(); print(taken())
amem.pause("weights")
print(fail(amem.switch, pause=["kept"], resume=["weights"], wait=9), amem.state("weights"), read(made), taken())
"""
    assert run(code).splitlines() == ["True active {5} {7} ['made']", "[]", "True active {5} ['made']"]


def test_contents_are_made_again_after_a_pause_that_fails_while_a_signal_arrives(run: Callable[..., str]) -> None:
    """The exception of the signal's handler takes the place of the pause's error."""
    code = CALLS + FAILING + """
from amem import session
kept, call = weights("kept"), session.call
def interrupted(name, *arguments):
    try:
        call(name, *arguments)
    except amem.AmemError:
        raise KeyboardInterrupt from None
session.call = interrupted
print(attempt(fail, amem.pause), amem.state("weights"), read(made), read(kept), taken())
simulator.amemSimSetFault(b"")
amem.pause("weights")
print(fail(amem.switch, pause=["kept"], resume=["weights"], wait=9), amem.state("weights"), read(made), read(kept), taken())
"""
    assert run(code).splitlines() == ["True active {5} {7} ['made']", "True active {5} {7} ['made']"]


def test_pause_that_is_refused_calls_nothing(run: Callable[..., str]) -> None:
    assert run(CALLS + FAILING + "print(attempt(amem.pause, 'context') is not None, read(made), taken())") == "True {7} []"
    code = CALLS + FAILING + """
from amem import session
def refuse(name, *arguments):
    raise amem.AmemError(f"{name}() is refused", 5)
call, session.call = session.call, refuse
print(attempt(amem.pause, "weights"))
session.call = call
amem.resume(); print(read(made), taken())
"""
    assert run(code) == "AmemError: amemPauseWithTimeout() is refused\n{7} []"


def test_pause_of_a_tag_without_memory_calls_nothing(run: Callable[..., str]) -> None:
    code = CALLS + "amem.on_resume('nobody', made('nobody')); amem.pause('nobody'); print(amem.state('nobody'), taken())"
    assert run(code) == "active []"


def test_contents_are_made_again_if_another_thread_resumes_while_the_pause_runs(run: Callable[..., str]) -> None:
    code = CALLS + FAILING + """
from amem import session
call, begun, paused = session.call, threading.Event(), threading.Event()
def in_order(name, *arguments):
    if name == "amemPauseWithTimeout":
        resuming.start()
        begun.wait()
    else:
        begun.set()
        paused.wait()
    call(name, *arguments)
    if name == "amemPauseWithTimeout":
        paused.set()
        resuming.join()
session.call, resuming = in_order, threading.Thread(target=amem.resume)
amem.pause("weights"); print(amem.state("weights"), taken())
"""
    assert run(code) == "active ['made']"


def test_resume_returns_when_functions_in_other_threads_have_ended(run: Callable[..., str]) -> None:
    code = CALLS + """
import threading
begun, resumes, seen = threading.Event(), threading.Event(), []
def make():
    begun.set()
    resumes.wait()
    other.join(2)  # it has not ended
    calls.append("made")
weights()
amem.on_resume("weights", make)
amem.pause()
other = threading.Thread(target=lambda: (begun.wait(), resumes.set(), amem.resume("weights"), seen.append(taken())))
other.start()
amem.resume("weights"); other.join(); print(seen)
"""
    assert run(code) == "[['made']]"


def test_a_function_may_be_removed_by_the_garbage_collector_at_any_moment(run: Callable[..., str]) -> None:
    code = CALLS + """
import gc
from amem import remaking
class Model:
    def __init__(self):
        self.cycle, self.made = self, amem.on_resume("weights", made("gone"))
    def __del__(self):
        self.made.remove()
state_of = remaking.state_of
def collecting(tag):
    gc.collect()  # as an allocation of Python may do
    return state_of(tag)
remaking.state_of = collecting
pointer = weights()
Model()
amem.on_resume("weights", made("weights"))
amem.pause(); amem.resume(); print(taken())
"""
    assert run(code) == "[('weights', 'active')]"


def test_contents_that_are_made_again_are_not_kept(run: Callable[..., str]) -> None:
    code = """
before = weights()
handle = amem.on_resume("weights", lambda: [fill(pointer, 5, 4 * MIB) for pointer in (made, kept)])
made, kept = weights(), weights(backup="host")
print(cycle("weights")[0] // 64, read(before), read(made), read(kept))
print(attempt(amem.region, "weights", retain=True))
handle.remove()
made = weights()
print(cycle("weights")[0] // 64)
"""
    refused = "AmemValueError: retain=True keeps the copy in host memory: backup must be 'host', not None"
    assert run(code).splitlines() == ["2 {7} {5} {5}", refused, "3"]


def test_torch_memory_saver_calls_functions(run: Callable[..., str]) -> None:
    code = CALLS + """
import amem.torch_memory_saver
from torch_memory_saver import torch_memory_saver as saver
with saver.region("weights"):
    pointer = user.user_malloc(4 * MIB)
amem.on_resume("weights", made("weights"))
saver.pause("weights"); saver.resume("weights"); print(taken())
"""
    assert run(code) == "[('weights', 'active')]"


@pytest.mark.parametrize(
    "arguments, error",
    [
        ("'weights', None", "AmemTypeError: the function of on_resume('weights') is None, which cannot be called"),
        ("7, print", "AmemTypeError: a tag is a str, not 7"),
        ("'a\\0b', print", "AmemValueError: a tag has 1 to 64 letters, digits, '_', '-', '.', ':' or '/', unlike 'a\\x00b'"),
    ],
)
def test_wrong_arguments_are_refused(run: Callable[..., str], arguments: str, error: str) -> None:
    assert run(f"print(attempt(amem.on_resume, {arguments}))") == error
