# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""check_format.py and check_tables.py."""

from sample_tree import CheckCase

STYLE = "BasedOnStyle: Google\nColumnLimit: 100\n"


class Format(CheckCase):
    check = "check_format.py"
    clean = {".clang-format": STYLE, "src/base/result.cc": "int f() { return 1; }\n"}
    needed = (".clang-format", "src/base/result.cc")
    violations = {
        "another layout": (
            {"src/base/result.cc": "int f() { return 1; }\nint  g( ) {return 2;}\n"},
            "src/base/result.cc:2: is not as clang-format writes it",
        ),
        "in an example": ({"examples/a.c": "int  a;\n"}, "examples/a.c:1"),
        "in the demo": ({"demo/a.cc": "int  a;\n"}, "demo/a.cc:1"),
    }


class Tables(CheckCase):
    check = "check_tables.py"
    document = """# Interception
## Hooked
| function | handling | why |
|---|---|---|
| `cuMemCreate` | hooked | records |
## Called
| function | why |
|---|---|
| `cuMemGetInfo` | out of memory, unlike cuMemAlloc |
"""
    rows = """AMEM_DRIVER_FUNCTION(cuMemCreate, cuMemCreate, 10020, hooked, (int))
AMEM_DRIVER_FUNCTION(cuMemGetInfo, cuMemGetInfo_v2, 3020, called, (int))
"""
    clean = {
        "src/driver/functions.def": rows,
        "docs/interception.md": document,
        "tests/contract/memory_test.cc": "cuMemGetInfo_v2(a);\n",
        "src/clients/nccl/driver_calls/entry_points_test.cc": "cuMemCreate(a);\n",
        "src/clients/nccl/doors/nccl_functions.def": "AMEM_NCCL_FUNCTION(ncclReduce, launches)\n",
        "src/clients/nccl/forwarder/exports/nccl.symbols": "T ncclReduce\n",
        "jobs/calls.cc": "ncclReduce(a);\n",
    }
    needed = ("src/driver/functions.def", "docs/interception.md", "src/clients/nccl/doors/nccl_functions.def")
    violations = {
        "an undocumented row": (
            {"docs/interception.md": document.replace("cuMemGetInfo", "it")},
            "functions.def:2: cuMemGetInfo stands in no table",
        ),
        "a documented function without a row": (
            {"src/driver/functions.def": rows.splitlines()[0] + "\n"},
            "docs/interception.md:9: cuMemGetInfo is no row",
        ),
        "another handling": (
            {"docs/interception.md": document.replace("| hooked |", "| called |")},
            "cuMemCreate is 'hooked'",
        ),
        "a function of NCCL without a test": ({"jobs/calls.cc": "ncclReduceScatter(a);\n"}, "ncclReduce is named in no test"),
        "a function of NCCL that is not exported": (
            {"src/clients/nccl/forwarder/exports/nccl.symbols": "T pncclReduce\n"},
            "ncclReduce is not in src/clients",
        ),
        "an untested row": (
            {"src/clients/nccl/driver_calls/entry_points_test.cc": "cuMemCreated(a);\n"},
            "cuMemCreate is named in no contract or hook test",
        ),
        "tested elsewhere only": (
            {
                "src/clients/nccl/driver_calls/entry_points_test.cc": None,
                "tests/sim/a_test.cc": "cuMemCreate(a);\n",
            },
            "cuMemCreate is named in no contract or hook test",
        ),
    }
