# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The entry point torch.backends, which PyTorch calls at the end of `import torch` (2.5 and later).

A module of its own, because PyTorch calls it whether amem is used or not, and `import amem` enables amem.
"""

import logging
import os


def register() -> None:
    """Safe points after the steps of optimizers, with AMEM_SAFE_POINT=optimizer. Never raises: an error would end the import."""
    if os.environ.get("AMEM_SAFE_POINT") != "optimizer":
        return
    try:
        from amem.safe_points import after_optimizer_steps

        after_optimizer_steps()
    except Exception as error:
        logging.getLogger("amem").warning("AMEM_SAFE_POINT=optimizer has no effect: %s", error)
