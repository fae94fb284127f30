# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem.verl in a worker with the calls of verl 0.9.1, on the simulated GPU."""

import json

import pytest

from conftest import Build

WORKER = """
import asyncio, importlib, json, os, sys, types
from nccl_job import Job, look_up, open_by_ctypes
import amem, fake_group

seen = []
def note(event): seen.append([event, amem.stats()["tags"]["nccl"]["resident_bytes"] > 0])

fake_group.install(lambda count, group: note(f"{group} meet"))

class Rollout:
    async def resume(self, tags): note("rollout resumes " + tags[0])

job = Job(look_up(open_by_ctypes("libnccl.so.2", os.RTLD_NOW)))

class ActorRolloutRefWorker:
    def __init__(self, role):
        self.role, self.rollout = role, None

    def init_model(self):
        importlib.import_module("amem.verl")
        self.train()
        if "rollout" in self.role: self.rollout = workers.get_rollout_class("vllm", "async")()
        workers.aggressive_empty_cache(force_sync=True)

    def train(self):
        assert job.all_reduce() == [[3.0], [3.0]]
        note("trained")

    async def update_weights(self, global_steps=None, mode="auto"):
        if mode != "naive": return "sent"
        workers.aggressive_empty_cache(force_sync=True)
        await self.rollout.resume(tags=["weights"])
        self.train()
        await self.rollout.resume(tags=["kv_cache"])
        return [global_steps, mode]

verl = sys.modules["verl"] = types.ModuleType("verl")
verl.workers = sys.modules["verl.workers"] = types.ModuleType("verl.workers")
workers = verl.workers.engine_workers = sys.modules["verl.workers.engine_workers"] = types.ModuleType("engine_workers")
workers.aggressive_empty_cache = lambda force_sync: note("cache emptied")
workers.get_rollout_class = lambda name, mode: Rollout
workers.ActorRolloutRefWorker = ActorRolloutRefWorker
"""

TRAINER = """
ActorRolloutRefWorker("ref").init_model()
worker = ActorRolloutRefWorker("actor_rollout")
worker.init_model()
note("rollouts start")
for step in (1, 2):
    assert asyncio.run(worker.update_weights(step, mode="naive")) == [step, "naive"]
    note("rollouts generate")
    worker.train()
assert "resume" not in vars(worker.rollout)
print(json.dumps(seen))
"""

# Each event, and whether NCCL's memory is on the GPU then.
TRAINED, EMPTIED, MET = ["trained", True], ["cache emptied", True], ["all trainers meet", False]
RELEASED = [["all trainers meet", True], MET]
STEP = [EMPTIED, ["rollout resumes weights", True], TRAINED, *RELEASED, ["rollout resumes kv_cache", False]]
LEFT = ["rollouts generate", False]


def run(build: Build, code: str, **settings: str) -> str:
    where = {"PATH": f"{build.command.parent}:/usr/bin:/bin", "AMEM_ENABLE": "1", **settings}
    return build.python(code, **build.runtime_variables(**where))


def test_trainers_have_the_memory_of_nccl_only_while_they_work(build: Build) -> None:
    seen = json.loads(run(build, WORKER + TRAINER).splitlines()[-1])

    loaded = [TRAINED, EMPTIED, TRAINED, EMPTIED, *RELEASED, ["rollouts start", False]]
    first = [["cache emptied", False], ["rollout resumes weights", False], *STEP[2:]]
    assert seen == [*loaded, *first, LEFT, TRAINED, *STEP, LEFT, TRAINED]


def test_trainers_whose_rollouts_run_elsewhere_keep_it(build: Build) -> None:
    trainer = """
worker = ActorRolloutRefWorker("actor")
worker.init_model()
assert asyncio.run(worker.update_weights(1, mode="nccl")) == "sent"
print(json.dumps(seen))
"""
    assert json.loads(run(build, WORKER + trainer).splitlines()[-1]) == [TRAINED, EMPTIED]


def test_pause_that_is_refused_leaves_the_memory_with_a_warning(build: Build) -> None:
    """With NCCL_CUMEM_ENABLE=0, NCCL has no memory that amem could release."""
    log = "seen = []\nimport logging; logging.basicConfig(stream=sys.stdout)"
    code = WORKER.replace("seen = []", log).replace("def note(event): ", "def note(event): pass  # ")
    text = run(build, code + TRAINER, NCCL_CUMEM_ENABLE="0", AMEM_CUMEM="respect")

    warning = "WARNING:amem.verl:The memory of NCCL stays on the GPU: "
    assert text.count(warning) == 3 and "it runs with NCCL_CUMEM_ENABLE=0" in text


def test_without_amem_only_a_warning(build: Build) -> None:
    code = WORKER.replace("seen = []", "seen = []\nimport logging; logging.basicConfig(stream=sys.stdout)")
    code = code.replace("def note(event): ", "def note(event): pass  # ")
    text = run(build, code + TRAINER, AMEM_ENABLE="0")
    assert text.count("WARNING:amem.verl:The memory of NCCL stays on the GPU: ") == 3


UNKNOWN = {
    "no worker": "del workers.ActorRolloutRefWorker",
    "no function for rollouts": "del workers.get_rollout_class",
    "no function that empties the cache": "del workers.aggressive_empty_cache",
    "no update of weights": "del ActorRolloutRefWorker.update_weights",
    "an update that is no coroutine": "ActorRolloutRefWorker.update_weights = lambda self: 'updated'",
    "workers in another module": "del sys.modules['verl.workers.engine_workers']; sys.modules['verl.workers.fsdp_workers'] = workers",
}


@pytest.mark.parametrize("change", UNKNOWN)
def test_another_verl_is_left_alone_with_a_warning(build: Build, change: str) -> None:
    code = f"""
import logging; logging.basicConfig(stream=sys.stdout)
{UNKNOWN[change]}
before = dict(vars(workers)), dict(vars(ActorRolloutRefWorker))
import amem.verl
print(before == (dict(vars(workers)), dict(vars(ActorRolloutRefWorker))))
"""
    lines = run(build, WORKER + code).splitlines()
    assert lines[0].startswith("WARNING:amem.verl:The memory of NCCL stays on the GPU: ") and lines[1:] == ["True"]


ROLLOUTS = {  # of verls that are not known: how an update resumes them
    "await self.rollout.resume()": "async def resume(self): return note('resumed')",
    "await self.rollout.resume(['kv_cache'], force=True)": "async def resume(self, tags, force): return note('resumed')",
    "self.rollout.resume(tags=['kv_cache'])": "def resume(self, tags): return note('resumed')",
    "await self.rollout.resume(7)": "async def resume(self, tags): return note('resumed')",
    "await self.rollout.resume(tags=['kv_cache'])": "__slots__ = ()\n    async def resume(self, tags): return note('resumed')",
    "await self.rollout.wake_up()": "async def wake_up(self): return note('resumed')",
}


@pytest.mark.parametrize("call", ROLLOUTS)
def test_rollouts_with_another_interface_are_resumed(build: Build, call: str) -> None:
    code = f"""
class Rollout:
    {ROLLOUTS[call]}
async def update_weights(self):
    {call}
    return "updated"
ActorRolloutRefWorker.update_weights = update_weights
worker = ActorRolloutRefWorker("actor_rollout")
worker.init_model()
del seen[:]
print(asyncio.run(worker.update_weights()), [event for event, _ in seen][-1], getattr(worker.rollout, '__dict__', {{}}))
"""
    assert run(build, WORKER + code).splitlines()[-1] == "updated resumed {}"


def test_other_processes_of_verl_are_left_alone(build: Build) -> None:
    assert run(build, "import amem.verl; print('imported')") == "imported"
