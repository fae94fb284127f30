# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""check_support.py on claims without tests, lost tests and sentences that nobody says."""

from sample_tree import CheckCase

HEAD = """# Support

| what | pause and resume | memory |
|---|---|---|
"""
ROWS = """| `NCCL_PROTO=LL` | works (`Transports.Ll`, `job.python`); seen on GPUs ([here](benchmarks.md#a)) | – |
| a NIC | works (`test_job.py::test_runs`) | stays resident: `registered with; a NIC` (`Plugin.Stays`) |
| a container | works (`Kinds/Containers.Run/OwnPids`) | not tested |
| another version | refused: `a plugin has a table …` (`Plugin.Stays`) | – |
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


def with_row(row):
    return {"docs/support.md": HEAD + ROWS + row + "\n"}


class Support(CheckCase):
    check = "check_support.py"
    clean = {
        "docs/support.md": HEAD + ROWS,
        "docs/troubleshooting.md": "| message | do |\n|---|---|\n| `a plugin has a table …` | update |\n",
        "tests/process/transports_test.cc": TEST,
        "tests/process/containers_test.cc": CONTAINERS,
        "python/tests/test_job.py": "def test_runs(build):\n    pass\n",
        "tests/CMakeLists.txt": "add_test(NAME job.python\n  COMMAND true)\n",
        "src/nic.cc": 'pin("registered with; a NIC");\nfail("a plugin has a table %s");\n',
    }
    needed = ("docs/support.md", "docs/troubleshooting.md")
    harmless = {
        "a claim of nothing": with_row("| fabric | not tested | – |"),
        "a test on GPUs that was seen": with_row("| x | seen on GPUs (`Transports.Ll`) ([here](benchmarks.md#a)) | – |"),
    }
    violations = {
        "works without a test": (with_row("| x | works | – |"), "'works' names no test"),
        "works with a reason instead of a test": (with_row("| x | works: `a plugin has a table` | – |"), "names no test"),
        "a test that is not there": (with_row("| x | works (`Transports.Ll128`) | – |"), "no test Transports.Ll128"),
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
        "seen without a place": (with_row("| x | seen on GPUs | – |"), "does not link where it was seen"),
        "refused without its sentence": (with_row("| x | refused (`Plugin.Stays`) | – |"), "does not quote"),
        "a reason that nobody gives": ({"src/nic.cc": ""}, "nothing in src says 'registered with; a NIC'"),
        "a claim of no kind": (with_row("| x | probably | – |"), "'probably' begins with none of"),
        "a second claim of no kind": (with_row("| x | not tested; fine | – |"), "'fine' begins with none of"),
        "a message that nobody says": (
            {"docs/troubleshooting.md": "| message | do |\n|---|---|\n| `the moon is full` | wait |\n"},
            "nothing in src says 'the moon is full'",
        ),
    }
