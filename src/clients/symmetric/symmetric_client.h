// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "clients/graphs/captured_graphs.h"
#include "clients/symmetric/handle.h"
#include "memory/client.h"
#include "memory/registry.h"
#include "sharing/peer_table.h"

namespace amem {

/// The tag of symmetric memory.
inline constexpr char kSymmetricTag[] = "symmetric";

/// Symmetric memory: memory that all ranks of a group map. Its contents are kept.
///
/// PyTorch's (torch.distributed._symmetric_memory) is recorded by torch_calls.h. amem cannot stop
/// the kernels that use it: no rank may use it while a rank is paused.
///
/// amem's own has handles (rendezvous.h), and each call on a handle passes enter(). It fails while
/// this process is paused and waits while a peer of the handle is. So does the launch of a graph
/// into which calls on handles were captured.
///
/// Thread-safe, with the mutex of the PeerTable. The functions of Client are called with the
/// registry's mutex or without; no function takes it with this mutex.
class SymmetricClient final : public Client, public GraphGate {
 public:
  SymmetricClient(Registry& registry, PeerTable& peers, long launch_timeout_ms = 60000)
      : launch_timeout_ms_(launch_timeout_ms), registry_(registry), peers_(peers) {}

  // --- Handles

  /// Returns what the application has of the handle: a number that no other handle has later.
  const void* add(std::unique_ptr<SymmetricHandle> handle);
  /// The handle, which ends: calls that wait in enter() fail, and those inside have left. Errors:
  /// misuse, for no handle; timeout: the handle works as before.
  Result<std::unique_ptr<SymmetricHandle>> take(const void* handle, Deadline deadline);
  /// A handle fails that is added after the end of a peer, if that is kept: while results of this
  /// function exist, and until the first of them ends.
  std::shared_ptr<void> keep_ended();
  /// True if a handle uses this buffer.
  bool is_in_use(DeviceAddress buffer);

  /// Lets a call on a handle in; leave() must follow. Waits while a peer of the handle is paused.
  /// Errors: misuse, for no handle, or while this process is paused; that of the handle after it
  /// has failed; timeout.
  Result<SymmetricHandle*> enter(const void* handle, long timeout_ms);
  /// After a driver error the handle has failed.
  void leave(SymmetricHandle& handle, const Status& enqueued);
  /// A call on the handle enqueues work in this stream, which may be being captured.
  Status note_captured(const Driver& driver, const void* handle, DriverStream stream);
  using Reader = std::function<void(const SymmetricHandle&)>;
  /// A call that enqueues nothing: it neither waits nor fails because of a pause. The handle does
  /// not end in `read`, which runs with the mutex of this class. Errors: misuse.
  Status look_up(const void* handle, const Reader& read);
  /// SymmetricHandle::status().
  Status status_of(const void* handle);
  /// Misuse while this process is paused.
  Status check_open();

  // --- Client

  bool owns(const Tag& tag) const override { return tag == kSymmetricTag; }
  /// Nothing before the process has such memory.
  Tags tags() const override;
  /// Of a workspace: all but the scratch memory.
  std::vector<Piece> live_ranges(const Allocation& allocation) const override;
  Status quiesce(Deadline deadline) override;
  void reopen() override;
  Status quiesce_for_peer(const Scope&, Deadline deadline) override;
  /// A handle of a peer that has ended fails.
  void reopen_for_peer() override;

  // --- GraphGate; the objects are handles

  Status enter_launch(const char* call, const void* handle, bool may_wait) override;
  void leave_launch(const void* handle) override;

 private:
  /// A text about a peer of the handle that is paused; nullptr if there is none.
  const std::string* paused_peer(const SymmetricHandle& handle) const AMEM_REQUIRES(mutex_);
  void forget_ended() AMEM_REQUIRES(mutex_);
  /// nullptr if there is none, or it ends.
  SymmetricHandle* find(const void* handle) AMEM_REQUIRES(mutex_);
  /// Waits until no call is inside a handle for which `predicate` is true. Errors: timeout.
  template <typename Predicate>
  Status wait_for_calls(Deadline deadline, Predicate predicate) AMEM_REQUIRES(mutex_);
  void fail_if_ended(SymmetricHandle& handle) AMEM_REQUIRES(mutex_);

  const long launch_timeout_ms_;
  Registry& registry_;
  PeerTable& peers_;
  Mutex& mutex_ = peers_.mutex;
  Condition& changed_ = peers_.changed;
  bool is_paused_ AMEM_GUARDED_BY(mutex_) = false;
  uintptr_t last_id_ AMEM_GUARDED_BY(mutex_) = 0;
  std::map<const void*, std::unique_ptr<SymmetricHandle>> handles_ AMEM_GUARDED_BY(mutex_);
  int keeping_ended_ AMEM_GUARDED_BY(mutex_) =
      -1;  ///< results of keep_ended(); -1 before the first
};

}  // namespace amem
