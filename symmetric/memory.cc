// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "symmetric/memory.h"

#include <sys/random.h>

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "symmetric/launch_shapes.h"

namespace amem::symmetric {

namespace layout = detail;

namespace {

constexpr const char* kTag = "symmetric";

Error no_buffer(DeviceAddress address) {
  return make_error(ErrorKind::misuse, 0,
                    "0x%" PRIx64 " is not the start of a buffer of amemSymmetricMalloc()", address);
}

Error no_handle() {
  return make_error(ErrorKind::misuse, 0,
                    "this is not a handle of amemSymmetricRendezvous(), or it was destroyed");
}

std::array<uint64_t, 2> random_id() {
  std::array<uint64_t, 2> id{};
  (void)!getrandom(id.data(), sizeof id, 0);  // cannot fail once the system has booted
  return id;
}

/// The setting, which amem has.
long setting(const char* name) {
  int64_t value = 0;
  (void)amemGetSetting(name, &value);
  return value;
}

}  // namespace

Result<SymmetricMemory*> SymmetricMemory::get() {
  // In a forked child, amem is inactive and the locks here may be held.
  int64_t ignored = 0;
  AMEM_TRY(amem_status(amemGetSetting("AMEM_ENABLE", &ignored)));
  // Never destroyed: handlers of exit() may call.
  static const auto* const driver = new Result<Driver>(load_driver());
  if (!driver->ok()) return Error(driver->error());
  static SymmetricMemory* const memory = new SymmetricMemory(driver->value());
  return memory;
}

SymmetricMemory::SymmetricMemory(const Driver& driver)
    : driver_(driver),
      timeout_ms_(setting("AMEM_TIMEOUT_MS")),
      gate_timeout_ms_(setting("AMEM_GATE_TIMEOUT_MS")),
      multicast_(setting("AMEM_MULTICAST") != 0),
      process_(random_id()),
      kernels_(driver_) {}

Result<int> SymmetricMemory::current_device() const {
  int device = 0;
  AMEM_TRY(driver_status(driver_, driver_.cuCtxGetDevice(&device),
                         "cuCtxGetDevice() (no CUDA context is current: call cudaFree(0) first)"));
  return device;
}

// --- Buffers

Result<void*> SymmetricMemory::allocate(size_t size_bytes) {
  const int device = AMEM_TRY(current_device());
  void* buffer = nullptr;
  AMEM_TRY(amem_status(amemMalloc(&buffer, size_bytes, kTag, amemKindKeep)));
  MutexLock lock(mutex_);
  buffers_[reinterpret_cast<DeviceAddress>(buffer)] = {size_bytes, device};
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
    const auto uses = [&](const auto& entry) { return entry.second->buffer == buffer; };
    if (found->second.meetings > 0 || std::any_of(handles_.begin(), handles_.end(), uses))
      return make_error(ErrorKind::misuse, 0, "a handle uses the buffer: destroy the handle first");
    known = found->second;
    buffers_.erase(found);  // no rendezvous begins
  }
  Status freed = amem_status(amemFree(reinterpret_cast<void*>(buffer)));
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

// --- Handles

Result<SymmetricMemory::HandlePointer> SymmetricMemory::find(amemSymmetric_t handle) {
  MutexLock lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return no_handle();
  return found->second;
}

Result<SymmetricMemory::HandlePointer> SymmetricMemory::enter(amemSymmetric_t handle,
                                                              amemStream_t stream,
                                                              long timeout_ms) {
  HandlePointer found = AMEM_TRY(find(handle));
  const auto limit_ms = static_cast<uint64_t>(timeout_ms);
  Status entered = amem_status(amemEnterMemorySet(found->set, stream, limit_ms));
  if (entered.ok()) return found;
  AMEM_TRY(found->failure.status());  // its own words
  return std::move(entered.error());
}

void SymmetricMemory::leave(SymmetricHandle& handle, const Status& enqueued) {
  // It may have enqueued a part of its work: the kernels of the next call would meet the wrong ones
  // of its peers.
  if (!enqueued.ok() && enqueued.error().kind == ErrorKind::driver)
    handle.failure.set(
        make_error(ErrorKind::driver, enqueued.error().code,
                   "an earlier call on the handle has failed (%s); it can only be destroyed",
                   enqueued.error().message.c_str()),
        false);
  (void)amemLeaveMemorySet(handle.set);
}

// The workspace, but for its scratch memory, is zero before any peer knows its address.
Status SymmetricMemory::prepare(SymmetricHandle& handle, DeviceAddress buffer) {
  const int device = AMEM_TRY(current_device());
  if (amemGetTagState(kTag) != amemActive)
    return make_error(ErrorKind::misuse, 0,
                      "symmetric memory of this process is paused; call amemResume() first");
  const Buffer known = AMEM_TRY(begin_meeting(buffer));
  handle.buffer = buffer;
  if (known.device != device)
    return make_error(ErrorKind::misuse, 0,
                      "the buffer is on device %d, and the current context on device %d",
                      known.device, device);
  handle.device = device;
  handle.view.buffer_bytes = known.size_bytes;
  handle.kernels = AMEM_TRY(kernels_.for_current_context());

  handle.scratch_bytes = scratch_bytes_of(handle.view.buffer_bytes, handle.world_size());
  const size_t scratch_offset = layout::scratch_offset(handle.world_size());
  void* workspace = nullptr;
  AMEM_TRY(amem_status(
      amemMalloc(&workspace, scratch_offset + handle.scratch_bytes, kTag, amemKindKeep)));
  handle.workspace = reinterpret_cast<DeviceAddress>(workspace);
  OwnStream stream(driver_);
  AMEM_TRY(stream.zero(handle.workspace, scratch_offset));
  AMEM_TRY(stream.wait(timeout_ms_));
  return make_report(handle);
}

Status SymmetricMemory::make_report(SymmetricHandle& handle) {
  constexpr unsigned kPortableAndMapped = 1 | 2;  // CU_MEMHOSTALLOC_PORTABLE and _DEVICEMAP
  void* report = nullptr;
  AMEM_TRY(driver_status(
      driver_, driver_.cuMemHostAlloc(&report, sizeof(layout::Report), kPortableAndMapped),
      "cuMemHostAlloc()"));
  *static_cast<layout::Report*>(report) = {};
  (void)handle.failure.exchange_report(static_cast<layout::Report*>(report));
  DeviceAddress report_on_device = 0;
  AMEM_TRY(driver_status(driver_,
                         driver_.cuMemHostGetDevicePointer_v2(&report_on_device, report, 0),
                         "cuMemHostGetDevicePointer()"));
  handle.view.report = reinterpret_cast<void*>(report_on_device);
  return ok_status();
}

Result<amemSymmetric_t> SymmetricMemory::rendezvous(DeviceAddress buffer,
                                                    const amemGroup_t& group) {
  if (group.world_size < 1 || group.world_size > AMEM_SYMMETRIC_MAX_RANKS || group.rank < 0 ||
      group.rank >= group.world_size || group.all_gather == nullptr)
    return make_error(ErrorKind::misuse, 0,
                      "the group has rank %d of %d: 1 to %d ranks and a function are necessary",
                      group.rank, group.world_size, AMEM_SYMMETRIC_MAX_RANKS);
  const auto handle = std::make_shared<SymmetricHandle>();
  handle->view.rank = static_cast<uint32_t>(group.rank);
  handle->view.world_size = static_cast<uint32_t>(group.world_size);
  handle->signal_pad_bytes = signal_pad_bytes_;
  // A rank that fails before it meets the others tells them.
  Status connected = connect(*handle, group, prepare(*handle, buffer));
  amemSymmetric_t id = nullptr;
  if (connected.ok()) {
    {
      MutexLock lock(mutex_);
      id = reinterpret_cast<amemSymmetric_t>(++last_id_);
    }
    add(id, handle);
  } else {
    (void)release(*handle);
  }
  if (handle->buffer != 0) end_meeting(buffer);
  AMEM_TRY(std::move(connected));
  return id;
}

void SymmetricMemory::add(amemSymmetric_t id, const HandlePointer& handle) {
  const size_t kept_bytes = layout::scratch_offset(handle->world_size());
  std::vector<amemRange_t> ranges{
      {reinterpret_cast<void*>(handle->buffer), handle->view.buffer_bytes},
      {reinterpret_cast<void*>(handle->workspace), kept_bytes}};
  for (void* const memory : handle->opened) ranges.push_back({memory, 1});
  const amemMemorySetUser_t user{
      [](void* context, const char* text) {
        static_cast<HandleFailure*>(context)->set(
            make_error(ErrorKind::peer, 0, "a rank of the group, %s", text), true);
      },
      [](void* context) { return static_cast<HandleFailure*>(context)->text(); }, &handle->failure};
  amemMemorySet_t set = nullptr;
  Status created = amem_status(amemCreateMemorySet(&set, ranges.data(), ranges.size(), &user));
  if (!created.ok()) handle->failure.set(std::move(created.error()), true);
  handle->set = set;
  MutexLock lock(mutex_);
  handles_[id] = handle;
}

Status SymmetricMemory::destroy(amemSymmetric_t id) {
  const HandlePointer handle = AMEM_TRY(find(id));
  AMEM_TRY(amem_status(amemDestroyMemorySet(handle->set)));
  {
    MutexLock lock(mutex_);
    handles_.erase(id);
  }
  Status released = release(*handle);
  if (!released.ok()) {
    handle->failure.set(
        make_error(ErrorKind::misuse, 0, "an earlier destroy has failed (%s); destroy it again",
                   released.error().message.c_str()),
        false);
    add(id, handle);
  }
  return released;
}

// In an order in which a repetition continues where it failed. No work uses the handle.
Status SymmetricMemory::release(SymmetricHandle& handle) {
  AMEM_TRY(handle.multicast.release(driver_));
  while (!handle.opened.empty()) {
    AMEM_TRY(amem_status(amemIpcCloseHandle(handle.opened.back())));
    handle.opened.pop_back();
  }
  AMEM_TRY(amem_status(amemFree(reinterpret_cast<void*>(handle.workspace))));
  handle.workspace = 0;
  layout::Report* const report = handle.failure.exchange_report(nullptr);
  if (report == nullptr) return ok_status();
  Status freed = driver_status(driver_, driver_.cuMemFreeHost(report), "cuMemFreeHost()");
  if (!freed.ok()) (void)handle.failure.exchange_report(report);
  return freed;
}

}  // namespace amem::symmetric
