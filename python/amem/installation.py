# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Where amem is installed: its command and its library."""

import os
import platform
import shutil
import sys
from pathlib import Path
from typing import List, Optional

from .errors import AmemError

_LIBRARY = "libamem_nccl.so"
_LIBRARY_FOLDERS = ("lib", "lib64", f"lib/{platform.machine()}-linux-gnu")


def loaded_library() -> Optional[Path]:
    """amem's library in this process, as proc(5) shows it."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                if line.rstrip().endswith("/" + _LIBRARY):
                    return Path(line.split(maxsplit=5)[5].rstrip("\n"))
    except OSError:
        pass
    return None


def find_command() -> str:
    """The `amem` command: of the installation that is in this process, of this wheel, beside this Python, on PATH."""
    places: List[Path] = []
    library = loaded_library()
    if library is not None:
        # lib/libamem_nccl.so, or on Debian lib/x86_64-linux-gnu/libamem_nccl.so and the like.
        places += [parent / "bin" / "amem" for parent in list(library.parents)[1:3]]
    places.append(Path(__file__).resolve().parent / "bin" / "amem")
    if sys.executable:  # not in every program that embeds Python
        places.append(Path(sys.executable).parent / "amem")
    for place in places:
        if os.access(place, os.X_OK):
            return str(place)
    found = shutil.which("amem")
    if found is None:
        raise AmemError("the amem command is neither beside this Python nor on PATH: install amem, or put its folder on PATH")
    return found


def find_libraries() -> List[str]:
    """amem's library beside the command, in each folder that has it. Raises AmemError when none has."""
    command = os.path.realpath(find_command())
    prefix = Path(command).parent.parent
    found = [str(prefix / folder / _LIBRARY) for folder in _LIBRARY_FOLDERS if (prefix / folder / _LIBRARY).exists()]
    if not found:
        raise AmemError(
            f"{command} is there, but {_LIBRARY} is not in {prefix / 'lib'}: install the command and the library together"
        )
    return found
