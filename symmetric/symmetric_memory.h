// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>

#include "amem/symmetric.h"
#include "clients/symmetric/symmetric_client.h"
#include "clients/tensors/tensor_client.h"
#include "symmetric/kernel_set.h"

namespace amem {

/// Buffers of amemSymmetricMalloc() and handles of amemSymmetricRendezvous(). Buffers, and a
/// workspace for each handle, are memory of the tag `symmetric` with IPC handles. The ranks of a
/// group exchange these handles and open them. Thread-safe.
class SymmetricMemory {
 public:
  struct Settings {
    long timeout_ms;
    bool multicast;  ///< AMEM_MULTICAST
  };
  SymmetricMemory(const Driver& driver, SymmetricClient& client, TensorClient& memory,
                  Exchange& exchange, DeviceThreads& devices, const InstanceId& self,
                  Settings settings)
      : driver_(driver),
        client_(client),
        memory_(memory),
        exchange_(exchange),
        devices_(devices),
        self_(self),
        settings_(settings),
        kernels_(driver) {
    (void)client_.keep_ended();  // ends at once
  }

  /// Errors: those of TensorClient::create().
  Result<DeviceAddress> allocate(size_t size_bytes, int device);
  /// Errors: misuse, for any other address, or a buffer that a handle or a rendezvous uses; those
  /// of TensorClient::free().
  Status free(DeviceAddress buffer);

  /// amemSymmetricRendezvous() on this device, whose context is current. If there is no device, the
  /// other ranks are told.
  Result<amemSymmetric_t> rendezvous(DeviceAddress buffer, const Result<int>& device,
                                     const amemGroup_t& group);
  /// amemSymmetricDestroy(). Errors: misuse; timeout: the handle still exists.
  Status destroy(const void* handle);

  Status set_signal_pad_bytes(size_t size_bytes);
  size_t signal_pad_bytes() const { return signal_pad_bytes_; }

  SymmetricClient& client() { return client_; }

 private:
  struct Announcement;
  struct Outcome;
  struct Buffer {
    size_t size_bytes;
    int device;
    int meetings = 0;  ///< each a rendezvous that runs
  };
  /// The buffer, for a rendezvous that begins: it cannot be freed before end_meeting(). Errors:
  /// misuse.
  Result<Buffer> begin_meeting(DeviceAddress buffer);
  void end_meeting(DeviceAddress buffer);
  /// Creates what this rank needs before it meets the others.
  Status prepare(SymmetricHandle& handle, DeviceAddress buffer, const Result<int>& device);
  Status announce(const SymmetricHandle& handle, Announcement* mine);
  /// Maps the memory of the others.
  Status open_all(SymmetricHandle& handle, const std::vector<Announcement>& all);
  Status write_pointers(const SymmetricHandle& handle);
  Result<DeviceAddress> open(SymmetricHandle& handle, const IpcHandleBytes& bytes, uint32_t rank);
  Status connect(SymmetricHandle& handle, const amemGroup_t& group, Status prepared);
  /// Exchanges whether the ranks have succeeded. Returns the error of this rank, else that of the
  /// first rank that has one.
  static Status agree(const amemGroup_t& group, Status own, Outcome mine,
                      std::vector<Outcome>* all);
  Status connect_multicast(SymmetricHandle& handle, const amemGroup_t& group, size_t size_bytes);
  Status offer_multicast(SymmetricHandle& handle, size_t size_bytes, Outcome* mine);
  Status add_device(SymmetricHandle& handle, const Outcome& of_rank_0, size_t size_bytes);
  Status bind_multicast(SymmetricHandle& handle);
  Status release(SymmetricHandle& handle);

  const Driver& driver_;
  SymmetricClient& client_;
  TensorClient& memory_;
  Exchange& exchange_;
  DeviceThreads& devices_;
  const InstanceId self_;
  const Settings settings_;
  KernelSets kernels_;  // allow: locks itself
  std::atomic<size_t> signal_pad_bytes_{4096};
  Mutex mutex_;
  std::map<DeviceAddress, Buffer> buffers_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
