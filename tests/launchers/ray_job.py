# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""job.py in actors of Ray, which get amem by runtime_env: ray_job.py FOLDER RANKS"""

import os
import sys
from pathlib import Path

import ray

import amem

HERE = Path(__file__).resolve().parent
PASSED_ON = ("PYTHONPATH", "LD_LIBRARY_PATH", "AMEM_SIM_DIR", "AMEM_SIM_DEVICES", "AMEM_SIM_MEMORY_MB")


class Worker:
    def run(self, folder: Path, rank: int, ranks: int) -> str:
        sys.path.insert(0, str(HERE))
        import job

        return job.run(Path(folder), rank, ranks)


def main() -> None:
    folder, ranks = sys.argv[1], int(sys.argv[2])
    variables = {name: os.environ[name] for name in PASSED_ON} | amem.env()
    ray.init(num_cpus=ranks, include_dashboard=False, log_to_driver=True)
    remote = ray.remote(Worker)
    workers = [remote.options(runtime_env={"env_vars": variables}).remote() for _ in range(ranks)]
    for line in ray.get([worker.run.remote(folder, rank, ranks) for rank, worker in enumerate(workers)]):
        print(line, flush=True)


if __name__ == "__main__":
    main()
