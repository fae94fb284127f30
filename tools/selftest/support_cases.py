# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""check_support.py on claims without tests, lost tests, sentences that nobody says and a page that is not of the data."""

import tempfile
import unittest
from pathlib import Path

from sample_tree import CheckCase, run_tool, write_tree

DATA = """intro = "What works."
[[tables]]
title = "Connections"
columns = ["what", "pause and resume", "memory"]
[[tables.rows]]
name = "NCCL_PROTO=LL"
cells = [[
  { kind = "works", tests = ["Transports.Ll", "job.python"] },
  { kind = "seen", text = "on 2 GPUs", seen = "evidence.md#a" },
], []]
[[tables.rows]]
name = "a NIC"
cells = [
  [{ kind = "works", text = "sockets", tests = ["test_job.py::test_runs"] }],
  [{ kind = "stays", quote = "registered with; a NIC", tests = ["Plugin.Stays"] }],
]
[[tables.rows]]
name = "a container"
cells = [
  [{ kind = "works", tests = ["Kinds/Containers.Run/OwnPids"] }],
  [{ kind = "not tested", text = "on GPUs" }, { kind = "seen", text = "its start", seen = "evidence.md#a" }],
]
[[tables.rows]]
name = "another version"
cells = [[{ kind = "refused", quote = ["a plugin has a table …"], tests = ["Plugin.Stays"] }], []]
"""
PAGE = """# Support

<!-- Made of support.toml by tools/support_page.py. -->

What works.

## Connections

| what | pause and resume | memory |
|---|---|---|
| NCCL_PROTO=LL | yes, [on 2 GPUs](evidence.md#a) | – |
| a NIC | yes: sockets | stays: `registered with; a NIC` |
| a container | yes | not tested on GPUs; [its start](evidence.md#a) |
| another version | refused | – |
"""
TEST = """TEST_F(Transports, Ll) {
}
TEST(Plugin, Stays) {
}
"""
CONTAINERS = """TEST_P(Containers, Run) {
}
const char* kKinds[] = {"OwnPids"};
INSTANTIATE_TEST_SUITE_P(Kinds, Containers, testing::ValuesIn(kKinds));
"""


def with_claim(claim: str, cell: str = "", name: str = "x") -> dict[str, str]:
    """One more row, whose first cell has one claim."""
    row = f'[[tables.rows]]\nname = "{name}"\ncells = [[{{ {claim} }}], []]\n'
    return {"docs/support.toml": DATA + row, "docs/support.md": f"{PAGE}| {name} | {cell} | – |\n"}


class Support(CheckCase):
    check = "check_support.py"
    clean = {
        "docs/support.toml": DATA,
        "docs/support.md": PAGE,
        "docs/troubleshooting.md": "| message | do |\n|---|---|\n| `a plugin has a table …` | update |\n",
        "tests/process/transports_test.cc": TEST,
        "tests/process/containers_test.cc": CONTAINERS,
        "python/tests/test_job.py": "def test_runs(build):\n    pass\n",
        "tests/CMakeLists.txt": "add_test(NAME job.python\n  COMMAND true)\n",
        "src/nic.cc": 'pin("registered with; a NIC");\nfail("a plugin has a table %s");\n',
    }
    needed = ("docs/support.toml", "docs/support.md", "docs/troubleshooting.md")
    harmless = {
        "a claim of nothing": with_claim('kind = "not tested"', "not tested"),
        "a test on GPUs that was seen": with_claim(
            'kind = "seen", text = "on 4 GPUs", seen = "evidence.md", tests = ["Transports.Ll"]',
            "yes, [on 4 GPUs](evidence.md)",
        ),
        "a reason in other words": with_claim(
            'kind = "stays", text = "its buffers", quote = "registered with; a NIC", tests = ["Plugin.Stays"]',
            "stays: its buffers",
        ),
    }
    violations = {
        "works without a test": (with_claim('kind = "works"'), "x: 'works' names no test"),
        "works with a reason instead of a test": (
            with_claim('kind = "works", quote = "a plugin has a table"'),
            "'works' names no test",
        ),
        "refused without a test": (with_claim('kind = "refused", quote = "a plugin has a table"'), "names no test"),
        "stays without a test": (with_claim('kind = "stays", quote = "registered with; a NIC"'), "names no test"),
        "a test that is not there": (
            with_claim('kind = "works", tests = ["Transports.Ll128"]'),
            "no test Transports.Ll128",
        ),
        "a test that was seen and is not there": (
            with_claim('kind = "seen", text = "on GPUs", seen = "evidence.md", tests = ["Transports.Ll128"]'),
            "no test Transports.Ll128",
        ),
        "a lost test": ({"tests/process/transports_test.cc": ""}, "there is no test Transports.Ll"),
        "a lost Python test": ({"python/tests/test_job.py": ""}, "there is no test test_job.py::test_runs"),
        "a lost test of CMake": ({"tests/CMakeLists.txt": ""}, "there is no test job.python"),
        "a lost parameter": (
            {"tests/process/containers_test.cc": CONTAINERS.replace("OwnPids", "OwnIpc")},
            "there is no test Kinds/Containers.Run/OwnPids",
        ),
        "a test of transports in no row": (
            {"tests/process/transports_test.cc": TEST + "TEST(Transports, Other) {\n}\n"},
            "Transports.Other stands in no row",
        ),
        "seen without a place": (with_claim('kind = "seen", text = "on GPUs"'), "does not link where it was seen"),
        "seen without a document": (
            with_claim('kind = "seen", text = "on GPUs", seen = "yesterday"'),
            "does not link where it was seen",
        ),
        "seen without what was seen": (with_claim('kind = "seen", seen = "evidence.md"'), "does not say"),
        "refused without its sentence": (with_claim('kind = "refused", tests = ["Plugin.Stays"]'), "does not quote"),
        "refused with a name in place of a sentence": (
            with_claim('kind = "refused", quote = "registered", tests = ["Plugin.Stays"]'),
            "does not quote",
        ),
        "a reason that nobody gives": ({"src/nic.cc": ""}, "nothing in src says 'registered with; a NIC'"),
        "a second reason that nobody gives": (
            with_claim('kind = "stays", quote = ["registered with; a NIC", "it is late"], tests = ["Plugin.Stays"]'),
            "nothing in src says 'it is late'",
        ),
        "a claim of no kind": (with_claim('kind = "probably"'), "the kind 'probably' is none of"),
        "a claim without a kind": (with_claim('text = "fine"'), "the kind 'None' is none of"),
        "a claim with a word that nobody reads": (
            with_claim('kind = "not tested", test = ["Plugin.Stays"]'),
            "a claim has no 'test'",
        ),
        "a row with too few cells": ({"docs/support.toml": DATA.replace("], []]\n", "]]\n", 1)}, "1 cells for the columns"),
        "a page that was edited": (
            {"docs/support.md": PAGE.replace("refused", "yes")},
            "docs/support.md: differs from docs/support.toml: run `python3 tools/support_page.py`",
        ),
        "data that was edited": (
            {"docs/support.toml": DATA.replace("sockets", "a message of sockets")},
            "docs/support.md: differs from docs/support.toml",
        ),
        "a line that is too long": (
            with_claim('kind = "not tested"', "not tested", name="x" * 200),
            "characters, at most 200 are allowed",
        ),
        "a message that nobody says": (
            {"docs/troubleshooting.md": "| message | do |\n|---|---|\n| `the moon is full` | wait |\n"},
            "nothing in src says 'the moon is full'",
        ),
    }

    def test_cannot_run_on_data_that_it_cannot_read(self) -> None:
        for data in ("intro = \n", 'intro = "Nothing."\ntables = []\n'):
            with self.subTest(data):
                code, output = self.run_on({**self.clean, "docs/support.toml": data})
                self.assertEqual(code, 2, output)
                self.assertIn("cannot run", output)


class Page(unittest.TestCase):
    def test_is_written_from_the_data(self) -> None:
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, {"docs/support.toml": DATA})
            self.assertEqual(run_tool("support_page.py", root), (0, ""))
            self.assertEqual(Path(root, "docs/support.md").read_text(encoding="utf-8"), PAGE)
