# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The cases that the tools of CUDA are needed for: programs that nvcc compiles on the machine, and compute-sanitizer."""

import importlib.util
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from case import Case
from machine import FIRST_THAT_SHARES, HERE, ROOT, Machine

SANITIZERS = ("memcheck", "racecheck", "synccheck")


def _cuda_tool(name: str) -> str | None:
    """A program of the CUDA toolkit: on PATH, in CUDA_HOME, or in this Python's nvidia packages."""
    toolkit = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin")
    package = importlib.util.find_spec("nvidia")
    folders = [Path(folder) for folder in (package.submodule_search_locations if package else None) or ()]
    packaged = [str(found.parent) for folder in folders for found in folder.glob(f"*/bin/{name}")]
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join([toolkit, *packaged]))


def _lacks(tool: str | None, name: str) -> str:
    return "" if tool else f"there is no {name} on PATH, in CUDA_HOME or in the nvidia packages of this Python"


def _headers_of(library: Path, version: tuple[int, ...]) -> Path | None:
    """The folder of this version's nccl_device.h: NCCL_INCLUDE, or beside the library or its folder."""
    named = [Path(os.environ["NCCL_INCLUDE"])] if "NCCL_INCLUDE" in os.environ else []
    for folder in [*named, library.parent / "include", library.parent.parent / "include"]:
        if (folder / "nccl_device.h").exists():
            text = (folder / "nccl.h").read_text(encoding="utf-8")
            found = re.findall(r"#define NCCL_(?:MAJOR|MINOR|PATCH)\s+(\d+)", text)
            if tuple(map(int, found)) == version:
                return folder
    return None


def device_communicator(build: Path, library: Path, version: tuple[int, ...], name: str) -> list[Case]:
    """Kernels with a device communicator, where there are an nvcc and the headers of this NCCL."""
    nvcc, headers = _cuda_tool("nvcc"), _headers_of(library, version)
    if nvcc is None or headers is None:
        return []
    # In a folder of its own the library has the name that the loader looks for.
    folder = build / "gpu_logs" / name
    program, found = str(folder / "device_communicator"), str(folder / "libnccl.so.2")
    compiled = [nvcc, "-std=c++17", "-arch=native", "-I", str(headers), "-o", program]
    compiled += [str(HERE / "device_communicator.cu"), "-Xlinker", found, "-Xlinker", f"-rpath={folder}"]
    rank = shlex.join([str(build / "bin" / "amem"), "run", "--", program, f"{folder}/id"])
    script = f"""
set -e
mkdir -p {shlex.quote(str(folder))}
rm -f {shlex.quote(f"{folder}/id")}
ln -sf {shlex.quote(str(library))} {shlex.quote(found)}
{shlex.join(compiled)}
RANK=1 WORLD_SIZE=2 {rank} & other=$!
RANK=0 WORLD_SIZE=2 {rank}
wait $other"""
    shares = version >= FIRST_THAT_SHARES
    variables = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"} if shares else {}
    return [Case(name, ["sh", "-c", script], 180, 1 if shares else 2, variables)]


def _device_communicator_of_stock(machine: Machine) -> list[Case]:
    if not (machine.nccl and machine.variables.get("AMEM_NCCL_PATH")):
        return []
    library = Path(machine.variables["AMEM_NCCL_PATH"]).resolve()
    version = tuple(map(int, machine.nccl.split(".")))
    return device_communicator(machine.build, library, version, "device_communicator")


def _contained_runtime(build: Path) -> Case:
    """A program that nvcc links with the static CUDA runtime."""
    nvcc = _cuda_tool("nvcc")
    program = build / "gpu_logs" / "contained_runtime"
    compiled = [nvcc or "nvcc", "-arch=native", "-O2", "-o", str(program), str(HERE / "contained_runtime.cu")]
    job = [str(build / "bin" / "amem"), "run", "--tensors", "job", "--", str(program)]
    script = f"{shlex.join(compiled)} && exec {shlex.join(job)}"
    return Case("tensors.contained_runtime", ["sh", "-c", script], 180, 1, lacks=_lacks(nvcc, "nvcc"))


def _symmetric_kernels(build: Path) -> list[Case]:
    """An application's own kernels with amem/symmetric.cuh, in two ranks."""
    nvcc = _cuda_tool("nvcc")
    sources = {"all_gather_matmul": ROOT / "examples", "symmetric_kernels": HERE}
    start = [sys.executable, str(HERE / "compiled_ranks.py"), "--nvcc", nvcc or "nvcc", "--build", str(build)]
    return [
        Case(f"symmetric.{name}", [*start, str(folder / f"{name}.cu")], 180, lacks=_lacks(nvcc, "nvcc"))
        for name, folder in sources.items()
    ]


def _sanitizers(build: Path) -> list[Case]:
    """The kernels of amem's symmetric memory in two ranks under compute-sanitizer."""
    sanitizer = _cuda_tool("compute-sanitizer")
    ranks = [sys.executable, str(HERE / "symmetric_ranks.py"), str(build / "bin" / "amem_rank")]
    cases = []
    for tool in SANITIZERS:
        under = [sanitizer or "compute-sanitizer", "--tool", tool, "--error-exitcode", "9"]
        command = [*ranks, *under]
        cases.append(Case(f"symmetric.{tool}", command, 400, lacks=_lacks(sanitizer, "compute-sanitizer")))
    return cases


def compiled_cases(machine: Machine) -> list[Case]:
    build = machine.build
    symmetric = [*_symmetric_kernels(build), *_sanitizers(build)]
    return [_contained_runtime(build), *_device_communicator_of_stock(machine), *symmetric]
