// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>

#include "amem_nccl_abi.h"
#include "shim/call_result.h"
#include "shim/process.h"
#include "shim/real_nccl.h"

/// The way of an NCCL call through amem: what gated_calls.cc puts in front of the real function,
/// and behind it.
namespace amem {

using Comm = ncclComm_t;
using Stream = DriverStream;

/// There is one: no wrapper is handed out without it (amemForward()).
inline Process& process() { return *Process::built(); }

/// Is a call none of our business? In a forked child, whose locks may be held for ever, and when
/// NCCL made it itself: whatever it is part of has passed the gate, on this thread or on the one
/// that this thread works for.
inline bool passes(const void* caller) { return is_in_real_nccl(caller) || process().forked(); }
/// In a wrapper: who called it. The trampolines jump, so that it is the caller of the public name.
#define AMEM_CALLER __builtin_return_address(0)

/// Waits at the gate of `comm` (nullptr: the process' alone) until the deadline.
/// REQUIRES: the call does not pass.
[[gnu::cold, gnu::noinline]] inline Status enter_the_long_way(const char* name, Comm comm) {
  Status entered = process().gate().enter(name, comm, process().engine().timeout_ms);
  if (entered.ok()) process().gate().see(comm);
  return entered;
}

/// Runs `call` inside that gate.
/// REQUIRES: the call does not pass.
template <typename Call>
int inside(const char* name, Comm comm, Call call) {
  if (const Status entered = enter_the_long_way(name, comm); !entered.ok())
    return report_error(name, entered.error());
  note_call_passed();
  const int result = call();
  if (result == ncclInProgress) process().async_communicators().note();
  process().gate().leave();
  return result;
}

// A call that nothing stands in the way of makes its way through these two, which become part of
// it, and through the real function. All others take the long way. What is between a launch and the
// next has left the processor's caches, so that each line of code costs
// (docs/decisions/0006-call-gate.md).

/// Lets a call in; nullptr when it has to take the long way.
inline GateThread* enter_quickly(const char* name, Comm comm) {
  GateThread* const thread = process().gate().enter_quickly(name, comm);
  if (thread == nullptr) [[unlikely]]
    return nullptr;
  note_call_passed();
  return thread;
}

[[gnu::cold, gnu::noinline]] inline void note_failure(int result) {
  if (result == ncclInProgress) process().async_communicators().note();
}

inline int leave_quickly(GateThread& thread, int result) {
  if (result != ncclSuccess) [[unlikely]]
    note_failure(result);
  process().gate().leave_quickly(thread);
  return result;
}

// Each wrapper keeps the real function's address; it is set before the wrapper is handed out, and
// never changes.
#define AMEM_REAL(name, parameters)      \
  using Real_##name = int(*) parameters; \
  std::atomic<Real_##name> g_real_##name{nullptr};

}  // namespace amem
