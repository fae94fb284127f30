// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "amem_nccl_abi.h"
#include "shim/call_result.h"
#include "shim/nccl_copies.h"
#include "shim/process.h"

/// How a call of NCCL goes through a door.
namespace amem {

using Comm = ncclComm_t;
using Stream = DriverStream;

/// NCCL's function behind a door; counts the call.
template <typename Function>
Function* call_through(int copy, NcclFunction function) {
  NcclCopy& nccl = g_nccl_copies[static_cast<size_t>(copy)];
  const auto row = static_cast<size_t>(function);
  const uint64_t before = nccl.calls[row].load(std::memory_order_relaxed);
  nccl.calls[row].store(before + 1, std::memory_order_relaxed);
  return reinterpret_cast<Function*>(nccl.real[row]);
}

/// Another function of the same library, or nullptr.
template <typename Function>
Function* real_function(int copy, NcclFunction function) {
  return reinterpret_cast<Function*>(
      g_nccl_copies[static_cast<size_t>(copy)].real[static_cast<size_t>(function)]);
}

/// amem in this process; nullptr where calls only pass: without a CUDA driver, and in a forked
/// child, whose locks may be held for ever.
inline Process* process_for_calls() {
  Process* const process = Process::get();
  return process == nullptr || process->forked() ? nullptr : process;
}

/// Runs `call` inside the gate of `comm` (nullptr: the process' alone).
template <typename Call>
inline int inside(Process& process, int copy, const char* name, Comm comm, Call call) {
  const CallGate::Entry entry(process.gate(), name, comm, process.engine().timeout_ms);
  if (!entry.is_inside()) [[unlikely]]
    return report_error(name, entry.refusal());
  note_call_passed();
  const int result = call();
  if (result == ncclInProgress) [[unlikely]]
    process.note_in_progress(comm, real_function<AsyncCommunicators::AskFunction>(
                                       copy, NcclFunction::ncclCommGetAsyncError));
  return result;
}

}  // namespace amem
