// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <utility>

#include "amem_nccl_abi.h"
#include "clients/nccl/doors/nccl_copies.h"
#include "clients/nccl/doors/nccl_result.h"
#include "clients/nccl/gate/communicator_id.h"
#include "clients/nccl/nccl_client.h"

/// The path of an NCCL call through a door.
namespace amem {

using Comm = ncclComm_t;
using Stream = DriverStream;

/// NCCL's function behind a door. Counts the call.
template <typename Function>
Function* call_through(int copy, NcclFunction function) {
  NcclCopy& nccl = g_nccl_copies[static_cast<size_t>(copy)];
  const auto row = static_cast<size_t>(function);
  // Relaxed: a number for reports; nothing is ordered by it.
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

/// Records a communicator that a pause may have to query.
inline void add_async(NcclClient& client, int copy, Comm comm) {
  client.async_communicators.add(comm, real_function<AsyncCommunicators::AskFunction>(
                                           copy, NcclFunction::ncclCommGetAsyncError));
}

/// Runs `call` inside the gate of `comm`, or inside the gate of the process if `comm` is nullptr.
template <typename Call>
inline int inside(NcclClient& client, int copy, const char* name, Comm comm, Call call,
                  bool ignore_ended = false) {
  const CallGate::Entry entry(client.gate, name, comm, client.settings.gate_timeout_ms,
                              ignore_ended);
  if (!entry.is_inside()) [[unlikely]]
    return report_error(name, entry.refusal());
  t_refused = false;
  const int result = call();
  if (result == ncclInProgress) [[unlikely]]
    client.note_in_progress();
  if (client.async_communicators.any()) [[unlikely]]
    add_async(client, copy, comm);
  return result;
}

/// `result` of a call that starts work on `comm`, or of the end of a group if it is nullptr, unless
/// the function of amemOnNcclCall() fails it.
inline int observed(NcclClient& client, Comm comm, int result) {
  // Relaxed: tell_observer() loads it again, sequentially consistent.
  if (g_nccl_observer.load(std::memory_order_relaxed) == nullptr) [[likely]]
    return result;
  const bool succeeded = result == ncclSuccess || result == ncclInProgress;
  const int failed = client.tell_observer(succeeded ? comm : nullptr);
  return failed != 0 ? failed : result;
}

/// Sets NCCL_CUMEM_ENABLE, which NCCL reads when it creates its first communicator. Many launchers
/// and frameworks set it to 0, some of them after amem was loaded. With 0, NCCL's memory cannot be
/// released.
void choose_cumem();

/// To be called before a communicator is created. Also patches images that were loaded since the
/// last scan.
void prepare_to_make();

/// The calling thread's last group is about to end, and `result` is the result of its end: the
/// communicators that were created in it now exist.
void end_making_in_group(NcclClient& client, int copy, int result);

/// Records a communicator whose address NCCL stores in `slot` when the calling thread's group ends,
/// or later, while `parent` is in progress. `slot` is nullptr on a rank that gets none.
void add_when_group_ends(Comm parent, Comm* slot, Identify identify);

/// The identity of a communicator that has no parent.
inline Identify identity(const CommunicatorId& id) {
  return [id] { return id; };
}

/// Runs `make`, which fills `slot`, and records the communicator and its identity.
/// `ignore_ended`: see CallGate::Entry.
template <typename Make>
int make_communicator(NcclClient& client, int copy, const char* name, Comm parent, Comm* slot,
                      Identify identify, Make make, bool ignore_ended = false) {
  prepare_to_make();
  const auto call = [&] {
    client.handles.exchange().meet_peers();
    const int result = make();
    if (result != ncclSuccess && result != ncclInProgress) return result;
    add_when_group_ends(parent, slot, std::move(identify));
    if (!client.gate.caller_is_in_group()) end_making_in_group(client, copy, result);
    return result;
  };
  return inside(client, copy, name, parent, call, ignore_ended);
}

}  // namespace amem
