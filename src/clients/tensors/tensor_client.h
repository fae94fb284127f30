// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "contents/copier.h"
#include "driver/device_threads.h"
#include "memory/client.h"
#include "memory/mapped_memory.h"
#include "sharing/shared_handles.h"

namespace amem {

/// Memory that an application allocates with a tag, for example its weights or its KV cache. This
/// client owns every valid tag that is not reserved. It cannot stop the work that uses the memory:
/// the application must do so. The engine waits for work that is queued on the devices.
///
/// Thread-safe.
class TensorClient final : public Client {
 public:
  TensorClient(SharedHandles& handles, DeviceThreads& devices, long timeout_ms)
      : Client(PeerGate::none),
        handles_(handles),
        registry_(handles.memory().registry()),
        devices_(devices),
        timeout_ms_(timeout_ms),
        memory_(handles.memory()) {}

  /// Allocates memory on this device, with its own backing and addresses, readable and writable on
  /// the device. The size is rounded up to pages of the driver (2 MiB). `kind` is keep or discard.
  /// Errors: misuse, for size 0, or for a tag that is reserved, except `symmetric`, or malformed;
  /// driver.
  Result<DeviceAddress> allocate(size_t size_bytes, int device, const Tag& tag, Kind kind);
  /// The same on the device of the calling thread's current context.
  Result<DeviceAddress> allocate(size_t size_bytes, const Tag& tag, Kind kind);

  /// An error unless an application can use this tag: misuse, for a tag that is reserved or
  /// malformed.
  Status check_tag(const Tag& tag) const;

  /// True if allocate() returned this address and free() has not been called. Takes no
  /// lock in a process that has never called allocate().
  bool has(DeviceAddress address);

  /// True if the address is in such memory. As has().
  bool contains(DeviceAddress address);

  /// cudaDeviceEnablePeerAccess(owner) on the current device: from now on, it can access all memory
  /// of allocate() on device `owner`, also after a resume. Errors: driver.
  Status enable_peer_access(int owner);
  /// The same for the device of a context.
  Status enable_peer_access(DriverContext owner);

  /// Contents in these ranges of memory of allocate() are not needed: a pause does not keep them.
  /// Replaces earlier ranges; none starts the search for them. free() ends their validity, and
  /// that of ranges that are passed before the next start.
  void set_unused(std::vector<AddressRange> ranges);

  /// Allocations fail with CUDA_ERROR_OUT_OF_MEMORY if they would leave less memory free on the
  /// device.
  void set_margin(size_t bytes) { memory_.set_margin(bytes); }

  /// The tag of the memory at this address if it is released now.
  std::optional<Tag> released_tag(DeviceAddress address);
  /// Tags with released memory, for messages: "weights (2 allocations, 8 MiB)".
  std::string released_text();

  /// The saved contents of memory that is released and kept, or retained. Errors: misuse, if
  /// [address, address + size_bytes) is not such memory of one allocation; os, from reading a file.
  Status read_saved(DeviceAddress address, size_t size_bytes, void* to);
  /// The same where they are, until the memory is resumed or freed. Errors: misuse, also if they
  /// are not contiguous in host memory: pages that are all zero are not saved.
  Result<const void*> saved(DeviceAddress address, size_t size_bytes);

  /// A handle with which another process with amem can open the allocation that contains `address`;
  /// nothing if the address is not in memory of allocate(). Errors: those of Exchange.
  Result<std::optional<IpcHandleBytes>> export_handle(DeviceAddress address);
  /// Maps the memory of such a handle, readable and writable on this device. The address is the
  /// same for each call with the handle, until close() was called as often. While the owner has
  /// paused the tag, nothing is mapped there. Nothing for a handle of CUDA. Errors: driver.
  std::optional<Result<DeviceAddress>> open(const IpcHandleBytes& handle, int device);
  /// The same on the device of the calling thread's current context. Errors: also misuse, for a
  /// handle of CUDA.
  Result<DeviceAddress> open(const IpcHandleBytes& handle);
  /// The opposite; waits for the work of the device. Nothing for any other address. Errors:
  /// timeout; driver. After an error it can be repeated.
  std::optional<Status> close(DeviceAddress address);

  /// The memory of allocate() that contains this address is never released from now on, for this
  /// reason. Errors: misuse, for any other address or while the memory is released.
  Status make_persistent(DeviceAddress address, const char* because);

  /// Waits for the work of the device, then frees memory of allocate(), resident or released.
  /// Errors: misuse, for any other address; timeout; driver. After an error it can be repeated.
  Status free(DeviceAddress address);

  // Client.
  bool owns(const Tag& tag) const override;
  Tags tags() const override;
  std::vector<Piece> live_ranges(const Allocation& allocation) const override;

 private:
  /// The allocation of allocate() whose mapping contains `address`; nullptr if there is none.
  const Allocation* find_around(DeviceAddress address) const AMEM_REQUIRES(registry_.mutex);
  /// The same if it starts there.
  const Allocation* find(DeviceAddress address) const AMEM_REQUIRES(registry_.mutex);
  /// The device itself and those with enable_peer_access().
  std::vector<Access> access_to(int device) const AMEM_REQUIRES(registry_.mutex);
  struct Saved {
    HostBlock block;                ///< keeps the ranges
    std::vector<CopyRange> ranges;  ///< in the order of offsets; without an address if in the file
    FilePart file;                  ///< with all ranges, one after another, or none
    size_t offset_bytes;            ///< of the address in the backing
  };
  Result<Saved> find_saved(DeviceAddress address, size_t size_bytes) AMEM_REQUIRES(registry_.mutex);

  SharedHandles& handles_;
  Registry& registry_;
  DeviceThreads& devices_;
  const long timeout_ms_;
  MappedMemory memory_;  // allow: its functions require the mutex of the registry
  std::set<std::pair<int, int>> peers_ AMEM_GUARDED_BY(registry_.mutex);  ///< owner, accessor
  std::set<AllocationId> created_ AMEM_GUARDED_BY(registry_.mutex);
  struct Opened {
    AllocationId allocation = 0;
    int device = 0;
    int count = 0;
  };
  std::map<DeviceAddress, Opened> opened_ AMEM_GUARDED_BY(registry_.mutex);
  mutable Mutex unused_mutex_;  ///< taken after the registry's
  std::vector<AddressRange> unused_ AMEM_GUARDED_BY(unused_mutex_);
  bool unused_is_valid_ AMEM_GUARDED_BY(unused_mutex_) = false;
  std::atomic<bool> was_used_{false};
};

}  // namespace amem
