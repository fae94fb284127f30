# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The executor of an engine that runs in a process of a torchrun job."""


class UniProcExecutor:
    pass


class ExecutorWithExternalLauncher(UniProcExecutor):
    pass
