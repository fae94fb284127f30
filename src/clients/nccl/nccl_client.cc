// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/nccl_client.h"

#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/active.h"
#include "base/environment.h"
#include "base/log.h"
#include "clients/nccl/doors/nccl_copies.h"

namespace amem {
Identify NcclClient::identity_of_child(const void* parent, int color, std::vector<int> excluded) {
  return [this, parent, color, excluded = std::move(excluded)] {
    const CommunicatorId id = gate.id_of(parent);
    return id == kNoIdentity ? id : derived_.next(parent, id, color, excluded);
  };
}

int NcclClient::tell_observer(const void* communicator, bool has_ended) {
  const amemNcclObserver_t observer = g_nccl_observer;
  if (observer == nullptr) return ncclSuccess;
  const CommunicatorId id = gate.id_of(communicator);
  const bool is_in_group = gate.caller_is_inside();
  amemNcclCall_t call{communicator,
                      "",
                      peers.members.members_of(id),
                      is_in_group,
                      !is_in_group && captures.take_captured(),
                      has_ended};
  if (id != kNoIdentity) id.hex().copy(call.id, sizeof call.id - 1);
  const CallGate::WaitingCalls waiting(gate);
  return observer(&call);
}

void NcclClient::communicator_ends(ncclComm_t communicator) {
  async_communicators.forget(communicator);
  derived_.forget(communicator);
  (void)tell_observer(communicator, true);
  CommunicatorIds needed = gate.communicator_ids(), aborted = peers.aborted_since({});
  needed.insert(needed.end(), aborted.begin(), aborted.end());
  peers.members.keep(needed);
}

int NcclClient::abort_communicator(ncclComm_t communicator, const std::function<int()>& real) {
  if (communicator == nullptr) return real();
  const CommunicatorId id = gate.id_of(communicator);
  // No import is running that began before their end.
  if (handles.imports_running() == 0) peers.forget_ended_aborts();
  const auto abort = peers.begin_abort(id);
  handles.exchange().wake_imports();
  communicator_ends(communicator);
  const int result = real();
  peers.end_abort(abort);
  return result;
}

void NcclClient::prepare_host_memory(int device) {
  if (settings.host_prealloc_bytes == 0 || had_buffer_.exchange(true)) return;
  session->prepare_host_memory(device, settings.host_prealloc_bytes);
}

std::vector<Piece> NcclClient::live_ranges(const Allocation& allocation) const {
  std::vector<Piece> live = Client::live_ranges(allocation);
  const bool has_fifos =
      allocation.is_buffer && allocation.nonce != 0 && allocation.size_bytes > kP2pUnitBytes;
  if (settings.headers_only && has_fifos && !live.empty()) live.front().size_bytes = kHeaderBytes;
  return live;
}

Status NcclClient::resume_for_call() {
  constexpr long kDayMs = 86400000;
  constexpr int kAgainMs = 1000;
  while (const uint64_t pause = gate.remote_pause()) {
    const Status resumed = session->resume({{kNcclTag}, false, kDayMs, kDayMs});
    if (resumed.ok()) gate.end_remote_pause(pause);
    if (resumed.ok() || resumed.error().kind == ErrorKind::misuse) return resumed;
    AMEM_LOG(warn, -1, "a call waits for the memory of NCCL: %s", resumed.error().message.c_str());
    (void)poll(nullptr, 0, kAgainMs);
  }
  return session->resume({{kNcclTag}});
}

Status NcclClient::check_capture() {
  if (!captures.any(driver())) return ok_status();
  return misuse_error(
      "a stream with NCCL work is being captured into a CUDA graph; end the capture, then pause");
}

Status NcclClient::check_ungated() {
  if (!gate.has_ungated_work()) return ok_status();
  return unsupported_error(
      "NCCL work was started by a call that does not pass amem's gate: by a function that this "
      "version of amem does not know, or by a function pointer from before amem was loaded; amem "
      "cannot wait for such work");
}

/// NCCL's proxy threads copy to buffers of peers after the kernel that sends has ended (p2p.cc,
/// p2pSendProxyProgress@v2.30.7-1). A copy that they have not started yet cannot be waited for.
/// NCCL also sets the variable itself, from nccl.conf.
Status NcclClient::check_proxy_copies() {
  if (strtol(variable_now("NCCL_P2P_USE_CUDA_MEMCPY"), nullptr, 0) == 0 ||
      gate.communicator_count() == 0)
    return ok_status();
  return misuse_error(
      "with NCCL_P2P_USE_CUDA_MEMCPY=1 NCCL copies on threads of its own, which amem cannot wait "
      "for: unset it and start again");
}

/// True if NCCL has allocated memory that amem knows.
bool NcclClient::has_memory() {
  Registry& registry = handles.memory().registry();
  MutexLock lock(registry.mutex);
  const auto& backings = registry.backings();
  return std::any_of(backings.begin(), backings.end(),
                     [](const auto& entry) { return entry.second.tag == kNcclTag; });
}

Status NcclClient::quiesce(Deadline deadline) {
  if (gate.caller_is_inside())
    return misuse_error(
        "ncclPause() was called from inside an NCCL call or an open ncclGroupStart()");
  AMEM_TRY(check_nccl_copies());
  AMEM_TRY(check_ungated());
  AMEM_TRY(check_capture());
  AMEM_TRY(check_proxy_copies());
  if (!has_memory() && gate.communicator_count() > 0)
    return misuse_error(
        "nothing that NCCL holds can be released: it runs with NCCL_CUMEM_ENABLE=0; set "
        "AMEM_CUMEM=force or NCCL_CUMEM_ENABLE=1 and start again");
  gate.close_process("this process is paused; call ncclResume() first");
  // Calls of other images bypass the gate until these are patched.
  AMEM_TRY(check_nccl_copies());
  AMEM_TRY(gate.wait_until_outside(nullptr, deadline));
  AMEM_TRY(async_communicators.wait_until_settled(nullptr, deadline));
  // Again: from now on such work is refused or waits.
  AMEM_TRY(check_ungated());
  AMEM_TRY(check_capture());
  // Members of a communicator without an identity cannot be asked to stop their work on bound
  // memory.
  if (gate.has_unidentified()) handles.memory().keep_bound(kNcclTag);
  return ok_status();
}

Status NcclClient::quiesce_for_peer(const Scope& scope, Deadline deadline) {
  AMEM_TRY(check_proxy_copies());
  // A process that shares memory may be a member of a communicator without an identity.
  Scope waited_for = scope;
  waited_for.push_back(kNoIdentity);
  AMEM_TRY(gate.wait_until_outside(&waited_for, deadline));
  AMEM_TRY(check_ungated());
  return async_communicators.wait_until_settled(&waited_for, deadline);
}

// A launch is like a group with a call on each communicator of the graph: it stays inside until the
// group ends.
Status NcclClient::enter_launch(const char* call, const void* communicator, bool may_wait) {
  const CallGate::Entry entry(gate, call, communicator, may_wait ? settings.gate_timeout_ms : 0);
  if (!entry.is_inside()) return entry.refusal();
  gate.group_started(call);
  return ok_status();
}

void NcclClient::leave_launch(const void*) {
  gate.end_group("cudaGraphLaunch", [] { return ncclSuccess; });
}

void NcclClient::note_captured(const void* graph) {
  CapturedGraphs* const graphs = built<CapturedGraphs>();
  if (graphs == nullptr) return;
  for (const void* const communicator : gate.communicators_of_caller())
    graphs->captured(graph, {this, communicator});
}

}  // namespace amem
