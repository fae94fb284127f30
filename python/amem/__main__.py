# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""`python -m amem` is the `amem` command: of this installation, beside this Python, or on PATH."""

import sys

from amem_command import main

from .errors import AmemError
from .installation import find_command

if __name__ == "__main__":
    try:
        main(find_command())
    except AmemError as error:
        sys.exit(f"amem: {error}")
