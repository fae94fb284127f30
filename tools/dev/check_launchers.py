#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Starts a job on the simulated GPU with real launchers: mpirun, Slurm, Ray and torchrun with two agents.

Each rank must release its memory in a pause and compute the same result of a collective after the resume. mpirun and Slurm
must be installed (Debian: openmpi-bin; slurmctld, slurmd, slurm-client and munge). The check starts Slurm's daemons, with
this host as the only node. Ray and PyTorch are installed from the package index into virtual environments. A launcher that
is not installed, or cannot be, is reported as skipped. Exit code 1 if a job fails, or if no launcher is available.
"""

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import slurm_cluster
from torch_environment import make_environment as make_torch

ROOT = Path(__file__).resolve().parent.parent.parent
JOB = ROOT / "tests" / "launchers" / "job.py"
TIMEOUT_S = 180


Command = list[object]
Jobs = Iterator[tuple[int, list[Command]]]  # the number of ranks, and the commands that start them


class Skipped(Exception):
    pass


def make_ray(folder: Path) -> Path:
    """The Python of a virtual environment with Ray."""
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-cache-dir", "ray"]
        if subprocess.run(pip, check=False).returncode != 0:
            raise Skipped("Ray cannot be installed")
        (folder / "complete").touch()
    return python


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def mpirun(build: Path, _: Path, meeting: Path) -> Jobs:
    """Two ways to have amem in the ranks: amem run, and the variables of amem env."""
    if shutil.which("mpirun") is None:
        raise Skipped("mpirun is not installed")
    start = ["mpirun", "--oversubscribe", *(["--allow-run-as-root"] if os.getuid() == 0 else []), "-np", "2"]
    shell = f'eval "$("{build}/bin/amem" env)" && exec "{sys.executable}" "{JOB}" "$0"'
    yield 2, [[*start, build / "bin/amem", "run", "--", sys.executable, JOB, meeting / "run"]]
    yield 2, [[*start, "sh", "-c", shell, meeting / "env"]]


def slurm(build: Path, _: Path, meeting: Path) -> Jobs:
    """amem run, and the variables of amem env: set in each task, and before srun, which passes them on."""
    if missing := slurm_cluster.missing_programs():
        raise Skipped(f"{', '.join(missing)} not installed")
    (meeting / "slurm").mkdir()
    with slurm_cluster.cluster(meeting / "slurm", free_port) as variable:
        start = ["srun", "--kill-on-bad-exit", "--ntasks", "2"]
        job = f'exec "{sys.executable}" "{JOB}"'
        shell = ["env", variable, *start, "sh", "-c", f'eval "$("{build}/bin/amem" env)" && {job} "$0"']
        yield 2, [["env", variable, *start, build / "bin/amem", "run", "--", sys.executable, JOB, meeting / "run"]]
        yield 2, [[*shell, meeting / "env"]]
        exported = f'eval "$("{build}/bin/amem" env)" && exec "$@"'
        yield 2, [["env", variable, "sh", "-c", exported, "sh", *start, sys.executable, JOB, meeting / "exported"]]


def ray(_: Path, environments: Path, meeting: Path) -> Jobs:
    python = make_ray(environments / "ray")
    yield 2, [[python, JOB.with_name("ray_job.py"), meeting / "run", "2"]]


def torchrun(build: Path, environments: Path, meeting: Path) -> Jobs:
    """Two agents with two ranks each."""
    try:
        python = make_torch("newest", environments / "torch")
    except subprocess.CalledProcessError as error:
        raise Skipped("PyTorch cannot be installed") from error
    port = str(free_port())
    agent = [build / "bin/amem", "run", "--", python, "-m", "torch.distributed.run", "--nnodes", "2"]
    agent += ["--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port", port, "--node-rank"]
    yield 4, [[*agent, str(node), JOB, meeting / "run"] for node in range(2)]


LAUNCHERS = {"mpirun": mpirun, "slurm": slurm, "ray": ray, "torchrun": torchrun}


def run_job(build: Path, commands: list[Command], meeting: Path, ranks: int) -> str:
    """What went wrong, or ""."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("AMEM_", "GMM_", "LD_", "PYTHON", "SLURM_"))}
    variables = {
        **clean,
        "PATH": f"{build / 'bin'}:{clean['PATH']}",
        "PYTHONPATH": str(ROOT / "python"),
        "LD_LIBRARY_PATH": str(build / "sim"),
        "AMEM_SIM_DIR": str(meeting / "machine"),
        "AMEM_SIM_DEVICES": str(ranks),
        "AMEM_SIM_MEMORY_MB": "512",
    }
    children = [
        subprocess.Popen(
            list(map(str, command)), env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for command in commands
    ]
    try:
        output = "".join(child.communicate(timeout=TIMEOUT_S)[0] for child in children)
    except subprocess.TimeoutExpired:
        return f"not done after {TIMEOUT_S} s"
    finally:
        for child in children:
            child.kill()
    right = all(f"rank {rank} of {ranks}: right" in output for rank in range(ranks))
    return "" if right and not any(child.returncode for child in children) else output[-3000:]


def check_launcher(name: str, build: Path, environments: Path) -> bool | None:
    """True if its jobs were right; None if it cannot be had."""
    with tempfile.TemporaryDirectory(prefix="amem-launchers-") as folder:
        meeting = Path(folder)
        for way in ("run", "env", "exported"):
            (meeting / way).mkdir()
        try:
            for ranks, commands in LAUNCHERS[name](build, environments, meeting):
                if problem := run_job(build, commands, meeting, ranks):
                    print(f"{name:9} FAIL\n{problem}", flush=True)
                    return False
                print(f"{name:9} ok, {ranks} ranks", flush=True)
        except Skipped as reason:
            print(f"{name:9} skipped: {reason}", flush=True)
            return None
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build/dev")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/launchers", help="virtual environments")
    parser.add_argument("launchers", nargs="*", default=list(LAUNCHERS), help=", ".join(LAUNCHERS))
    options = parser.parse_args()
    build, folder = options.build_dir.resolve(), options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    results = [check_launcher(name, build, folder) for name in options.launchers]
    sys.exit(1 if False in results or True not in results else 0)


if __name__ == "__main__":
    main()
