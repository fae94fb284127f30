// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

namespace amem {

/// Where the calling thread is in Python code, such as "train.py:12 in step, train.py:40 in main",
/// the most recent call first; "" in a thread or process without Python, and where Python does not
/// export _Py_DumpTraceback(), with which faulthandler writes stacks from signal handlers
/// (Python/traceback.c; exported by CPython 3.8, 3.11 and 3.12, not by 3.9, 3.10 and 3.13). Needs
/// no GIL, for which an allocator must not wait. Takes about 20 µs.
std::string python_stack();

}  // namespace amem
