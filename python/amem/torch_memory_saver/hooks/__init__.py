# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The hook modes of torch_memory_saver. amem has one mode: nothing is preloaded, and both names mean the same."""
