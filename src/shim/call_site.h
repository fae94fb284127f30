// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// Is the calling thread inside a signal handler, its own stack or an alternate one?
///
/// Read from the stack: a handler's caller is a frame that the unwind tables mark as a signal's.
/// Frames without unwind tables (code made at run time that registers none) end the walk, and what
/// lies beyond is not seen. Async-signal-safe: no lock of ours, no memory, no thread-local
/// variable; the unwinder needs about 3 KiB of stack. Costs 0.4 us a frame.
bool called_in_signal_handler();

/// Is the calling thread inside exit(3) or quick_exit(3): an exit handler, a destructor of a static
/// object or of a library? Costs the same. Not for signal handlers: it may take the loader's lock.
bool called_in_exit_handler();

}  // namespace amem
