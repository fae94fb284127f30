# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Prints the .cc and .c files of compile_commands.json that belong to this repository, for clang-tidy."""

import json
import sys
from pathlib import Path

root = Path(__file__).resolve().parent.parent.parent
commands = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
sources = {Path(entry["directory"], entry["file"]).resolve() for entry in commands}
generated = root / "build"
for source in sorted(sources):
    ours = source.is_relative_to(root) and not source.is_relative_to(generated)
    if ours and source.suffix in (".cc", ".c"):
        print(source)
