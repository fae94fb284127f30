// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <functional>

#include "amem.h"
#include "clients/graphs/captured_graphs.h"
#include "clients/nccl/buffer_contents.h"
#include "clients/nccl/gate/async_communicators.h"
#include "clients/nccl/gate/call_gate.h"
#include "clients/nccl/gate/capture_watch.h"
#include "clients/nccl/gate/communicator_id.h"
#include "engine/session.h"
#include "memory/client.h"
#include "sharing/shared_handles.h"

namespace amem {

/// The function of amemOnNcclCall(); nullptr if there is none.
inline constinit std::atomic<amemNcclObserver_t> g_nccl_observer{nullptr};

/// The calling thread's allocations are the application's own (ncclMemAlloc).
inline constinit thread_local bool t_in_mem_alloc = false;

/// NCCL as a client of the engine. Its work passes the gates. Its scope are its communicators.
class NcclClient final : public Client, public GraphGate {
 public:
  struct Settings {
    long gate_timeout_ms = 60000;    ///< how long a call waits for a paused member
    bool headers_only = false;       ///< AMEM_NCCL_OFFLOAD_FREE_TAG=7 (live_ranges())
    size_t host_prealloc_bytes = 0;  ///< AMEM_HOST_PREALLOC_MIB
  };

  NcclClient(SharedHandles& its_handles, PeerTable& its_peers, Settings its_settings)
      : Client(PeerGate::imports), settings(its_settings), handles(its_handles), peers(its_peers) {}

  const Settings settings;
  SharedHandles& handles;
  PeerTable& peers;
  /// Set before the first call; resumes the memory of NCCL for calls.
  Session* session = nullptr;
  CallGate gate{
      peers, [this] { return resume_for_call(); },
      [this](const InstanceId& member) { handles.exchange().request_resume(member, kNcclTag); }};
  AsyncCommunicators async_communicators{gate};
  CaptureWatch captures{gate, async_communicators};

  /// For a communicator that is being derived from `parent`: its identity, to be called once, when
  /// NCCL has derived it (gate/communicator_id.h); none if the parent has none.
  Identify identity_of_child(const void* parent, int color, std::vector<int> excluded = {});
  /// Tells the function of amemOnNcclCall(), if there is one, that the calling thread has left a
  /// call. Returns what it returns. Calls of other threads wait meanwhile, also while the process
  /// is paused.
  int tell_observer(const void* communicator, bool has_ended = false);
  /// The application ends a communicator.
  void communicator_ends(ncclComm_t communicator);
  /// The application aborts a communicator, which `real` does. Imports from processes that may be
  /// members fail if they begin before its end: it may wait for threads of NCCL.
  int abort_communicator(ncclComm_t communicator, const std::function<int()>& real);
  /// NCCL is about to allocate a buffer on this device: prepares host memory once, if the user asks
  /// for it.
  void prepare_host_memory(int device);
  const Driver& driver() const { return handles.memory().driver(); }

  bool owns(const Tag& tag) const override { return tag == kNcclTag; }
  Tags tags() const override { return {kNcclTag}; }
  /// All bytes by default, because a message that was sent and not received is in its receiver's
  /// FIFO (docs/decisions/0008-fifos-are-kept.md).
  ///
  /// With `headers_only`: of P2P buffers with FIFOs, the headers. These are the buffers of NCCL
  /// that it exports and that are larger than kP2pUnitBytes (p2p.cc:410,491, v2.30.7-1). Smaller
  /// ones are kept, because a sending side may have more than a header there; their zero pages are
  /// not copied. Windows and signals are not created as buffers.
  std::vector<Piece> live_ranges(const Allocation& allocation) const override;
  Status quiesce(Deadline deadline) override;
  void reopen() override { gate.open_process(); }
  Scope scope() override { return gate.communicator_ids(); }
  Status quiesce_for_peer(const Scope& scope, Deadline deadline) override;
  void reopen_for_peer() override { gate.read_peers(); }
  void resume_for_peer() override { gate.resume_for_peer(); }

  // --- GraphGate; the objects are communicators

  Status enter_launch(const char* call, const void* communicator, bool may_wait) override;
  void leave_launch(const void* communicator) override;
  /// The calling thread captures the work of its NCCL call or group into this graph.
  void note_captured(const void* graph);

 private:
  /// Resumes the memory of NCCL. If another process has requested the pause, waits for it until it
  /// succeeds, because no call fails because of that.
  Status resume_for_call();
  bool has_memory();
  Status check_capture();
  Status check_ungated();
  Status check_proxy_copies();

  std::atomic<bool> had_buffer_{false};
  DerivedCommunicators derived_;
};

}  // namespace amem
