// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "shim/call_site.h"

#include <unwind.h>

#include <cstdlib>

#include "shim/libc_symbol.h"

namespace amem {
namespace {

/// Deeper than any stack of 8 MiB that does something in its frames. What is looked for is near the
/// top; a table that leads the unwinder in circles must not hold us for ever.
constexpr int kMostFrames = 20000;

struct Walk {
  bool (*is_it)(_Unwind_Context* frame, const void* argument);
  const void* argument;
  int frames_left = kMostFrames;
  bool found = false;
};

_Unwind_Reason_Code look_at(_Unwind_Context* frame, void* argument) {
  auto& walk = *static_cast<Walk*>(argument);
  walk.found = walk.is_it(frame, walk.argument);
  return walk.found || --walk.frames_left == 0 ? _URC_END_OF_STACK : _URC_NO_REASON;
}

bool find_frame(bool (*is_it)(_Unwind_Context*, const void*), const void* argument) {
  Walk walk{is_it, argument};
  _Unwind_Backtrace(look_at, &walk);
  return walk.found;
}

/// A frame that stands before an instruction instead of after a call was interrupted by a signal.
bool was_interrupted(_Unwind_Context* frame, const void*) {
  int before_instruction = 0;
  _Unwind_GetIPInfo(frame, &before_instruction);
  return before_instruction != 0;
}

struct ExitFunctions {
  void* exit;
  void* quick_exit;
};

/// Handlers run below them: neither returns, so that the compiler cannot have made jumps of the
/// calls in them.
bool is_exiting(_Unwind_Context* frame, const void* argument) {
  const auto& functions = *static_cast<const ExitFunctions*>(argument);
  // Looks for the function that contains the byte before the address: the call, which is the last
  // instruction of such a function.
  void* const function =
      _Unwind_FindEnclosingFunction(reinterpret_cast<void*>(_Unwind_GetIP(frame)));
  return function != nullptr && (function == functions.exit || function == functions.quick_exit);
}

}  // namespace

bool called_in_signal_handler() { return find_frame(was_interrupted, nullptr); }

bool called_in_exit_handler() {
  // Not &exit: in an executable that is linked to fixed addresses that may be a stub of its own.
  static const ExitFunctions functions{libc_symbol("exit"), libc_symbol("quick_exit")};
  return find_frame(is_exiting, &functions);
}

}  // namespace amem
