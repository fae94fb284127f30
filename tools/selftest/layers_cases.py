# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""check_layers.py on an upward include, a home left, and a table that does not fit."""

from sample_tree import CheckCase

TABLE = """# Architecture
## Layers
| folder | may include |
|---|---|
| base | – |
| peers | base |
| `engine` | peers, base |
| src/shim | all |
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
        "src/peers/channel.cc": '#include <sys/socket.h>\n#include "base/result.h"\n',
        "src/engine/plan.cc": '// #include "shim/forward.h"\n#include "peers/channel.h"\n',
        "src/shim/forward.cc": '#include "amem.h"\n#include "engine/plan.h"\nh = dlopen(n, 0);\n',
        "src/shim/forward.h": "#pragma once\n",
    }
    needed = ("ARCHITECTURE.md",)
    harmless = {
        "a test may look anywhere": {"src/base/result_test.cc": '#include "engine/plan.h"\n'},
        "names in literals and comments": {
            "src/base/result.cc": '// calls getenv(x)\nconst char* why = "dlsym( failed";\n'
        },
        "an allowed call": {"src/shim/forward.cc": 'getenv("A");  // allow: not our variable\n'},
        "methods of ours": {"src/engine/plan.cc": "void f() { door.dlsym(1); peer->socket(2); }\n"},
    }
    violations = {
        "upward include": (
            {"src/base/result.h": '#include "engine/plan.h"\n'},
            "src/base/result.h:1: base may not include engine",
        ),
        "sideways include": (
            {"src/peers/channel.cc": '\n#include "engine/plan.h"\n'},
            "src/peers/channel.cc:2: peers may not include engine",
        ),
        "include from a table of rows": (
            {"src/base/rows.def": '#include "peers/channel.h"\n'},
            "base may not include peers",
        ),
        "tests from src": (
            {"src/shim/forward.cc": '#include "tests/support/fake.h"\n'},
            "src never includes tests/",
        ),
        "the simulator from src": (
            {"src/shim/forward.cc": '#include "sim/api.h"\n'},
            "src never includes sim/",
        ),
        "a way around": (
            {"src/base/result.h": '#include "../engine/plan.h"\n'},
            "src never includes ../",
        ),
        "include without its folder": (
            {"src/shim/forward.cc": '#include "forward.h"\n'},
            'write "shim/forward.h"',
        ),
        "cuda.h outside its home": (
            {"src/engine/plan.cc": "#include <cuda.h>\n"},
            "cuda.h may be included only in src/driver/",
        ),
        "sockets outside their home": (
            {"src/engine/plan.cc": "#include <sys/socket.h>\n"},
            "only in src/peers/",
        ),
        "a socket call": (
            {"src/engine/plan.cc": "int fd = ::socketpair(1, 2, 3, x);\n"},
            "socket calls belong in src/peers/",
        ),
        "dlsym outside its homes": (
            {"src/engine/plan.cc": "void* f = dlsym(h, n);\n"},
            "dlsym and dlopen belong in",
        ),
        "getenv outside its home": (
            {"src/shim/forward.cc": 'auto a = getenv("A");\n'},
            "getenv belong in src/base/environment.cc",
        ),
        "std::getenv too": (
            {"src/shim/forward.cc": '\nauto a = std::getenv("A");\n'},
            "src/shim/forward.cc:2: getenv",
        ),
        "a folder that is in no row": ({"src/extra/x.h": "\n"}, "not in the layer table"),
        "a row without a folder": (
            {"ARCHITECTURE.md": TABLE.replace("| peers |", "| gone | base |\n| peers |")},
            "names src/gone",
        ),
        "a circle": (
            {"ARCHITECTURE.md": TABLE.replace("| base | – |", "| base | engine |")},
            "stands below itself",
        ),
    }

    def test_cannot_run_without_the_table(self):
        code, output = self.run_on({**self.clean, "ARCHITECTURE.md": "# Architecture\n"})
        self.assertEqual(code, 2, output)
