// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "symmetric/symmetric_memory.h"

#include <cinttypes>

#include "symmetric/launch_shapes.h"

namespace amem {

namespace layout = symmetric::detail;

namespace {

Error no_buffer(DeviceAddress address) {
  return make_error(ErrorKind::misuse, 0,
                    "0x%" PRIx64 " is not the start of a buffer of amemSymmetricMalloc()", address);
}

}  // namespace

Result<DeviceAddress> SymmetricMemory::allocate(size_t size_bytes, int device) {
  const DeviceAddress buffer =
      AMEM_TRY(memory_.create(size_bytes, device, kSymmetricTag, Kind::keep));
  MutexLock lock(mutex_);
  buffers_[buffer] = {size_bytes, device};
  return buffer;
}

Result<SymmetricMemory::Buffer> SymmetricMemory::begin_meeting(DeviceAddress buffer) {
  MutexLock lock(mutex_);
  const auto found = buffers_.find(buffer);
  if (found == buffers_.end()) return no_buffer(buffer);
  ++found->second.meetings;
  return found->second;
}

void SymmetricMemory::end_meeting(DeviceAddress buffer) {
  MutexLock lock(mutex_);
  --buffers_.at(buffer).meetings;
}

Status SymmetricMemory::free(DeviceAddress buffer) {
  Buffer known;
  {
    MutexLock lock(mutex_);
    const auto found = buffers_.find(buffer);
    if (found == buffers_.end()) return no_buffer(buffer);
    if (found->second.meetings > 0 || client_.is_in_use(buffer))
      return make_error(ErrorKind::misuse, 0, "a handle uses the buffer: destroy the handle first");
    known = found->second;
    buffers_.erase(found);  // no rendezvous begins
  }
  Status freed = memory_.free(buffer);
  if (freed.ok()) return freed;
  MutexLock lock(mutex_);
  buffers_[buffer] = known;
  return freed;
}

Status SymmetricMemory::set_signal_pad_bytes(size_t size_bytes) {
  if (size_bytes == 0 || size_bytes % 16 != 0 || size_bytes > layout::kMaxSignalPadBytes)
    return make_error(ErrorKind::misuse, 0,
                      "%zu bytes: the size of a signal pad is a multiple of 16, up to %zu",
                      size_bytes, layout::kMaxSignalPadBytes);
  signal_pad_bytes_ = size_bytes;
  return ok_status();
}

// The workspace, but for its scratch memory, is zero before any peer knows its address.
Status SymmetricMemory::prepare(SymmetricHandle& handle, DeviceAddress buffer,
                                const Result<int>& on_device) {
  const int device = AMEM_TRY(on_device);
  AMEM_TRY(client_.check_open());
  const Buffer known = AMEM_TRY(begin_meeting(buffer));
  handle.buffer = buffer;
  if (known.device != device)
    return make_error(ErrorKind::misuse, 0,
                      "the buffer is on device %d, and the current context on device %d",
                      known.device, device);
  handle.device = device;
  handle.view.buffer_bytes = known.size_bytes;
  handle.kernels = AMEM_TRY(kernels_.for_current_context());

  handle.scratch_bytes = symmetric::scratch_bytes_of(handle.view.buffer_bytes, handle.world_size());
  const size_t scratch_offset = layout::scratch_offset(handle.world_size());
  handle.workspace = AMEM_TRY(
      memory_.create(scratch_offset + handle.scratch_bytes, device, kSymmetricTag, Kind::keep));
  AMEM_TRY(devices_.zero(device, handle.workspace, scratch_offset,
                         Deadline::after_ms(settings_.timeout_ms)));

  constexpr unsigned kPortableAndMapped = 1 | 2;  // CU_MEMHOSTALLOC_PORTABLE and _DEVICEMAP
  void* report = nullptr;
  AMEM_TRY(driver_status(driver_,
                         driver_.cuMemHostAlloc(&report, sizeof *handle.report, kPortableAndMapped),
                         "cuMemHostAlloc()"));
  handle.report = static_cast<layout::Report*>(report);
  *handle.report = {};
  DeviceAddress report_on_device = 0;
  AMEM_TRY(driver_status(driver_,
                         driver_.cuMemHostGetDevicePointer_v2(&report_on_device, report, 0),
                         "cuMemHostGetDevicePointer()"));
  handle.view.report = reinterpret_cast<void*>(report_on_device);
  return ok_status();
}

Result<amemSymmetric_t> SymmetricMemory::rendezvous(DeviceAddress buffer, const Result<int>& device,
                                                    const amemGroup_t& group) {
  if (group.world_size < 1 || group.world_size > AMEM_SYMMETRIC_MAX_RANKS || group.rank < 0 ||
      group.rank >= group.world_size || group.all_gather == nullptr)
    return make_error(ErrorKind::misuse, 0,
                      "the group has rank %d of %d: 1 to %d ranks and a function are necessary",
                      group.rank, group.world_size, AMEM_SYMMETRIC_MAX_RANKS);
  const auto kept = client_.keep_ended();
  auto handle = std::make_unique<SymmetricHandle>();
  handle->view.rank = static_cast<uint32_t>(group.rank);
  handle->view.world_size = static_cast<uint32_t>(group.world_size);
  handle->signal_pad_bytes = signal_pad_bytes_;
  // A rank that fails before it meets the others tells them.
  Status connected = connect(*handle, group, prepare(*handle, buffer, device));
  const bool has_met = handle->buffer != 0;
  const void* opaque = nullptr;
  if (connected.ok())
    opaque = client_.add(std::move(handle));
  else
    (void)release(*handle);
  if (has_met) end_meeting(buffer);
  AMEM_TRY(std::move(connected));
  return reinterpret_cast<amemSymmetric_t>(const_cast<void*>(opaque));
}

Status SymmetricMemory::destroy(const void* opaque) {
  const auto kept = client_.keep_ended();
  std::unique_ptr<SymmetricHandle> handle =
      AMEM_TRY(client_.take(opaque, Deadline::after_ms(settings_.timeout_ms)));
  Status released = release(*handle);
  if (!released.ok()) client_.add(std::move(handle));
  return released;
}

// In an order in which a repetition continues where it failed.
Status SymmetricMemory::release(SymmetricHandle& handle) {
  AMEM_TRY(devices_.drain({handle.device}, Deadline::after_ms(settings_.timeout_ms)));
  AMEM_TRY(handle.multicast.release(driver_));
  while (!handle.opened.empty()) {
    if (std::optional<Status> closed = memory_.close(handle.opened.back());
        closed.has_value() && !closed->ok())
      return std::move(*closed);
    handle.opened.pop_back();
  }
  if (handle.workspace != 0) AMEM_TRY(memory_.free(handle.workspace));
  handle.workspace = 0;
  if (handle.report != nullptr)
    AMEM_TRY(driver_status(driver_, driver_.cuMemFreeHost(handle.report), "cuMemFreeHost()"));
  handle.report = nullptr;
  return ok_status();
}

}  // namespace amem
