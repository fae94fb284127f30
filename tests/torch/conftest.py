# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Programs with the real PyTorch on the simulated GPU. AMEM_TEST_TORCH names the Python of an environment with PyTorch,
AMEM_TEST_BUILD the build folder."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from imported_torch import ImportedTorch

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 240
# What the programs have at hand.
HEAD = """
import contextlib, gc, os, sys
import torch
import amem

MIB = 1 << 20


def of(size_bytes, device="cuda:0"):
    return torch.empty(size_bytes, dtype=torch.uint8, device=device)


def free(device=0):
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info(device)[0]


def write(tensor, seed):
    # Kernels do nothing on the simulated GPU: copies bring contents.
    torch.manual_seed(seed)
    tensor.copy_(torch.randint(0, 256, tensor.shape, dtype=torch.uint8))


def holds(tensor, seed):
    torch.manual_seed(seed)
    return torch.equal(tensor.cpu(), torch.randint(0, 256, tensor.shape, dtype=torch.uint8))


def expect(condition, what):
    if not condition:
        sys.exit(f"not so: {what}")
"""
# For programs with expandable segments: before 2.10 PyTorch refuses them in pools.
EXPANDABLE = """
if torch.__version__ < (2, 10) and torch.cuda.memory._snapshot()["allocator_settings"]["expandable_segments"]:
    try:
        with amem.region("weights"):
            of(MIB)
    except RuntimeError as error:
        expect("expandable_segments" in str(error), error)
        sys.exit()
    expect(False, "PyTorch refuses expandable segments in pools")
"""


def headers_of(python: Path) -> tuple[Path, list[str]]:
    """The packages of an environment, and options of the compiler for CUDA's headers in it."""
    packages = Path(subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                                   capture_output=True, text=True, check=True).stdout.strip())
    headers = [file.parent for name in ("cuda_runtime_api.h", "cublas_v2.h") for file in packages.glob(f"nvidia/*/include/{name}")]
    assert len(headers) == 2, f"{packages} has no headers of the CUDA runtime and cuBLAS"
    return packages, [f"-I{folder}" for folder in headers]


def runtime_for(python: Path, build: Path) -> Path:
    """The CUDA runtime and cuBLAS for this PyTorch (cudart.cc, cublas.cc), compiled once."""
    packages, includes = headers_of(python)
    sources = [Path(__file__).with_name(name) for name in ("cudart.cc", "cublas.cc", "nccl.cc")]
    library = build / "tests" / "torch" / ("libcudart-" + str(packages).strip("/").replace("/", "-") + ".so")
    if not library.exists() or any(library.stat().st_mtime < source.stat().st_mtime for source in sources):
        library.parent.mkdir(parents=True, exist_ok=True)
        made = library.with_suffix(f".{os.getpid()}")
        subprocess.run(["c++", "-std=c++20", "-O1", "-shared", "-fPIC", "-o", made, *sources, *includes, "-ldl"], check=True)
        made.rename(library)
    return library


class SimulatedTorch:
    """Runs programs with PyTorch in processes of their own, on simulated GPUs of the test."""

    def __init__(self, machine: Path, started: dict[str, ImportedTorch]) -> None:
        self.python = Path(os.environ["AMEM_TEST_TORCH"])
        self.build = Path(os.environ["AMEM_TEST_BUILD"]).resolve()
        self.runtime = runtime_for(self.python, self.build)
        self.machine = machine
        self.started = started

    def headers(self) -> list[str]:
        return headers_of(self.python)[1]

    def variables(self, **settings: str) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("AMEM_", "GMM_", "LD_", "NCCL_", "TMS_", "PYTORCH_"))}
        return {
            **clean,
            "PATH": f"{self.build / 'bin'}:{clean['PATH']}",
            "PYTHONPATH": str(ROOT / "python"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LD_LIBRARY_PATH": str(self.build / "sim"),
            "LD_PRELOAD": str(self.runtime),
            "AMEM_SIM_DIR": str(self.machine),
            "AMEM_SIM_DEVICES": "2",
            "AMEM_SIM_MEMORY_MB": "4096",
            "GMM_LOG": "2",
            **settings,
        }

    def run(self, code: str, **settings: str) -> str:
        """What a program with HEAD printed. It must end without an error."""
        at_start = {name: value for name, value in settings.items() if name.startswith(("PYTORCH_", "LD_"))}
        key = repr(at_start)  # what PyTorch and the loader read before the program begins
        if key not in self.started:
            self.started[key] = ImportedTorch(self.python, self.variables(**at_start))
        printed, errors = self.machine.with_name("printed"), self.machine.with_name("errors")
        ended = self.started[key].run(HEAD + code, self.variables(**settings), (printed, errors), TIMEOUT_S)
        assert ended == 0, printed.read_text() + errors.read_text()
        return printed.read_text().strip()

    def script(self, *arguments: str | Path, **settings: str) -> str:
        done = subprocess.run([self.python, *arguments], env=self.variables(**settings), capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="module")
def started() -> Iterator[dict[str, ImportedTorch]]:
    processes: dict[str, ImportedTorch] = {}
    yield processes
    for process in processes.values():
        process.end()


@pytest.fixture
def simulated(tmp_path: Path, started: dict[str, ImportedTorch]) -> Iterator[SimulatedTorch]:
    machine = tmp_path / "machine"
    yield SimulatedTorch(machine, started)
    shutil.rmtree(machine, ignore_errors=True)  # simulated GPU memory: pytest keeps tmp_path
