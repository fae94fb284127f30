# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""check_docs.py on documents that name what there is not, and the other way round."""

from sample_tree import CheckCase, Files

README = """# amem
Run `./dev test`, see [the shape](ARCHITECTURE.md#layers) and [decisions](docs/decisions/0001.md).
"""
SETTINGS = """# Settings
## For every job
| variable | default | values | meaning |
|---|---|---|---|
| `AMEM_ENABLE` | 0 | 0, 1 | on |
| `AMEM_CUMEM` | `force` | force, respect | mode |
## Other names
| variable | default | values | meaning |
|---|---|---|---|
| `GMM_LOG` | 3 | 0 to 5 | level |
"""
ROWS = """AMEM_VARIABLE(every_job, enable, AMEM_ENABLE, "0", "0, 1", "on")
AMEM_VARIABLE(every_job, cumem, AMEM_CUMEM, "force", "force, respect", "mode")
AMEM_VARIABLE(other_name, group.log, GMM_LOG, "3", "0 to 5", "level")
"""


def with_line(line: str) -> Files:
    return {"docs/a.md": f"# A\n\n{line}\n"}


class Docs(CheckCase):
    check = "check_docs.py"
    clean = {
        "README.md": README,
        "ARCHITECTURE.md": "# Shape\n## Layers\nThe plan is `engine/plan`.\n",
        "CONTRIBUTING.md": "See `src/engine/plan.{h,cc}`, `docs/` and `src/engine/*.h`.\n",
        "docs/decisions/0001.md": "[Start](../../README.md), [below](#below).\n## Below\n",
        "src/base/environment.def": ROWS,
        "src/engine/plan.h": "",
        "src/engine/plan.cc": "",
        "dev": "verb_test() {\n}\n",
        "docs/settings.md": SETTINGS,
        "docs/expert_settings.md": "# Settings for experts\n",
    }
    needed = ("dev", "src/base/environment.def", "docs/settings.md", "docs/expert_settings.md")
    harmless = {
        "another project's path": with_line("NCCL `src/misc/cuda.cc:12` and `src/a.cc`@2.20"),
        "a web address": with_line("[a](https://example.org/docs/none.md) and `nvidia/cuda`"),
        "a place in a file": with_line("see `src/engine/plan.cc:12`"),
        "a family of names": with_line("AMEM_SIM_* speak to the simulator"),
    }
    violations = {
        "no README": ({"README.md": None}, "README.md: does not exist"),
        "no ARCHITECTURE": ({"ARCHITECTURE.md": None}, "ARCHITECTURE.md: does not exist"),
        "a README that is too long": ({"README.md": README + "\n" * 130}, "README.md:132: 132 lines, at most 130"),
        "a long list of changes": ({"CHANGELOG.md": "\n" * 81}, "81 lines, at most 80"),
        "an undocumented variable": ({"src/base/environment.def": ROWS.replace("GMM_LOG", "AMEM_LOG")}, "AMEM_LOG is missing"),
        "an invented variable": (
            {"docs/settings.md": SETTINGS + "| `AMEM_SPEED` | 9 | 1 | fast |\n"},
            "docs/settings.md:11: AMEM_SPEED is no row",
        ),
        "a variable on two pages": (
            {"docs/expert_settings.md": SETTINGS.replace("# Settings", "# More", 1)},
            "docs/expert_settings.md:5: AMEM_ENABLE stands twice",
        ),
        "a variable twice": ({"docs/settings.md": SETTINGS + "| GMM_LOG | 3 | 0 to 5 | again |\n"}, "stands twice"),
        "another default": (
            {"docs/settings.md": SETTINGS.replace("`force`", "respect")},
            "AMEM_CUMEM is, in environment.def: For every job, force",
        ),
        "other values": ({"docs/settings.md": SETTINGS.replace("0 to 5", "0 to 9")}, "GMM_LOG is, in environment.def"),
        "under another heading": ({"docs/settings.md": SETTINGS.replace("## Other names", "## For experts")}, "GMM_LOG is"),
        "too many for every job": (
            {
                "src/base/environment.def": ROWS
                + "".join(f'AMEM_VARIABLE(every_job, x, AMEM_X{c}, "0", "0, 1", "x")\n' for c in "ABCDEFGHIJKLM"),
            },
            "more than 14 variables are for every job",
        ),
        "a lost path": (with_line("see `src/engine/gone.cc`"), "docs/a.md:3: src/engine/gone.cc"),
        "a lost path in src": (with_line("see `engine/gone`"), "engine/gone does not exist"),
        "one of two lost": (with_line("`src/engine/plan.{h,S}`"), "plan.S does not exist"),
        "a lost top-level file": (with_line("see `SECURITY.md`"), "SECURITY.md does not exist"),
        "a lost verb": (with_line("run `./dev fly`"), "./dev has no verb 'fly'"),
        "a lost verb in a block": (with_line("```sh\n./dev fly\n```"), "docs/a.md:4: ./dev has no"),
        "a lost link": (with_line("[a](gone.md)"), "docs/a.md:3: link to gone.md"),
        "a lost heading": (with_line("[a](../README.md#gone)"), "no such heading"),
        "a lost name": (with_line("set AMEM_SPEED"), "AMEM_SPEED occurs nowhere"),
        "a lost function": (with_line("call `amemFly()`"), "amemFly occurs nowhere"),
    }
