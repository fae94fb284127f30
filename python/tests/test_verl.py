# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem.verl in a worker with the calls of verl 0.9.1, on the simulated GPU."""

import json

import pytest

WORKER = """
import asyncio, importlib, json, os, sys, types
from nccl_job import Job, look_up, open_by_ctypes
import amem

seen = []
def note(event): seen.append([event, amem.stats()["tags"]["nccl"]["resident_bytes"] > 0])

torch = sys.modules["torch"] = types.ModuleType("torch")
torch.zeros = lambda count: "on the CPU"
torch.cuda = types.SimpleNamespace(is_available=lambda: False)
distributed = sys.modules["torch.distributed"] = torch.distributed = types.ModuleType("torch.distributed")
distributed.all_reduce = lambda tensor: note("all trainers have released, told by a tensor " + tensor)

class Rollout:
    async def resume(self, tags): note("rollout resumes " + tags[0])

class ActorRolloutRefWorker:
    def init_model(self):
        importlib.import_module("amem.verl")
        self.job = Job(look_up(open_by_ctypes("libnccl.so.2", os.RTLD_NOW)))
        self.train()
        self.rollout = Rollout()
        workers.aggressive_empty_cache(force_sync=True)

    def train(self):
        assert self.job.all_reduce() == [[3.0], [3.0]]
        note("trained")

    async def update_weights(self, global_steps=None, mode="auto"):
        workers.aggressive_empty_cache(force_sync=True)
        await self.rollout.resume(tags=["weights"])
        self.train()
        await self.rollout.resume(tags=["kv_cache"])
        return [global_steps, mode]

verl = sys.modules["verl"] = types.ModuleType("verl")
verl.workers = sys.modules["verl.workers"] = types.ModuleType("verl.workers")
workers = verl.workers.engine_workers = sys.modules["verl.workers.engine_workers"] = types.ModuleType("engine_workers")
workers.aggressive_empty_cache = lambda force_sync: note("cache emptied")
workers.ActorRolloutRefWorker = ActorRolloutRefWorker

worker = ActorRolloutRefWorker()
worker.init_model()
note("rollouts start")
for step in (1, 2):
    assert asyncio.run(worker.update_weights(step, mode="naive")) == [step, "naive"]
    note("rollouts generate")
    worker.train()
print(json.dumps(seen))
"""

STEP = [
    ["rollout resumes weights", True],
    ["trained", True],
    ["all trainers have released, told by a tensor on the CPU", False],
    ["rollout resumes kv_cache", False],
    ["rollouts generate", False],
    ["trained", True],
]


def run(build, code, **settings):
    where = {"PATH": f"{build.command.parent}:/usr/bin:/bin", "AMEM_ENABLE": "1"}
    return build.python(code, **build.runtime_variables(**where, **settings))


def test_trainers_have_the_memory_of_nccl_only_while_they_work(build):
    seen = json.loads(run(build, WORKER, AMEM_RESUME_ON_CALL="1").splitlines()[-1])

    first = [["cache emptied", False], ["rollout resumes weights", False], *STEP[1:]]
    assert seen == [
        ["trained", True], ["cache emptied", True], ["rollouts start", False], *first, ["cache emptied", True], *STEP
    ]


def test_pause_that_is_refused_leaves_the_memory_with_a_warning(build):
    """With NCCL_CUMEM_ENABLE=0, NCCL has no memory that amem could release."""
    log = "seen = []\nimport logging; logging.basicConfig(stream=sys.stdout)"
    code = WORKER.replace("seen = []", log).replace("def note(event): ", "def note(event): pass  # ")
    text = run(build, code, AMEM_RESUME_ON_CALL="1", NCCL_CUMEM_ENABLE="0", AMEM_CUMEM="respect")

    warning = "WARNING:amem.verl:The memory of NCCL stays on the GPU: "
    assert text.count(warning) == 3 and "it runs with NCCL_CUMEM_ENABLE=0" in text


def test_processes_without_trainers_are_left_alone(build):
    assert run(build, "import amem.verl; print('imported')", AMEM_RESUME_ON_CALL="1") == "imported"


@pytest.mark.parametrize("value", [None, "0"])
def test_trainers_that_would_not_resume_are_refused(build, value):
    settings = {} if value is None else {"AMEM_RESUME_ON_CALL": value}
    code = "import amem\ntry: import amem.verl\nexcept amem.AmemError as error: print(error)"
    assert "needs AMEM_RESUME_ON_CALL=1" in run(build, code, **settings)
