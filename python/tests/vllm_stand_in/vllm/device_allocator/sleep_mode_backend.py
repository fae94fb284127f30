# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The names and signatures of vLLM 0.33.0; remembers what is called."""

import importlib

calls = []


class CuMemBackend:
    def suspend(self, level=1):
        calls.append(("suspend", level))

    def resume(self, tags=None):
        calls.append(("resume", tags))

    def discard(self, tags):
        calls.append(("discard", tags))

    @classmethod
    def preserves_communicators(cls):
        return True

    @classmethod
    def preserves_graphs_with_communicators(cls):
        return False


class SleepModeBackendFactory:
    _registry = {}

    @classmethod
    def register_backend(cls, name, module_path, class_name):
        if name in cls._registry:
            raise ValueError(f"{name} is registered")
        cls._registry[name] = lambda: getattr(importlib.import_module(module_path), class_name)

    @classmethod
    def get_backend_class(cls, name):
        return cls._registry[name]()
