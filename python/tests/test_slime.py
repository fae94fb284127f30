# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem.slime in a trainer with the calls of slime 624b824a8, on the simulated GPU."""

import json

import pytest

from conftest import Build

TRAINER = """
import json, logging, os, sys, types
from nccl_job import Job, look_up, open_by_ctypes
import amem, fake_group

logging.basicConfig(stream=sys.stdout)
seen = []
def note(event): seen.append([event, amem.stats()["tags"]["nccl"]["resident_bytes"] > 0])

def module(name, **content):
    made = sys.modules[name] = types.ModuleType(name)
    vars(made).update(content)
    return made

fake_group.install(lambda count, group: note(f"trainers meet by {group}"))
for package in ("slime", "slime.utils", "slime.backends", "slime.backends.megatron_utils"):
    module(package)
module("slime.utils.distributed_utils", get_gloo_group=lambda: "gloo")
actor = module("slime.backends.megatron_utils.actor", note=note)
exec('''
def destroy_process_groups(): note("groups destroyed")
def reload_process_groups(): note("groups recreated")

class MegatronTrainRayActor:
    def init(self, custom_init):
        custom_init(None)
        self.sleep()  # allow: the name is slime's

    def sleep(self):  # allow: the name is slime's
        destroy_process_groups()
        note("tensors paused")

    def wake_up(self):
        note("tensors resumed")
        reload_process_groups()

    def update_weights(self, use_nccl):
        reload_process_groups()
        use_nccl()
        destroy_process_groups()
''', vars(actor))

job = Job(look_up(open_by_ctypes("libnccl.so.2", os.RTLD_NOW)))
def use_nccl():
    assert job.all_reduce() == [[3.0], [3.0]]
    note("used NCCL")

import amem.slime
use_nccl()
trainer = actor.MegatronTrainRayActor()
trainer.init(amem.slime.init)
for step in (1, 2):
    note("rollouts generate")
    trainer.wake_up()
    use_nccl()
    trainer.sleep()  # allow: the name is slime's
    trainer.update_weights(use_nccl)
note("rollouts generate")
print(json.dumps(seen))
"""

USED, LEFT = ["used NCCL", True], ["rollouts generate", False]
RELEASED = [["trainers meet by gloo", True], ["trainers meet by gloo", False]]


def run(build: Build, code: str = TRAINER, **settings: str) -> str:
    where = {"PATH": f"{build.command.parent}:/usr/bin:/bin", "AMEM_ENABLE": "1", **settings}
    return build.python(code, **build.runtime_variables(**where))


def test_nccl_is_paused_where_slime_destroys_its_groups(build: Build) -> None:
    asleep = [*RELEASED, ["tensors paused", False]]
    step = [LEFT, ["tensors resumed", False], USED, *asleep, USED, *RELEASED]
    assert json.loads(run(build).splitlines()[-1]) == [USED, *asleep, *step, *step, LEFT]


def test_slime_destroys_its_groups_where_a_pause_is_refused(build: Build) -> None:
    """With NCCL_CUMEM_ENABLE=0, NCCL has no memory that amem could release."""
    code = TRAINER.replace("def note(event): ", "def note(event): seen.append(event)  # ")
    text = run(build, code, NCCL_CUMEM_ENABLE="0", AMEM_CUMEM="respect")

    events = [event for event in json.loads(text.splitlines()[-1]) if event.startswith("groups")]
    assert text.count("WARNING:amem.slime:slime destroys") == 5 and "it runs with NCCL_CUMEM_ENABLE=0" in text
    assert events == ["groups destroyed", "groups recreated"] * 4 + ["groups destroyed"]


def test_slime_destroys_its_groups_where_a_pause_of_another_trainer_is_refused(build: Build) -> None:
    """Once; the next sleep pauses NCCL's memory again."""
    code = TRAINER.replace("import amem.slime\n", """import amem.slime, torch
refusals = [1]
def meet(count, group): count[0] += refusals.pop() if refusals and amem.state() == "paused" else 0
torch.distributed.all_reduce = meet
""")
    text = run(build, code)

    events = [event for event, _ in json.loads(text.splitlines()[-1])]
    assert events.count("groups destroyed") == events.count("groups recreated") == 1
    assert "1 of the group's ranks could not pause" in text


@pytest.mark.parametrize("unknown", [
    'sys.modules["slime.backends.megatron_utils.other"] = sys.modules.pop("slime.backends.megatron_utils.actor")',
    'actor.remove_groups = actor.destroy_process_groups; del actor.destroy_process_groups',
    'del sys.modules["slime.utils.distributed_utils"].get_gloo_group',
    'del sys.modules["slime.utils.distributed_utils"]; sys.modules["slime.utils"].__path__ = []',
])
def test_another_slime_is_left_alone_with_a_warning(build: Build, unknown: str) -> None:
    code = TRAINER[: TRAINER.index("import amem.slime")] + f"""
{unknown}
before = dict(vars(actor))
import amem.slime
amem.slime.init(None)
print(before == vars(actor))
"""
    lines = run(build, code).splitlines()
    assert lines[0].startswith("WARNING:amem.slime:The memory of NCCL stays on the GPU: ") and lines[1:] == ["True"]


def test_slime_destroys_its_groups_with_its_own_arguments(build: Build) -> None:
    code = TRAINER.replace("def note(event): ", "def note(event): seen.append(event)  # ")
    code = code.replace("def destroy_process_groups(): note(\"groups", "def destroy_process_groups(kind): note(kind + \" groups")
    code = code.replace("        destroy_process_groups()", "        destroy_process_groups('some')")
    text = run(build, code, NCCL_CUMEM_ENABLE="0", AMEM_CUMEM="respect")
    assert json.loads(text.splitlines()[-1]).count("some groups destroyed") == 5


def test_slime_destroys_its_groups_where_amem_is_off(build: Build) -> None:
    code = TRAINER.replace("def note(event): ", "def note(event): seen.append(event)  # ")
    text = run(build, code, AMEM_ENABLE="0")

    events = json.loads(text.splitlines()[-1])
    assert "WARNING:amem.slime:amem is off" in text
    assert events.count("groups destroyed") == 5 and events.count("groups recreated") == 4
