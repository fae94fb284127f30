# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""A stand-in for the part of vLLM 0.33.0 that offers sleep-mode backends."""
