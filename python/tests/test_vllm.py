# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The sleep-mode backend for vLLM, with a stand-in for the part of vLLM that calls it, on the simulated GPU."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Build

STAND_IN = Path(__file__).with_name("vllm_stand_in")

WORKER = """
import json, os, sys
import amem_vllm
amem_vllm.register()
seen = {"enabled": "amem" in sys.modules}
if seen["enabled"]:
    from vllm.device_allocator import sleep_mode_backend as vllm
    from nccl_job import CapturedSum, Job, look_up, open_by_ctypes
    job = Job(look_up(open_by_ctypes("libnccl.so.2", os.RTLD_NOW)))
    import amem
    backend = vllm.SleepModeBackendFactory.get_backend_class("amem")()
    def resident(): return amem.stats()["tags"]["nccl"]["resident_bytes"]
    seen["sums"] = [job.all_reduce()]
    seen["resident"] = [resident()]
    graph = CapturedSum(job)
    seen["launches"] = [graph.launch()]
    backend.suspend(2); seen["resident"].append(resident()); seen["launches"].append(graph.launch())
    backend.resume(["weights"]); seen["resident"].append(resident()); seen["launches"].append(graph.launch())
    backend.resume(["kv_cache"])
    backend.discard(("kv_cache",)); seen["resident"].append(resident())
    seen["sums"].append(job.all_reduce())
    seen["calls"] = vllm.calls
    seen["graphs"] = backend.preserves_graphs_with_communicators()
print(json.dumps(seen))
"""


@pytest.fixture
def worker(build: Build) -> Callable[..., Any]:
    """Runs WORKER as a process of vLLM, with what was seen as its result."""

    def run(code: str = WORKER, vllm: Path = STAND_IN, **settings: str) -> Any:
        variables = build.runtime_variables(PATH=f"{build.command.parent}:/usr/bin:/bin", **settings)
        variables["PYTHONPATH"] += f":{vllm}"
        return json.loads(build.python(code, **variables).splitlines()[-1])

    return run


@pytest.mark.parametrize("before", ["", "import os\nif os.fork() != 0: os._exit(os.wait()[1])\n"])
def test_sleep_also_releases_the_memory_of_nccl(worker: Callable[..., Any], before: str) -> None:
    """vLLM may fork its workers from a process that has loaded the plugin. The launch of a graph during the sleep restores
    NCCL's memory, as would a call of a trainer in the same process."""
    code = WORKER.replace("seen = ", before + "seen = ")
    seen = worker(code=code, AMEM_ENABLE="1")

    active, asleep, awake, discarded = seen["resident"]
    assert active > 0 and asleep == 0 and awake == discarded == active
    assert seen["sums"] == [[[3.0], [3.0]]] * 2
    assert seen["calls"] == [["suspend", 2], ["resume", ["weights"]], ["resume", ["kv_cache"]], ["discard", ["kv_cache"]]]
    assert seen["graphs"] and seen["launches"] == [0, 0, 0]


SLEEPER = """
    import types
    class ExecutorWithExternalLauncher: pass
    class OfTheTrainer(ExecutorWithExternalLauncher): pass
    class Worker:
        def __init__(self, launcher): self.parallel_config = types.SimpleNamespace(distributed_executor_backend=launcher)
        def suspend(self): backend.suspend(2)
    worker = Worker(%s)
"""


@pytest.mark.parametrize("launcher, stays", [
    ('"external_launcher"', True),
    ("OfTheTrainer", True),
    ('"__main__.OfTheTrainer"', True),
    ('"mp"', False),
    ("None", False),
    ("Worker", False),
])  # fmt: skip
def test_memory_of_nccl_stays_in_the_process_of_a_trainer(worker: Callable[..., Any], launcher: str, stays: bool) -> None:
    """Its ranks do not wait for each other before they sleep: the pause of the last one would wait for the collective of the
    first."""
    code = WORKER.replace("    graph = ", SLEEPER % launcher + "    graph = ")
    seen = worker(code=code.replace("backend.suspend(2); seen", "worker.suspend(); seen"), AMEM_ENABLE="1")

    active, asleep, awake, _ = seen["resident"]
    assert asleep == (active if stays else 0) and awake == active > 0
    assert ["suspend", 2] in seen["calls"] and ["resume", ["weights"]] in seen["calls"]


LATE = """
from nccl_job import Job, look_up, open_by_ctypes
early = Job(look_up(open_by_ctypes("libnccl.so.2", os.RTLD_NOW)))
import amem_vllm
"""


@pytest.mark.parametrize("why", ["no cuMem", "a communicator before amem"])
def test_pause_that_is_refused_leaves_vllm_asleep(worker: Callable[..., Any], why: str) -> None:
    if why == "no cuMem":
        seen = worker(AMEM_ENABLE="1", NCCL_CUMEM_ENABLE="0", AMEM_CUMEM="respect")
    else:
        seen = worker(code=WORKER.replace("import amem_vllm\n", LATE), AMEM_ENABLE="1")

    assert seen["sums"] == [[[3.0], [3.0]]] * 2
    assert ["suspend", 2] in seen["calls"] and ["resume", ["weights"]] in seen["calls"]


PARTLY = """
    import amem.trainers as module
    real = module.pause
    def pause(*tags, group):
        real(*tags)
        raise amem.AmemError("what was released cannot be restored")
    module.pause = pause
"""


def test_pause_that_fails_when_memory_is_released_is_resumed(worker: Callable[..., Any]) -> None:
    seen = worker(code=WORKER.replace("    seen[\"sums\"] = ", PARTLY + "    seen[\"sums\"] = "), AMEM_ENABLE="1")

    active, asleep, awake, _ = seen["resident"]
    assert active > 0 and asleep == 0 and awake == active


NO_ROOM_ONCE = """
    import amem.vllm_backend as module
    real_resume = module.resume
    def resume(*tags):
        module.resume = real_resume
        raise amem.AmemError("no room")
    def wake_up():
        module.resume = resume
        try:
            backend.resume(["weights"])
        except amem.AmemError as error:
            seen["failed"] = [str(error), resident(), list(vllm.calls)]
        backend.resume(["weights"])
"""


def test_wake_up_that_has_failed_is_repeated(worker: Callable[..., Any]) -> None:
    """The first one restores nothing, NCCL's memory and vLLM's own; the second one both."""
    code = WORKER.replace("    graph = ", NO_ROOM_ONCE + "    graph = ")
    code = code.replace('seen["launches"].append(graph.launch())\n    backend.resume(["weights"])', "pass\n    wake_up()")
    seen = worker(code=code, AMEM_ENABLE="1")

    active, asleep, awake, _ = seen["resident"]
    assert active > 0 and asleep == 0 and awake == active
    assert seen["failed"] == ["no room", 0, [["suspend", 2]]]
    assert seen["calls"][:2] == [["suspend", 2], ["resume", ["weights"]]] and seen["sums"] == [[[3.0], [3.0]]] * 2


def test_plugin_does_nothing_unasked(worker: Callable[..., Any]) -> None:
    assert worker() == {"enabled": False}


def test_plugin_does_nothing_in_a_vllm_without_such_backends(worker: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "vllm.py").touch()
    assert worker(vllm=tmp_path, AMEM_ENABLE="1") == {"enabled": False}


@pytest.mark.parametrize("settings, says", [({"AMEM_ENABLE": "1", "AMEM_TMS": "weights"}, True), ({"AMEM_ENABLE": "1"}, False)])
def test_plugin_says_that_vllm_has_no_backends(worker: Callable[..., Any], tmp_path: Path, settings: dict[str, str], says: bool) -> None:
    (tmp_path / "vllm.py").touch()
    code = "import io, json, logging, amem_vllm\nlog = io.StringIO()\nlogging.basicConfig(stream=log)\n"
    logged = worker(code + "amem_vllm.register(); print(json.dumps(log.getvalue()))", vllm=tmp_path, **settings)
    assert ("has no sleep-mode backends" in logged) == says


@pytest.mark.parametrize("change", [
    "del vllm.CuMemBackend",
    "del vllm.CuMemBackend.suspend",
    "del vllm.SleepModeBackendFactory",
    "del vllm.SleepModeBackendFactory.register_backend",
    "vllm.SleepModeBackendFactory.register_backend = classmethod(lambda cls, name, backend: None)",
])
def test_plugin_leaves_backends_with_another_interface_alone(worker: Callable[..., Any], change: str) -> None:
    code = f"""
import io, json, logging, sys, amem_vllm
log = io.StringIO()
logging.basicConfig(stream=log)
from vllm.device_allocator import sleep_mode_backend as vllm
{change}
amem_vllm.register(); print(json.dumps([log.getvalue(), "amem" in sys.modules]))
"""
    logged, enabled = worker(code, AMEM_ENABLE="1", AMEM_TMS="weights")
    assert "its sleep does not release NCCL's memory" in logged and not enabled


def test_arguments_that_are_not_known_reach_vllms_backend(worker: Callable[..., Any]) -> None:
    code = WORKER.replace("backend = vllm", """
    class Newer(vllm.CuMemBackend):
        def suspend(self, level=1, *, mode=None): vllm.calls.append([level, mode])
        def resume(self, tags=None, *, mode=None): vllm.calls.append([tags, mode])
    vllm.CuMemBackend = Newer
    backend = vllm""")
    code = code[: code.index('    seen["sums"]')] + """
    backend.suspend(level=2, mode="abort"); asleep = resident(); backend.resume(None, mode="wait")
    seen = [vllm.calls, asleep, resident() > 0]
print(json.dumps(seen))
"""
    assert worker(code, AMEM_ENABLE="1") == [[[2, "abort"], [None, "wait"]], 0, True]


DEFAULT = """
import json
import amem_vllm
from vllm.device_allocator.sleep_mode_backend import CuMemBackend, SleepModeBackendFactory as factory
factory.register_backend("cumem", CuMemBackend.__module__, "CuMemBackend")
amem_vllm.register()
print(json.dumps(factory.get_backend_class("cumem").__name__))
"""


@pytest.mark.parametrize("settings, backend", [
    ({"AMEM_ENABLE": "1", "AMEM_TMS": "weights"}, "AmemBackend"),
    ({"AMEM_ENABLE": "1", "AMEM_TMS": "default"}, "CuMemBackend"),
    ({"AMEM_ENABLE": "1"}, "CuMemBackend"),
    ({"AMEM_TMS": "weights"}, "CuMemBackend"),
])  # fmt: skip
def test_variable_makes_it_the_default_backend(worker: Callable[..., Any], settings: dict[str, str], backend: str) -> None:
    assert worker(code=DEFAULT, **settings) == backend


GRAPHS = """
import json, types
import amem_vllm
from vllm.config import VllmConfig
amem_vllm.register(); amem_vllm.register()
models = [types.SimpleNamespace(sleep_mode_backend=name) for name in ("cumem", "amem", "other")]
seen = [VllmConfig(model).use_cumem_cudagraph_pool for model in (*models, None)]
print(json.dumps([seen, models[1].sleep_mode_backend]))
"""


def test_cuda_graphs_are_offloaded_as_by_vllms_own_backend(worker: Callable[..., Any]) -> None:
    assert worker(code=GRAPHS, AMEM_ENABLE="1") == [[True, True, False, False], "amem"]


def test_plugin_works_in_a_vllm_that_does_not_offload_cuda_graphs(worker: Callable[..., Any]) -> None:
    code = GRAPHS.replace("amem_vllm.register();", "del VllmConfig.use_cumem_cudagraph_pool; amem_vllm.register();")
    assert worker(code=code.partition("models =")[0] + "print(hasattr(VllmConfig, 'use_cumem_cudagraph_pool') * 1)", AMEM_ENABLE="1") == 0
