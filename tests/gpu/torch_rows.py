# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Situations of other people's programs, on a GPU: the tests of tests/torch/test_regions.py that need no simulated GPU, on a GPU
of which 4096 MiB are free. Exit code 0 if all are right.

torch_rows.py [row...]

AMEM_TEST_TORCH: the Python of the programs, if it is not this one.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "torch"))
import conftest  # noqa: E402
import test_regions as tests  # noqa: E402

# The rest of the memory belongs to the driver: neither PyTorch nor amem counts it.
ROOM = """
import ctypes
rest = torch.cuda.mem_get_info()[0] - 4096 * MIB
if rest > 0 and ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(rest)) != 0:
    sys.exit(f"cuMemAlloc() of {rest} bytes failed")
"""


class Gpu(conftest.SimulatedTorch):
    """Runs the programs on GPUs. `said` is what they have printed."""

    def __init__(self) -> None:
        self.python, self.said = Path(os.environ.get("AMEM_TEST_TORCH", sys.executable)), list[str]()

    def variables(self, **settings: str) -> dict[str, str]:
        packages = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]))
        return {**os.environ, "PYTHONPATH": packages, **settings}

    def run(self, code: str, **settings: str) -> Any:
        return self.script("-c", conftest.HEAD + ROOM + code, **settings)

    def script(self, *arguments: Any, **settings: str) -> str:
        self.said.append(super().script(*arguments, **settings))
        return self.said[-1]


def fork(gpu: Any, method: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tests.test_children_of_a_launcher_can_use_cuda(gpu, Path(folder), method)


SETTINGS = ("", "roundup_power2_divisions:4", "expandable_segments:True")
ROWS: dict[str, list[Callable[[Any], None]]] = {
    "1": [partial(tests.test_pauses_do_not_grow, settings=settings) for settings in SETTINGS],
    "2": [tests.test_regions_of_a_paused_tag_do_not_grow],
    "4": [tests.test_own_pool_of_the_program_stays_ordinary, tests.test_graph_that_is_captured_in_a_region_stays_ordinary],
    "5": [tests.test_layers_converted_one_by_one_take_what_they_take_in_pytorch, tests.test_loader_threads_take_what_they_take_in_pytorch],
    "6": [
        partial(tests.test_region_fits_beside_a_cache_of_free_blocks, blocks=5, size=2000, device=0),
        partial(tests.test_region_fits_beside_a_cache_of_free_blocks, blocks=2, size=3000, device=0),
        tests.test_ordinary_memory_fits_beside_freed_memory_of_a_region,
        partial(tests.test_region_fits_beside_freed_memory_of_other_tags, size=1200),
    ],
    "7": [tests.test_resume_empties_the_programs_own_cache, tests.test_error_of_a_resume_names_what_the_process_itself_holds],
    "9": [tests.test_interleaved_regions_end_their_own],
    "10": [partial(fork, method=method) for method in ("fork", "forkserver", "spawn")],
    "12": [
        tests.test_region_without_the_native_allocator_says_why,
        tests.test_paused_memory_counts_for_the_fraction_of_the_process,
        tests.test_settings_that_the_program_changes_inside_a_region_are_kept,
    ],
}


def main() -> None:
    wrong = []
    for row in sys.argv[1:] or ROWS:
        gpu, start = Gpu(), time.monotonic()
        try:
            for test in ROWS[row]:
                test(gpu)
        except AssertionError as error:
            wrong.append(row)
            gpu.said.append(str(error))
        outcome = "WRONG" if row in wrong else "ok"
        print(f"row {row}: {outcome} {'; '.join(filter(None, gpu.said))} ({time.monotonic() - start:.0f} s)", flush=True)
    if wrong:
        sys.exit(f"wrong: {wrong}")
    print("result: all rows are right")


if __name__ == "__main__":
    main()
