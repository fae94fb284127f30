# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""All cases that need GPUs, in the order in which they run: ./dev gpu [options of pytest].

They need a build folder, or a copy of the files in machine.NEEDED, this repository, pytest, a stock NCCL and, for the
cases named torch.*, amem_run.*, one_gpu.* and two_agents.*, PyTorch in this Python.
"""

import importlib.util
import itertools
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

import catching
from case import REPORT, Case
from compiled_cases import compiled_cases, device_communicator
from machine import FIRST_THAT_SHARES, HERE, HOOKED, ROOT, Machine, ask, nccl_version
from reports import demo_reader, read_nccl_tests, symmetric_demo_reader

# Of suites that count them; 0.13 s each on H200s.
CYCLES = {"Cycles": 1000, "TwoJobs": 20}
PROTOCOLS = ("LL", "LL128", "Simple")
MOST_RANKS = 4


def _tests(program: Path, option: str, machine: Machine) -> list[str]:
    """The names of a GoogleTest program's tests, as the option leaves them."""
    # "Suite." with its tests below it, indented; GoogleTest's main says something else before.
    found, suite = [], ""
    for line in ask([str(program), option, "--gtest_list_tests"], machine.variables).splitlines():
        if match := re.match(r"([\w/]+\.)(?:\s|$)", line):
            suite = match[1]
        elif suite and (match := re.match(r"  (\S+)", line)):
            found.append(suite + match[1])
    if not found:
        raise pytest.UsageError(f"{program} {option} has no tests")
    return found


def _contract(machine: Machine) -> list[Case]:
    """The driver as amem relies on it, and as NCCL sees it under amem: without slabs and in them."""
    folder = machine.build / "tests"

    def case(name: str, program: str, option: str, variables: dict[str, str]) -> Case:
        tests = tuple(_tests(folder / program, option, machine))
        return Case(name, [str(folder / program)], 120, 1, variables, tests)

    # What only the simulated driver has is tested without GPUs.
    cases = [case("contract", "driver_contract_test", "--gtest_filter=-Simulator*", {})]
    for name, slab in HOOKED.items():
        variables = {"AMEM_ENABLE": "1", "AMEM_SLAB": slab}
        cases.append(case(name, "hooked_contract_test", f"--gtest_flagfile={folder / name}.flags", variables))
    return cases


def _process(machine: Machine) -> list[Case]:
    """Each suite of process_test, with real GPUs in the place of simulated ones; ranks may share them."""
    program = machine.build / "tests" / "process_test"
    variables = {
        "AMEM_TEST_REAL_GPU": "1",
        "AMEM_TEST_RANK_PROGRAM": str(machine.build / "bin" / "amem_rank"),
    }
    if machine.share:
        variables["AMEM_TEST_SHARED_GPUS"] = str(machine.gpus)
    suites: dict[str, list[str]] = {}
    for test in _tests(program, "--gtest_filter=*", machine):
        suites.setdefault(test.split(".")[0], []).append(test)
    cases = []
    for suite, tests in suites.items():
        # Of a suite with parameters the name has a slash: "When/ExitOfPeer".
        name = f"process.{suite.replace('/', '.')}"
        cycles = {"AMEM_TEST_CYCLES": str(CYCLES[suite])} if suite in CYCLES else {}
        cases.append(Case(name, [str(program)], 600, 1, {**variables, **cycles}, tuple(tests)))
    # All of them once more with a driver object for each buffer.
    tests = _tests(program, "--gtest_filter=-Cycles.*:Orders.*", machine)
    variables["AMEM_SLAB"] = "0"
    cases.append(Case("process.without_slabs", [str(program)], 900, 1, variables, tuple(tests)))
    return cases


def _seeded(machine: Machine) -> Case:
    """What a job notices when the library breaks a rule on purpose, under a stock NCCL."""
    program = machine.build / "tests" / "seeded_fault_test"
    rank_program = str(machine.build / "tests" / "seeded" / "bin" / "amem_rank")
    variables = {"AMEM_TEST_REAL_GPU": "1", "AMEM_TEST_SEEDED_RANK_PROGRAM": rank_program}
    tests = tuple(_tests(program, "--gtest_filter=*", machine))
    return Case("seeded_faults", [str(program)], 300, 2, variables, tests)


def _demo(build: Path, ranks: int) -> list[Case]:
    """Memory leaves and comes back, every collective and a CUDA graph bit-exact, with each protocol."""
    cases = []
    for communicators, protocol in [(3, ""), *((3, protocol) for protocol in PROTOCOLS), (9, "")]:
        name = f"demo.{communicators}_communicators" + (f".{protocol}" if protocol else "")
        options = {"--ranks": ranks, "--communicators": communicators, "--cycles": 3, "--json": REPORT}
        command = [str(build / "bin" / "amem_demo"), *(str(word) for pair in options.items() for word in pair)]
        variables = {"NCCL_PROTO": protocol} if protocol else {}
        cases.append(Case(name, command, 180, 2, variables, read_report=demo_reader(ranks, communicators)))
    symmetric = [str(build / "bin" / "amem_demo"), "--what", "symmetric", "--ranks", str(ranks), "--json", REPORT]
    return [*cases, Case("demo.symmetric", symmetric, 120, read_report=symmetric_demo_reader(ranks))]


def _demo_of_any_nccl(build: Path, ranks: int, name: str, variables: dict[str, str]) -> list[Case]:
    """The demo with the protocols that NCCL chooses, and with each of them in turn."""
    options = {"--ranks": ranks, "--communicators": 3, "--cycles": 3, "--json": REPORT}
    demo = [str(build / "bin" / "amem_demo"), *(str(word) for pair in options.items() for word in pair)]
    loop = f'for NCCL_PROTO in {" ".join(PROTOCOLS)}; do export NCCL_PROTO; "$@" || exit; done'
    ways = {"demo": demo, "demo.protocols": ["sh", "-c", loop, "sh", *demo]}
    reader = demo_reader(ranks, 3)
    return [Case(f"{name}.{way}", words, 300, 2, variables, read_report=reader) for way, words in ways.items()]


def torchrun(ranks: int) -> list[str]:
    """The torchrun of this Python, which has PyTorch, on a port of its own."""
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which("torchrun", path=beside)
    program = [found] if found else [sys.executable, "-m", "torch.distributed.run"]
    return [*program, "--standalone", "--nproc-per-node", str(ranks)]


def _torch(build: Path, ranks: int) -> list[Case]:
    amem_run = [str(build / "bin" / "amem"), "run", "--"]
    job = [*amem_run, *torchrun(ranks)]
    example, memory = str(ROOT / "examples" / "torch_pause.py"), str(HERE / "torch_memory.py")
    cases = []
    for groups in ("1", "8"):
        cases.append(Case(f"torch.example.{groups}_groups", [*job, example, groups], 180))
        cases.append(Case(f"torch.memory.{groups}_groups", [*job, memory, "--groups", groups], 180))
    cases.append(Case("torch.graph", [*job, str(HERE / "torch_graph.py")], 180))
    cases.append(Case("torch.sleep", [*job, str(HERE / "torch_sleep.py"), "--graph"], 300))
    for name in ("models", "registered", "stages", "symmetric", "symmetric_users", "own_symmetric", "nccl_symmetric", "vllm", "trainer", "step_time"):
        rounds = {"ROUNDS": "10000"} if name == "own_symmetric" else {}
        cases.append(Case(f"torch.{name}", [*job, str(HERE / f"torch_{name}.py")], 240, variables=rounds))
    one_queue = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}  # of the GPU for all streams, as Megatron sets it
    cases.append(Case("torch.trainer.one_queue", [*job, str(HERE / "torch_trainer.py")], 240, variables=one_queue))
    saver = {"AMEM_TMS": "weights"}
    cases.append(Case("torch.saver_nccl", [*job, str(HERE / "torch_saver_nccl.py")], 180, variables=saver))
    nvshmem = {"AMEM_NVSHMEM": "1"}
    cases.append(Case("torch.nvshmem", [*job, str(HERE / "torch_nvshmem.py")], 180, variables=nvshmem))
    for way in ("register", "window"):
        cases.append(Case(f"torch.windows.{way}", [*job, str(HERE / "torch_windows.py"), way], 180))
    for way in ("graph", "register", "window"):
        cases.append(Case(f"torch.registered_busy.{way}", [*job, str(HERE / "torch_registered_busy.py"), way], 240))
    rl_step = str(ROOT / "examples" / "rl_step.py")
    cases.append(Case("torch.rl_step", [*amem_run, sys.executable, rl_step], 240))
    same = [sys.executable, str(HERE / "same_results.py"), "--amem", amem_run[0], "--ranks", str(ranks)]
    cases.append(Case("amem_run.same_results", same, 400))
    return cases


def _regions(build: Path) -> list[Case]:
    """Tagged tensors under PyTorch; `import amem` is all that they need."""
    path = {"PATH": os.pathsep.join([str(build / "bin"), os.environ.get("PATH", "")])}

    def case(name: str, script: str, *options: str, timeout_s: int = 180, gpus: int = 1, **more: str) -> Case:
        command = [sys.executable, str(HERE / f"torch_{script}.py"), *options]
        return Case(f"tensors.{name}", command, timeout_s, gpus, {**path, **more})

    def of_process(name: str, settings: str = "") -> Case:
        tms = {"AMEM_TMS": "1", "TMS_INIT_ENABLE": "1", "TMS_INIT_ENABLE_CPU_BACKUP": "1", "PYTORCH_CUDA_ALLOC_CONF": settings}
        return Case(f"tensors.{name}", [sys.executable, str(HERE / "torch_saver_init.py")], 180, 1, {**path, **tms})

    lacks_jax = "" if importlib.util.find_spec("jax") else "jax is not installed"
    return [
        case("regions", "regions"),
        case("regions_expandable", "regions", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"),
        case("retained", "retained"),
        case("owners", "owners"),
        case("rows", "rows", timeout_s=600),
        case("saver", "saver", AMEM_TMS="1"),
        of_process("saver_init"),
        of_process("saver_init_expandable", "expandable_segments:True"),
        case("ipc", "ipc"),
        case("access", "access"),
        case("models", "models"),
        case("cycles", "cycles", "--cycles", "500", timeout_s=120),
        case("disks", "disks"),
        Case("tensors.jax", [sys.executable, str(HERE / "jax_arrays.py")], 400, 1, path, lacks=lacks_jax),
        case("owners_two_gpus", "owners", "second_gpu", gpus=2),
        case("two_gpus", "two_gpus", gpus=2),
    ]


def _engines(build: Path) -> list[Case]:
    """Engines that serve a model and sleep, where they are installed."""
    lacks = "" if importlib.util.find_spec("vllm") else "vllm is not installed"
    command = [str(build / "bin" / "amem"), "run", "--", sys.executable, str(HERE / "vllm_sleep.py")]
    ways = {"vllm.sleep": [], "vllm.sleep.custom_all_reduce": ["--custom-all-reduce"]}
    variables = {"AMEM_TMS": "weights"}
    return [Case(name, [*command, *more], 300, 2, variables, lacks=lacks) for name, more in ways.items()]


def _jobs(build: Path) -> list[Case]:
    """Whole jobs of verl and OpenRLHF, where they and vLLM are installed."""
    path = {"PATH": os.pathsep.join([str(build / "bin"), os.environ.get("PATH", "")])}
    cases = []
    for framework in ("verl", "openrlhf"):
        missing = [name for name in (framework, "vllm") if importlib.util.find_spec(name) is None]
        lacks = f"{missing[0]} is not installed" if missing else ""
        command = [sys.executable, str(HERE / f"{framework}_job.py")]
        cases.append(Case(f"{framework}.job", command, 600, 2, path, lacks=lacks))
    return cases


def _trainers(build: Path) -> list[Case]:
    """Trainings on two GPUs with parts of frameworks, where these are installed."""
    job = [str(build / "bin" / "amem"), "run", "--", *torchrun(2)]
    variables = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}

    def case(name: str, script: str, *mode: str, **more: str) -> Case:
        framework = name.split(".")[0]
        lacks = "" if importlib.util.find_spec(framework) else f"{framework} is not installed"
        return Case(name, [*job, str(HERE / f"{script}.py"), *mode], 240, 2, {**variables, **more}, lacks=lacks)

    one_queue = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}  # Megatron demands it
    return [
        *(case(f"megatron.{mode}", "megatron_trainer", mode, **one_queue) for mode in ("tp", "pp", "dp")),
        *(case(f"deepspeed.{mode}", "deepspeed_trainer", mode) for mode in ("zero1", "zero2", "zero3")),
        case("slime.groups", "slime_groups"),
    ]


def _one_gpu(build: Path) -> list[Case]:
    """Ranks of a PyTorch job that share GPUs and connect by sockets: two on one, four on two."""
    job = [str(build / "bin" / "amem"), "run", "--", sys.executable, str(HERE / "one_gpu.py")]
    scripts = {
        "example": [str(ROOT / "examples" / "torch_pause.py")],
        "graph": [str(HERE / "torch_graph.py")],
        "sleep": [str(HERE / "torch_sleep.py"), "--graph"],
        "models": [str(HERE / "torch_models.py")],
        "symmetric": [str(HERE / "torch_symmetric.py")],
        "symmetric_users": [str(HERE / "torch_symmetric_users.py")],
        "own_symmetric": [str(HERE / "torch_own_symmetric.py")],
    }
    cases = [Case(f"one_gpu.torch.{name}", [*job, *script], 240, 1) for name, script in scripts.items()]
    four_ranks = ["--gpus", "2", "--ranks", "4"]
    for name in ("symmetric", "own_symmetric"):
        cases.append(Case(f"two_gpus.four_ranks.{name}", [*job, *four_ranks, *scripts[name]], 240))
    return cases


def _two_agents(build: Path) -> list[Case]:
    """A PyTorch job of two torchrun agents, which NCCL takes for two nodes: with a GPU each, and with both."""
    job = [str(build / "bin" / "amem"), "run", "--", sys.executable, str(HERE / "two_agents.py")]
    nodes = str(HERE / "torch_nodes.py")
    return [Case(f"two_agents.{ranks}_per_node", [*job, "--ranks-per-node", str(ranks), nodes], 300) for ranks in (1, 2)]


def _catching(machine: Machine) -> list[Case]:
    """How a stock NCCL is caught that a program opens by itself."""
    libraries = ["--nccl", machine.variables.get("AMEM_NCCL_PATH", ""), "--amem"]
    libraries.append(str(machine.build / "lib" / "libamem_nccl.so"))
    command = [sys.executable, str(HERE / "catching.py")]
    return [Case(f"catching.{mode}", [*command, mode, *libraries], 120, 1) for mode in catching.MODES]


def cases_of_each_nccl(machine: Machine, folder: Path) -> list[Case]:
    """The tests that every version of NCCL must pass, with each library of the folder."""
    build, ranks = machine.build, max(2, min(machine.gpus, MOST_RANKS))
    program = build / "tests" / "process_test"
    cases = []
    for library in sorted(folder.glob("libnccl*.so*")):
        chosen = {"AMEM_NCCL_PATH": str(library.resolve())}
        version = nccl_version(build, {**machine.variables, **chosen})
        name = "nccl." + ".".join(map(str, version))
        rank_program = str(build / "bin" / "amem_rank")
        variables = {**chosen, "AMEM_TEST_REAL_GPU": "1", "AMEM_TEST_RANK_PROGRAM": rank_program}
        if machine.gpus < MOST_RANKS and version >= FIRST_THAT_SHARES:
            variables["AMEM_TEST_SHARED_GPUS"] = str(machine.gpus)
        tests = tuple(_tests(program, "--gtest_filter=*EveryNccl*:Nodes.*:NativeSuspend.*", machine))
        cases.append(Case(name, [str(program)], 600, 1, variables, tests))
        cases += _demo_of_any_nccl(build, ranks, name, chosen)
        cases += device_communicator(build, library.resolve(), version, f"{name}.device_communicator")
    if not cases:
        raise pytest.UsageError(f"{folder} has no libnccl*.so*")
    return cases


def cases_of_nccl_tests(machine: Machine, folder: Path) -> list[Case]:
    """The programs of nccl-tests, unmodified, with pauses between their calls. Those that are built with MPI=1 run with a
    process for each rank, on one GPU too if NCCL lets ranks share it."""
    programs = sorted(folder.glob("*_perf"))
    if not programs:
        raise pytest.UsageError(f"{folder} has no *_perf: build nccl-tests there")
    ranks, nccl = max(2, min(machine.gpus, MOST_RANKS)), machine.variables.get("AMEM_NCCL_PATH", "")
    variables = {"AMEM_CYCLE_EVERY": "10", "LD_LIBRARY_PATH": os.path.dirname(nccl)}
    of_one_process = {"g": ["-g", str(ranks)], "t": ["-t", str(ranks)]}
    options = {"": [], "graph": ["-G", "2"], "registered": ["-R", "1"], "windows": ["-R", "2"]}
    cases = []
    for program in programs:
        has_mpi = b"libmpi.so" in program.read_bytes()
        ways = {"mpi": []} if has_mpi else of_one_process
        gpus = 1 if has_mpi else ranks
        starter = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks)] if has_mpi else []
        if has_mpi and machine.gpus < ranks:
            variables = {**variables, "NCCL_TESTS_DEVICE": "0", "NCCL_MULTI_RANK_GPU_ENABLE": "1"}
        for (way, members), (kind, more) in itertools.product(ways.items(), options.items()):
            command = [*starter, str(machine.build / "bin" / "amem"), "run", "--", str(program)]
            command += ["-b", "8", "-e", "4M", "-f", "8", "-n", "5", "-w", "2", "-c", "1", *members, *more]
            name = ".".join(word for word in ("nccl_tests", program.name[: -len("_perf")], way, kind) if word)
            cases.append(Case(name, command, 120, gpus, variables, read_report=read_nccl_tests))
    return cases


def every_case(machine: Machine) -> list[Case]:
    """The cases for this machine; they use 4 GPUs at most."""
    build, ranks = machine.build, min(machine.gpus, MOST_RANKS)
    programs = [*_contract(machine), *_demo(build, ranks), *_process(machine), _seeded(machine)]
    return [*programs, *_catching(machine), *_torch(build, ranks), *_regions(build), *compiled_cases(machine),
            *_engines(build), *_jobs(build), *_trainers(build), *_one_gpu(build),
            *_two_agents(build)]
