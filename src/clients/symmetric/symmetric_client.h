// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "amem.h"
#include "clients/graphs/captured_graphs.h"
#include "driver/device_threads.h"
#include "memory/client.h"
#include "memory/registry.h"
#include "sharing/peer_table.h"

namespace amem {

/// Memory that calls use together (amemMemorySet_t): of this process, and opened memory of peers.
struct MemorySet {
  /// Each starts where an allocation starts. Of memory of this process, a pause keeps these bytes.
  std::vector<AddressRange> ranges;
  amemMemorySetUser_t user{};
};

/// The client of the tag `symmetric`: memory that all ranks of a group map. Its contents are kept.
///
/// PyTorch's (torch.distributed._symmetric_memory) is recorded by torch_calls.h, NVSHMEM's by
/// nvshmem_calls.h. amem cannot stop the kernels that use it: no rank may use it while a rank is
/// paused.
///
/// Libraries over amem.h, such as libamem_symmetric.so, create sets of such memory, and each call
/// on a set passes enter(). It fails while this process is paused and waits while a peer is that
/// owns memory of the set. So does the launch of a graph into which calls on sets were captured.
///
/// Thread-safe, with the mutex of the PeerTable. The functions of Client are called with the
/// registry's mutex or without; no function takes it with this mutex.
class SymmetricClient final : public Client, public GraphGate {
 public:
  SymmetricClient(Registry& registry, DeviceThreads& devices, PeerTable& peers,
                  long launch_timeout_ms)
      : launch_timeout_ms_(launch_timeout_ms),
        registry_(registry),
        devices_(devices),
        peers_(peers) {}

  // --- Sets

  /// Returns the id of the set, which no other set has later. If an owner of its memory has ended,
  /// `peer_ended` of the user has been called. Errors: misuse, for memory of other tags.
  Result<const void*> create_set(MemorySet set);
  /// The set ends: calls that wait in enter() fail, those inside have left, and the work is
  /// complete that was queued on the devices of its memory. Errors: misuse, for no set; timeout;
  /// driver. After an error the set works as before.
  Status destroy_set(const void* set, Deadline deadline);

  /// Lets a call on a set in; leave() must follow. Waits while a peer is paused that owns memory of
  /// the set. Errors: misuse, for no set, or while this process is paused; peer, after such a peer
  /// has ended or while `failure` of the user has a reason; timeout.
  Status enter(const void* set, long timeout_ms);
  /// Errors: misuse, if no call is inside.
  Status leave(const void* set);
  /// A call on the set enqueues work in this stream, which may be being captured.
  Status note_captured(const Driver& driver, const void* set, DriverStream stream);

  // --- Client

  bool owns(const Tag& tag) const override { return tag == kSymmetricTag; }
  /// Nothing before the process has such memory.
  Tags tags() const override;
  std::vector<Piece> live_ranges(const Allocation& allocation) const override;
  Status quiesce(Deadline deadline) override;
  void reopen() override;
  Status quiesce_for_peer(const Scope&, Deadline deadline) override;
  /// Sets of a peer that has ended fail.
  void reopen_for_peer() override;

  // --- GraphGate; the objects are sets

  Status enter_launch(const char* call, const void* set, bool may_wait) override;
  void leave_launch(const void* set) override { (void)leave(set); }

 private:
  struct Set {
    MemorySet of;
    std::set<InstanceId> owners{};  ///< peers
    std::vector<int> devices{};     ///< of memory of this process
    int calls_inside = 0;
    bool is_ending = false;  ///< no call enters
    std::string ended{};     ///< the peer that has ended; calls fail
  };
  /// Finds the owners, the one that has ended, and the devices. Errors: as create_set().
  Result<Set> look_up(MemorySet memory) AMEM_REQUIRES(registry_.mutex);
  /// A text about a peer of the set that is paused; nullptr if there is none.
  const std::string* paused_peer(const Set& set) const AMEM_REQUIRES(peers_.mutex);
  /// nullptr if there is none.
  Set* find(const void* set) AMEM_REQUIRES(peers_.mutex);
  /// Waits until no call is inside a set for which `predicate` is true. Errors: timeout.
  template <typename Predicate>
  Status wait_for_calls(Deadline deadline, Predicate predicate) AMEM_REQUIRES(peers_.mutex);
  /// Fails the set if a peer has ended that owns memory of it.
  void fail_if_ended(Set& set) AMEM_REQUIRES(peers_.mutex);
  static void fail(Set& set, const std::string& text);

  const long launch_timeout_ms_;
  Registry& registry_;
  DeviceThreads& devices_;
  PeerTable& peers_;
  bool is_paused_ AMEM_GUARDED_BY(peers_.mutex) = false;
  uintptr_t last_id_ AMEM_GUARDED_BY(peers_.mutex) = 0;
  std::map<const void*, Set> sets_ AMEM_GUARDED_BY(peers_.mutex);
};

}  // namespace amem
