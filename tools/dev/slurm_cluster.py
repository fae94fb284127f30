# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A Slurm cluster of one node, this host, for as long as a check needs it."""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo", "scancel", "squeue")
PATIENCE_S = 60

# Without control groups, which a container may not change.
CONFIGURATION = """\
ClusterName=amem
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES State=UP
"""


def search_path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


def missing_programs() -> list[str]:
    return [program for program in PROGRAMS if shutil.which(program, path=search_path()) is None]


def program(name: str) -> str:
    return shutil.which(name, path=search_path()) or name


def wait_until(is_done: Callable[[], bool], folder: Path, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_done():
        if time.monotonic() > deadline:
            logs = "".join(f"{log.name}:\n{log.read_text()[-1000:]}\n" for log in sorted(folder.glob("*.log")))
            raise SystemExit(f"Slurm: {what} has not come after {PATIENCE_S} s\n{logs}")
        time.sleep(0.1)


@contextlib.contextmanager
def cluster(folder: Path, free_port: Callable[[], int]) -> Iterator[str]:
    """The daemons munged, slurmctld and slurmd; gives the variable that their commands need."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)
    configuration = folder / "slurm.conf"
    host = socket.gethostname().split(".")[0]
    user = pwd.getpwuid(os.getuid()).pw_name
    ports = {"controller_port": free_port(), "node_port": free_port()}
    configuration.write_text(CONFIGURATION.format(host=host, user=user, folder=folder, **ports))
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    munged = [f"--{option}={folder}/munge.{ending}" for option, ending in files.items()]
    variable = f"SLURM_CONF={configuration}"

    def said(name: str, *options: str) -> str:
        command = ["env", variable, program(name), *options]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    def end_jobs() -> None:
        """Their processes do not end with the daemons."""
        said("scancel", "--user", user)
        wait_until(lambda: said("squeue", "--noheader") == "", folder, "the end of its jobs")

    with contextlib.ExitStack() as daemons:

        def start(*command: str) -> None:
            with open(folder / f"{command[0]}.out.log", "wb") as output:
                child = subprocess.Popen(
                    [program(command[0]), *command[1:]], stdin=subprocess.DEVNULL, stdout=output, stderr=output
                )
            daemons.callback(child.wait)
            daemons.callback(child.terminate)

        # munged refuses folders that a group or others may write to, unless it is forced.
        start("munged", "--foreground", "--force", *munged)
        wait_until((folder / "munge.socket").exists, folder, "munged")
        for daemon in ("slurmctld", "slurmd"):
            start(daemon, "-D", "-f", str(configuration))
        wait_until(lambda: said("sinfo", "--noheader", "--format=%T") == "idle", folder, f"the node {host}")
        daemons.callback(end_jobs)
        yield variable
