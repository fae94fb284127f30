# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Boolean environment variables, read as amem's library reads them (flag_of() in src/base/environment.cc).

A module of its own, because `import amem` enables amem.
"""

import functools
import logging
import os
import re
from typing import Optional, Tuple

TRUE = ("1", "true", "yes", "on")
FALSE = ("0", "false", "no", "off")
TAG = re.compile("[A-Za-z0-9_.:/-]{1,64}")
RESERVED_TAGS = ("nccl", "symmetric", "context")


@functools.lru_cache(maxsize=None)  # one warning
def _read(name: str, text: str) -> bool:
    if text.lower() not in TRUE + FALSE:
        logging.getLogger("amem").warning(
            "%s=%s is neither 1, true, yes or on, nor 0, false, no or off; using 0", name, text
        )
    return text.lower() in TRUE


def flag(name: str) -> Optional[bool]:
    """The value of a variable; None if it is unset or empty. A text that is not readable is False, with a warning."""
    text = os.environ.get(name)
    return _read(name, text) if text else None


@functools.lru_cache(maxsize=None)  # read once
def torch_memory_saver() -> Tuple[bool, Optional[str]]:
    """AMEM_TMS: whether amem takes the place of torch_memory_saver, and the tag with which NCCL's memory is paused. A value that
    is no tag is 0, as in the library, which warns."""
    text, deprecated = os.environ.get("AMEM_TMS", ""), os.environ.get("AMEM_TMS_NCCL") or None
    if not text or text.lower() in TRUE + FALSE:
        return text.lower() in TRUE, deprecated
    if text.isdigit() or text in RESERVED_TAGS or not TAG.fullmatch(text):
        return False, deprecated
    return True, text
