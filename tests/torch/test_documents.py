# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The Python code of the documents runs with PyTorch, in one process. Only what it leaves to the reader is defined here."""

import re
from pathlib import Path

import pytest

from conftest import ROOT, SimulatedTorch

PAGES = ("README.md", "docs/index.md", "docs/python.md", "docs/symmetric.md", "docs/frameworks/trainer.md")
OF_THE_READER = """
import torch.distributed as dist

dist.init_process_group("gloo", init_method="file://%s", rank=0, world_size=1)


class Model:
    def __init__(self):
        self.weights = of(8 * MIB)
        write(self.weights, 1)

    def cuda(self):
        return self

    def __call__(self, *inputs):
        return self.weights * 2


load_model, offload, next_rank, graph, x = Model, print, 0, torch.cuda.CUDAGraph(), of(MIB)
allocate_cache = allocate_weights = lambda: of(2 * MIB)
masters = torch.randint(0, 256, [2 * MIB], dtype=torch.uint8)
with amem.region("model_a"):
    model = first_model = load_model()
with amem.region("model_b"):
    other_model = load_model()
amem.pause("model_b")
"""
AFTERWARDS = """
amem.pause()
amem.resume()
expect(holds(model.weights, 1), "the contents are the same")
expect(holds(other_model.weights, 1), "those of the other model are, too")
expect("bf16_weights" not in globals() or torch.equal(bf16_weights.cpu(), masters), "the function of the tag has run")
"""


@pytest.mark.parametrize("page", PAGES)
def test_code_of_the_page_runs(simulated: SimulatedTorch, page: str, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    code = [block for block in blocks if "ray." not in block]
    assert code, page
    simulated.run("\n".join([OF_THE_READER % (tmp_path / "store"), *code, AFTERWARDS]), GLOO_SOCKET_IFNAME="lo")
