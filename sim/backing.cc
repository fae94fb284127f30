// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/backing.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <vector>

#include "sim/descriptor.h"
#include "sim/fabric.h"
#include "sim/machine.h"
#include "sim/multicast.h"

namespace amem::sim {
namespace {

bool on_host(const CuLocation& location) {
  return location.type == kLocationHost || location.type == kLocationHostNuma ||
         location.type == kLocationHostNumaCurrent;
}

constexpr int kKnownHandleTypes = kHandleTypePosixFd | kHandleTypeFabric;

constinit std::atomic<uint32_t> g_leftover = 0;

/// Fills new memory, which is whole granules, with what another program left there.
bool fill(int fd, uint64_t offset_bytes, uint64_t size_bytes, uint32_t word) {
  const std::vector<uint32_t> granule(kGranularityBytes / sizeof word, word);
  for (uint64_t done = 0; done < size_bytes; done += kGranularityBytes) {
    const auto at = static_cast<off_t>(offset_bytes + done);
    if (pwrite(fd, granule.data(), kGranularityBytes, at) !=
        static_cast<ssize_t>(kGranularityBytes))
      return false;
  }
  return true;
}

/// Copies whole granules; those that are zero stay holes.
bool copy_granules(int from, uint64_t from_bytes, int to, uint64_t to_bytes, uint64_t size_bytes) {
  const std::vector<char> zeros(kGranularityBytes);
  std::vector<char> granule(kGranularityBytes);
  for (uint64_t done = 0; done < size_bytes; done += kGranularityBytes) {
    const auto got = pread(from, granule.data(), granule.size(), off_t(from_bytes + done));
    if (got != ssize_t(granule.size())) return false;
    if (granule != zeros &&
        pwrite(to, granule.data(), granule.size(), off_t(to_bytes + done)) != got)
      return false;
  }
  return true;
}

}  // namespace

CuResult Backing::save() {
  const UniqueFd created(memfd_create("amem-sim-checkpoint", MFD_CLOEXEC));
  UniqueFd copy = keep_copy(created.get());
  if (!copy.valid() || ftruncate(copy.get(), off_t(size_bytes_)) != 0 ||
      !copy_granules(fd(), file_offset_bytes_, copy.get(), 0, size_bytes_))
    return kErrorOperatingSystem;
  saved_ = std::move(copy);
  description_.reset();
  const Pool& pool = Machine::joined()->device(properties_.location.id);
  return pool.is_free(file_offset_bytes_, size_bytes_) ? kSuccess : kErrorNotSupported;
}

CuResult Backing::restore() {
  if (!saved_.valid()) return kSuccess;
  Pool& pool = Machine::joined()->device(properties_.location.id);
  const CuResult allocated = pool.allocate(size_bytes_, properties_.gpu_direct_rdma_capable != 0,
                                           &description_, &file_offset_bytes_);
  if (allocated != kSuccess) return allocated;
  if (!copy_granules(saved_.get(), 0, fd(), file_offset_bytes_, size_bytes_))
    return kErrorOperatingSystem;
  saved_.reset();
  was_restored_ = true;
  return kSuccess;
}

bool location_exists(const CuLocation& location) {
  if (on_host(location)) return location.type != kLocationHostNuma || location.id >= 0;
  return location.type == kLocationDevice && location.id >= 0 &&
         location.id < Machine::joined()->device_count();
}

CuResult create_physical_memory(uint64_t size_bytes, const CuAllocationProp& properties,
                                BackingRef* backing) {
  if (properties.type != kAllocationPinned) return kErrorInvalidValue;
  if ((properties.requested_handle_types & ~kKnownHandleTypes) != 0) return kErrorInvalidValue;
  // Machines without the IMEX service answer so to fabric handles.
  if ((properties.requested_handle_types & kHandleTypeFabric) != 0 && !has_imex_channel())
    return kErrorNotPermitted;
  if (!location_exists(properties.location)) {
    return properties.location.type == kLocationDevice ? kErrorInvalidDevice : kErrorInvalidValue;
  }
  if (size_bytes == 0 || size_bytes % kGranularityBytes != 0) return kErrorInvalidValue;
  Machine& machine = *Machine::joined();
  Pool& pool =
      on_host(properties.location) ? machine.host() : machine.device(properties.location.id);
  UniqueFd description;
  uint64_t offset_bytes = 0;
  const CuResult allocated = pool.allocate(size_bytes, properties.gpu_direct_rdma_capable != 0,
                                           &description, &offset_bytes);
  if (allocated != kSuccess) return allocated;
  const uint32_t leftover = g_leftover;
  if (leftover != 0 && !fill(description.get(), offset_bytes, size_bytes, leftover))
    return kErrorOperatingSystem;
  *backing =
      std::make_shared<Backing>(std::move(description), offset_bytes, size_bytes, properties);
  return kSuccess;
}

void set_leftover(uint32_t word) { g_leftover = word; }

CuResult import_backing(int fd, BackingRef* backing) {
  const auto found = Machine::joined()->find(fd);
  // The driver's answer to the descriptor of something else, and to a number that is none
  // (measured, driver 580).
  if (!found) return import_multicast(fd, backing) ? kSuccess : kErrorUnknown;
  UniqueFd description = keep_copy(fd);
  if (!description.valid()) return kErrorOperatingSystem;
  CuAllocationProp properties = {};
  properties.type = kAllocationPinned;
  properties.requested_handle_types = kHandleTypePosixFd;
  properties.location = found->location;
  properties.gpu_direct_rdma_capable = found->range.gpu_direct_rdma_capable ? 1 : 0;
  *backing = std::make_shared<Backing>(std::move(description), found->range.offset_bytes,
                                       found->range.size_bytes, properties);
  return kSuccess;
}

CuResult export_backing(const Backing& backing, UniqueFd* fd) {
  *fd = UniqueFd(fcntl(backing.fd(), F_DUPFD_CLOEXEC, 0));
  return fd->valid() ? kSuccess : kErrorOperatingSystem;
}

}  // namespace amem::sim
