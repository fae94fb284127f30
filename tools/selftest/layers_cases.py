# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""check_layers.py on an upward include, a home left, and a table that does not fit."""

from sample_tree import CheckCase

TABLE = """# Architecture
## Layers
| folder | may include |
|---|---|
| base | – |
| transport | base |
| `engine` | transport, base |
| clients/nccl | engine, base |
| src/api | all |
## Threads
| folder | may include |
|---|---|
| base | engine |
"""


class Layers(CheckCase):
    check = "check_layers.py"
    clean = {
        "ARCHITECTURE.md": TABLE,
        "src/base/result.h": "#pragma once\n#include <string>\n",
        "src/base/environment.cc": 'const char* a = getenv("A");\n',
        "src/transport/channel.cc": '#include <sys/socket.h>\n#include "base/result.h"\n',
        "src/engine/plan.cc": '// #include "api/forward.h"\n#include "transport/channel.h"\n',
        "src/api/forward.cc": '#include "amem.h"\n#include "engine/plan.h"\nh = dlopen(n, 0);\n',
        "src/api/forward.h": "#pragma once\n",
        "src/clients/nccl/doors/doors.cc": '#include "engine/plan.h"\nint nccl;\n',
        "symmetric/calls.cc": '#include "amem.h"\n#include "base/result.h"\n#include "symmetric/memory.h"\n',
    }
    needed = ("ARCHITECTURE.md",)
    harmless = {
        "a test may look anywhere": {"src/base/result_test.cc": '#include "engine/plan.h"\n'},
        "names in literals and comments": {
            "src/base/result.cc": '// calls getenv(x)\nconst char* why = "dlsym( failed";\n'
        },
        "an allowed call": {"src/api/forward.cc": 'getenv("A");  // allow: not our variable\n'},
        "a cited source": {"src/engine/plan.cc": "// As NCCL has it\n// (alloc.h:334@v2.30.7-1).\nint a;\n"},
        "a folder of the same client": {
            "src/clients/nccl/gate/gate.cc": '#include "clients/nccl/doors/doors.h"\n'
        },
        "methods of ours": {"src/engine/plan.cc": "void f() { door.dlsym(1); peer->socket(2); }\n"},
    }
    violations = {
        "upward include": (
            {"src/base/result.h": '#include "engine/plan.h"\n'},
            "src/base/result.h:1: base may not include engine",
        ),
        "sideways include": (
            {"src/transport/channel.cc": '\n#include "engine/plan.h"\n'},
            "src/transport/channel.cc:2: transport may not include engine",
        ),
        "include from a table of rows": (
            {"src/base/rows.def": '#include "transport/channel.h"\n'},
            "base may not include transport",
        ),
        "tests from src": (
            {"src/api/forward.cc": '#include "tests/support/fake.h"\n'},
            "src never includes tests/",
        ),
        "the simulator from src": (
            {"src/api/forward.cc": '#include "sim/api.h"\n'},
            "src never includes sim/",
        ),
        "a way around": (
            {"src/base/result.h": '#include "../engine/plan.h"\n'},
            "src never includes ../",
        ),
        "src from symmetric": (
            {"symmetric/calls.cc": '#include "base/environment.h"\n'},
            "symmetric may not include base/environment.h",
        ),
        "include without its folder": (
            {"src/api/forward.cc": '#include "forward.h"\n'},
            'write "api/forward.h"',
        ),
        "cuda.h outside its home": (
            {"src/engine/plan.cc": "#include <cuda.h>\n"},
            "cuda.h may be included only in src/driver/",
        ),
        "sockets outside their home": (
            {"src/engine/plan.cc": "#include <sys/socket.h>\n"},
            "only in src/transport/",
        ),
        "a socket call": (
            {"src/engine/plan.cc": "int fd = ::socketpair(1, 2, 3, x);\n"},
            "socket calls belong in src/transport/",
        ),
        "dlsym outside its homes": (
            {"src/engine/plan.cc": "void* f = dlsym(h, n);\n"},
            "dlsym and dlopen belong in",
        ),
        "getenv outside its home": (
            {"src/api/forward.cc": 'auto a = getenv("A");\n'},
            "getenv belong in src/base/environment.cc",
        ),
        "std::getenv too": (
            {"src/api/forward.cc": '\nauto a = std::getenv("A");\n'},
            "src/api/forward.cc:2: getenv",
        ),
        "a client from below": (
            {"src/engine/plan.cc": '#include "clients/nccl/doors/doors.h"\n'},
            "src/engine/plan.cc:1: engine may not include clients/nccl",
        ),
        "one client from another": (
            {
                "src/clients/tensors/region.h": '#include "clients/nccl/doors/doors.h"\n',
                "ARCHITECTURE.md": TABLE.replace("| src/api |", "| clients/tensors | base |\n| src/api |"),
            },
            "clients/tensors may not include clients/nccl",
        ),
        "a library's name below clients": (
            {"src/engine/plan.cc": "// NCCL is idle here.\n"},
            "src/engine/plan.cc:1: below clients/ nobody knows NCCL",
        ),
        "its name in an identifier": (
            {"src/transport/channel.cc": "int torch_pools;\n"},
            "src/transport/channel.cc:1: below clients/",
        ),
        "a folder that is in no row": ({"src/extra/x.h": "\n"}, "not in the layer table"),
        "a row without a folder": (
            {"ARCHITECTURE.md": TABLE.replace("| transport |", "| gone | base |\n| transport |")},
            "names src/gone",
        ),
        "a circle": (
            {"ARCHITECTURE.md": TABLE.replace("| base | – |", "| base | engine |")},
            "stands below itself",
        ),
    }

    def test_cannot_run_without_the_table(self) -> None:
        code, output = self.run_on({**self.clean, "ARCHITECTURE.md": "# Architecture\n"})
        self.assertEqual(code, 2, output)
