// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "amem/symmetric.h"
#include "symmetric/handle.h"

namespace amem::symmetric {

/// Buffers of amemSymmetricMalloc() and handles of amemSymmetricRendezvous(). Buffers, and a
/// workspace for each handle, are memory of the tag `symmetric` with IPC handles. The ranks of a
/// group exchange these handles and open them. Thread-safe.
class SymmetricMemory {
 public:
  using HandlePointer = std::shared_ptr<SymmetricHandle>;

  /// That of this process. Errors: unsupported; misuse, if amem is inactive.
  static Result<SymmetricMemory*> get();

  /// Errors: those of amemMalloc().
  Result<void*> allocate(size_t size_bytes);
  /// Errors: misuse, for any other address, or a buffer that a handle or a rendezvous uses; those
  /// of amemFree().
  Status free(DeviceAddress buffer);

  /// amemSymmetricRendezvous() on the device of the current context. If there is no context, the
  /// other ranks are told.
  Result<amemSymmetric_t> rendezvous(DeviceAddress buffer, const amemGroup_t& group);
  /// amemSymmetricDestroy(). Errors: misuse; timeout: the handle still exists.
  Status destroy(amemSymmetric_t handle);
  /// Errors: misuse, for no handle.
  Result<HandlePointer> find(amemSymmetric_t handle);

  /// Lets a call on a handle in, which may enqueue work in `stream`; leave() must follow. It waits
  /// while a peer of the handle is paused. Errors: misuse, for no handle, or while this process is
  /// paused; that of the handle after it has failed; timeout.
  Result<HandlePointer> enter(amemSymmetric_t handle, amemStream_t stream, long timeout_ms);
  /// After a driver error the handle has failed.
  static void leave(SymmetricHandle& handle, const Status& enqueued);

  Status set_signal_pad_bytes(size_t size_bytes);
  size_t signal_pad_bytes() const { return signal_pad_bytes_; }
  const Driver& driver() const { return driver_; }
  long gate_timeout_ms() const { return gate_timeout_ms_; }

 private:
  struct Announcement;
  struct Outcome;
  struct Buffer {
    size_t size_bytes;
    int device;
    int meetings = 0;  ///< each a rendezvous that runs
  };
  explicit SymmetricMemory(const Driver& driver);

  /// The device of the current context.
  Result<int> current_device() const;
  /// The buffer, for a rendezvous that begins: it cannot be freed before end_meeting(). Errors:
  /// misuse.
  Result<Buffer> begin_meeting(DeviceAddress buffer);
  void end_meeting(DeviceAddress buffer);
  /// Creates what this rank needs before it meets the others.
  Status prepare(SymmetricHandle& handle, DeviceAddress buffer);
  Status make_report(SymmetricHandle& handle);
  Status announce(const SymmetricHandle& handle, Announcement* mine);
  /// Maps the memory of the others.
  Status open_all(SymmetricHandle& handle, const std::vector<Announcement>& all);
  Status write_pointers(const SymmetricHandle& handle);
  Result<DeviceAddress> open(SymmetricHandle& handle, const amemIpcHandle_t& memory, uint32_t rank);
  Status connect(SymmetricHandle& handle, const amemGroup_t& group, Status prepared);
  /// Exchanges whether the ranks have succeeded. Returns the error of this rank, else that of the
  /// first rank that has one.
  static Status agree(const amemGroup_t& group, Status own, Outcome mine,
                      std::vector<Outcome>* all);
  Status connect_multicast(SymmetricHandle& handle, const amemGroup_t& group, size_t size_bytes);
  Status offer_multicast(SymmetricHandle& handle, size_t size_bytes, Outcome* mine);
  Status add_device(SymmetricHandle& handle, const Outcome& of_rank_0, size_t size_bytes);
  Status bind_multicast(SymmetricHandle& handle);
  /// The handle can be found under `id`, and calls enter its set. It fails if it has none.
  void add(amemSymmetric_t id, const HandlePointer& handle);
  Status release(SymmetricHandle& handle);

  const Driver driver_;
  const long timeout_ms_, gate_timeout_ms_;
  const bool multicast_;                   ///< AMEM_MULTICAST
  const std::array<uint64_t, 2> process_;  ///< random, because pids are reused
  KernelSets kernels_;                     // allow: locks itself
  std::atomic<size_t> signal_pad_bytes_{4096};
  Mutex mutex_;
  std::map<DeviceAddress, Buffer> buffers_ AMEM_GUARDED_BY(mutex_);
  uintptr_t last_id_ AMEM_GUARDED_BY(mutex_) = 0;
  std::map<amemSymmetric_t, HandlePointer> handles_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem::symmetric
