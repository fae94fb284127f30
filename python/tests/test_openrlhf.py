# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem.openrlhf in a worker with the calls of OpenRLHF 0.11.2, on the simulated GPU."""

import json
from pathlib import Path

from conftest import Build

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
import amem, fake_group

logging.basicConfig(stream=sys.stdout)
seen = []
def note(event): seen.append([event, amem.stats()["tags"]["nccl"]["resident_bytes"] > 0])

distributed = fake_group.install(lambda count, group: note(f"trainers meet by {group}"))

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
install()
trainers = importlib.import_module("openrlhf.trainer.ray.ppo_actor")
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


def run(build: Build, code: str, folder: Path, ppo_actor: str = PPO_ACTOR, **settings: str) -> str:
    where = {"PATH": f"{build.command.parent}:/usr/bin:/bin", "AMEM_ENABLE": "1", **settings}
    start = f"import os\nos.chdir({str(folder)!r})\nPPO_ACTOR = {ppo_actor!r}\n"
    return build.python(start + WORKER + code, **build.runtime_variables(**where))


def test_trainers_have_the_memory_of_nccl_only_while_they_work(build: Build, tmp_path: Path) -> None:
    seen = json.loads(run(build, JOB, tmp_path).splitlines()[-1])
    assert seen == [TRAINED, *RELEASED, *[LEFT, TRAINED, TRAINED, *RELEASED] * 2, LEFT]


def test_trainers_beside_their_rollouts_keep_it(build: Build, tmp_path: Path) -> None:
    """At the same time, on other GPUs, or without vLLM."""
    for number, change in enumerate(("options.train.async_enable = True", "options.train.colocate_all = False", "engines = None")):
        folder = tmp_path / str(number)
        folder.mkdir()
        seen = json.loads(run(build, change + JOB, folder).splitlines()[-1])
        assert all(event == "trained" or event == "rollouts generate" for event, _ in seen)
        assert all(on_the_gpu for _, on_the_gpu in seen)


def test_pause_that_is_refused_leaves_the_memory_with_a_warning(build: Build, tmp_path: Path) -> None:
    """With NCCL_CUMEM_ENABLE=0, NCCL has no memory that amem could release."""
    code = JOB.replace("trainer =", "note = lambda event: None\ntrainer =")
    text = run(build, code, tmp_path, NCCL_CUMEM_ENABLE="0", AMEM_CUMEM="respect")

    warning = "WARNING:amem.openrlhf:The memory of NCCL stays on the GPU: "
    assert text.count(warning) == 3 and "it runs with NCCL_CUMEM_ENABLE=0" in text


def test_another_openrlhf_is_left_alone_with_a_warning(build: Build, tmp_path: Path) -> None:
    """With other options, with another trainer, and on a host without Gloo."""
    flat = JOB.replace("trainer =", "options = types.SimpleNamespace(colocate_all_models=True)\ntrainer =")
    without_gloo = """
def no_interface(backend): raise RuntimeError("no interface")
distributed.new_group = no_interface
"""
    other = PPO_ACTOR.replace("ActorPPOTrainer", "PolicyTrainer")
    jobs = {"flat": (flat, PPO_ACTOR), "gloo": (without_gloo + JOB, PPO_ACTOR), "other": (JOB.replace("ActorPPO", "Policy"), other)}
    for name, (code, ppo_actor) in jobs.items():
        (tmp_path / name).mkdir()
        text = run(build, code, tmp_path / name, ppo_actor)
        assert text.count("WARNING:amem.openrlhf:The memory of NCCL stays on the GPU: ") == 1
        seen = json.loads(text.splitlines()[-1])
        assert all(on_the_gpu for _, on_the_gpu in seen) and not any("meet" in event for event, _ in seen)


def test_update_of_weights_with_another_interface_works(build: Build, tmp_path: Path) -> None:
    """And a trainer that was imported before."""
    other = PPO_ACTOR.replace("def broadcast_to_vllm(self):", "def broadcast_to_vllm(self, step):") + "        return step\n"
    code = """
sys.meta_path[:] = [finder for finder in sys.meta_path if "amem" not in type(finder).__module__ + getattr(finder, "__module__", "")]
del sys.modules["openrlhf.trainer.ray.ppo_actor"]
trainers = importlib.import_module("openrlhf.trainer.ray.ppo_actor")
install()
trainer = trainers.ActorPPOTrainer(options, vllm_engines=engines)
print(trainer.broadcast_to_vllm(7), json.dumps(seen))
"""
    step, _, events = run(build, code, tmp_path, other).splitlines()[-1].partition(" ")
    assert (step, json.loads(events)) == ("7", [TRAINED, *RELEASED, TRAINED, *RELEASED])


def test_workers_without_openrlhf_import_what_they_need(build: Build) -> None:
    code = """
import importlib, importlib.util, sys
from amem.openrlhf import install
install()
import fractions
for name in ("openrlhf.trainer.ray.ppo_actor", "openrlhf"):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        print(error)
sys.modules["openrlhf.trainer.ray"] = package = type(sys)("openrlhf.trainer.ray")
package.__path__ = []
print(importlib.util.find_spec("openrlhf.trainer.ray.ppo_actor"))
"""
    assert build.python(code, **build.runtime_variables()).splitlines() == ["No module named 'openrlhf'"] * 2 + ["None"]
