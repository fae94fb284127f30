# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem.openrlhf in a worker with the calls of OpenRLHF 0.11.2, on the simulated GPU."""

import json

# openrlhf.trainer.ray.ppo_actor: the parts that amem changes and uses.
PPO_ACTOR = """
class ActorPPOTrainer:
    def __init__(self, options, vllm_engines=None):
        self.args, self.vllm_engines = options, vllm_engines
        train()

    def ppo_train(self):
        train()

    def broadcast_to_vllm(self):
        train()
"""

WORKER = """
import builtins, importlib, json, logging, os, pathlib, sys, types
from nccl_job import Job, look_up, open_by_ctypes
import amem

logging.basicConfig(stream=sys.stdout)
seen = []
def note(event): seen.append([event, amem.stats()["tags"]["nccl"]["resident_bytes"] > 0])

torch = sys.modules["torch"] = types.ModuleType("torch")
torch.zeros = lambda count, device: device
torch.cuda = types.SimpleNamespace(is_available=lambda: False)
distributed = sys.modules["torch.distributed"] = torch.distributed = types.ModuleType("torch.distributed")
distributed.new_group = lambda backend: backend
distributed.all_reduce = lambda tensor, group: note(f"trainers meet by {group}")

job = Job(look_up(open_by_ctypes("libnccl.so.2", os.RTLD_NOW)))
def train():
    assert job.all_reduce() == [[3.0], [3.0]]
    note("trained")
builtins.train = train

package = pathlib.Path("openrlhf/trainer/ray")
package.mkdir(parents=True)
(package / "ppo_actor.py").write_text(PPO_ACTOR)
sys.path.insert(0, ".")

from amem.openrlhf import install
if INSTALLS_FIRST: install()
trainers = importlib.import_module("openrlhf.trainer.ray.ppo_actor")
if not INSTALLS_FIRST: install()
engines, options = ["vllm"], types.SimpleNamespace(train=types.SimpleNamespace(colocate_all=True, async_enable=False))
"""

JOB = """
trainer = trainers.ActorPPOTrainer(options, vllm_engines=engines)
for step in (1, 2):
    note("rollouts generate")
    trainer.ppo_train()
    trainer.broadcast_to_vllm()
note("rollouts generate")
print(json.dumps(seen))
"""

TRAINED, LEFT = ["trained", True], ["rollouts generate", False]
RELEASED = [["trainers meet by gloo", True], ["trainers meet by gloo", False]]


def run(build, code, folder, installs_first=True, **settings):
    where = {"PATH": f"{build.command.parent}:/usr/bin:/bin", "AMEM_ENABLE": "1", **settings}
    start = f"import os\nos.chdir({str(folder)!r})\nPPO_ACTOR, INSTALLS_FIRST = {PPO_ACTOR!r}, {installs_first}\n"
    return build.python(start + WORKER + code, **build.runtime_variables(**where))


def test_trainers_have_the_memory_of_nccl_only_while_they_work(build, tmp_path):
    for installs_first in (True, False):
        folder = tmp_path / str(installs_first)
        folder.mkdir()
        seen = json.loads(run(build, JOB, folder, installs_first).splitlines()[-1])
        assert seen == [TRAINED, *RELEASED, *[LEFT, TRAINED, TRAINED, *RELEASED] * 2, LEFT]


def test_trainers_beside_their_rollouts_keep_it(build, tmp_path):
    """At the same time, on other GPUs, or without vLLM."""
    for number, change in enumerate(("options.train.async_enable = True", "options.train.colocate_all = False", "engines = None")):
        folder = tmp_path / str(number)
        folder.mkdir()
        seen = json.loads(run(build, change + JOB, folder).splitlines()[-1])
        assert all(event == "trained" or event == "rollouts generate" for event, _ in seen)
        assert all(on_the_gpu for _, on_the_gpu in seen)


def test_pause_that_is_refused_leaves_the_memory_with_a_warning(build, tmp_path):
    """With NCCL_CUMEM_ENABLE=0, NCCL has no memory that amem could release."""
    code = JOB.replace("trainer =", "note = lambda event: None\ntrainer =")
    text = run(build, code, tmp_path, NCCL_CUMEM_ENABLE="0", AMEM_CUMEM="respect")

    warning = "WARNING:amem.openrlhf:The memory of NCCL stays on the GPU: "
    assert text.count(warning) == 3 and "it runs with NCCL_CUMEM_ENABLE=0" in text


def test_other_workers_are_left_alone(build, tmp_path):
    assert run(build, "install(); print('installed')", tmp_path).splitlines()[-1] == "installed"
