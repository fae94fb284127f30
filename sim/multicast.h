// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "sim/backing.h"

/// Multicast objects. What is simulated, and no more:
///  - lifetime: an object is a memfd, exported by descriptor like memory; it ends with its last
///    handle, mapping and descriptor in any process;
///  - blocking: binding memory to it and mapping it wait until all its devices were added, by
///    whichever process (CUDA Driver API, "Multicast Object Management");
///  - bookkeeping of binds: what is bound where, no overlap in a process, unbind names exactly what
///    was bound;
///  - a bind holds a reference to the memory, until it is unbound or this process has neither a
///    handle nor a mapping of the object any more;
///  - capacity: an object has whole pages of 512 MiB, and takes binds and mappings beyond the size
///    that was asked for (driver r615; ai-dynamo/snapshot#133);
///  - slots: a switch has 128 for objects to which memory is bound, after which a bind fails with
///    CUDA_ERROR_OUT_OF_MEMORY (NVIDIA/nccl#2077). AMEM_SIM_MULTICAST_SLOTS is another number;
///  - multimem instructions of the kernels that the simulated GPU knows: they reach the memory that
///    any process has bound at the address (bound_at()).
/// Other stores to a multicast address land in the object's own pages, which all who map it share,
/// and other loads read these: on a GPU their effect is undefined (PTX ISA, "multimem"). The binds
/// of a process that was killed remain in the object, and do not hold the memory.
namespace amem::sim {

/// Memory that a process has bound, for the others.
struct SharedBind {
  enum : uint32_t { kFree, kChanging, kBound };
  std::atomic<uint32_t> state;
  CuDevice device;
  uint64_t offset_bytes;  ///< in the object
  uint64_t size_bytes;
  uint64_t pool_offset_bytes;  ///< in the device's memory
};

/// The start of the object's memfd.
struct MulticastHeader {
  uint64_t magic;
  uint32_t device_count;             ///< number of devices that must be added before use
  std::atomic<uint32_t> added;       ///< number of added devices; waited for with futex(2)
  std::atomic<uint32_t> added_mask;  ///< the added devices
  std::atomic<uint32_t> slot;        ///< the last one that it had in the switch
  uint64_t size_bytes;
  uint64_t handle_types;
  std::array<SharedBind, 64> binds;
};

class Multicast final : public Backing {
 public:
  Multicast(UniqueFd memfd, MulticastHeader* header, const CuAllocationProp& properties);
  ~Multicast() override;

  CuResult add_device(CuDevice device);
  void wait_until_mappable() const override;
  bool is_mappable_in_part() const override { return true; }

  /// Waits until all devices were added.
  CuResult bind(CuDevice device, uint64_t offset_bytes, uint64_t size_bytes,
                const BackingRef& memory, uint64_t memory_offset_bytes);
  CuResult unbind(CuDevice device, uint64_t offset_bytes, uint64_t size_bytes);

  /// The memory of each device that is bound at this offset, for `size_bytes` bytes.
  std::vector<unsigned char*> bound_at(uint64_t offset_bytes, uint64_t size_bytes) const;

 private:
  bool take_slot();

  struct Bind {
    CuDevice device;
    uint64_t offset_bytes;
    uint64_t size_bytes;
    BackingRef memory;
    SharedBind* shared;
  };
  MulticastHeader* header_;
  std::mutex mutex_;
  std::vector<Bind> binds_;
  /// While this process has bound memory: locks of the object and of its slot in the machine.
  UniqueFd has_slot_, slot_;
};

CuResult create_multicast(const CuMulticastProp& properties, BackingRef* object);

/// Multicast::bound_at() for an address of this process that is readable and writable; nothing if
/// it is not in a mapped multicast object.
std::vector<unsigned char*> bound_at_address(CuDevicePtr address, uint64_t size_bytes);

/// False if the descriptor is not one of a multicast object.
bool import_multicast(int fd, BackingRef* object);

}  // namespace amem::sim
