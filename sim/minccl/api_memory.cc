// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <memory>

#include "sim/minccl/allocator.h"
#include "sim/minccl/api.h"
#include "sim/minccl/minccl.h"
#include "sim/minccl/settings.h"

namespace amem::minccl {
namespace {

/// What ncclCommRegister() and ncclCommWindowRegister() return. minccl copies through its FIFOs
/// always, so it holds nothing.
struct Registration {
  void* buffer;
  size_t size_bytes;
};

/// What ncclCommWindowRegister() returns. minccl uses no windows, but allocates what NCCL 2.32.3
/// allocates at the first one (rma/rma_ce.cc:48): signals, at their own address and in the window.
struct Window {
  uint64_t* signals = nullptr;
  uint64_t* in_window = nullptr;
};
constexpr uint64_t kSignal = 0x5191a15191a15191;

ncclResult_t make_window(Window* window) {
  if (!settings().cumem) return ncclSuccess;
  void *signals = nullptr, *in_window = nullptr;
  CuMemHandle handle = 0;
  MINCCL_TRY(cumem_alloc(6 * sizeof(uint64_t), &signals, &handle));
  if (const ncclResult_t mapped = cumem_map_in_window(signals, &in_window); mapped != ncclSuccess) {
    cumem_free(signals);
    return mapped;
  }
  *window = {static_cast<uint64_t*>(signals), static_cast<uint64_t*>(in_window)};
  *window->in_window = kSignal;
  return ncclSuccess;
}

ncclResult_t end_window(const Window& window) {
  if (window.signals == nullptr) return ncclSuccess;
  const bool is_kept = *window.signals == kSignal && *window.in_window == kSignal;
  MINCCL_TRY(cumem_unmap_in_window(window.in_window));
  MINCCL_TRY(cumem_free(window.signals));
  return is_kept ? ncclSuccess : fail(ncclInternalError, "the signals of a window were lost");
}

}  // namespace
}  // namespace amem::minccl

using namespace amem::minccl;

MINCCL_API(ncclResult_t, ncclMemAlloc, void** ptr, size_t size_bytes) {
  if (ptr == nullptr || size_bytes == 0)
    return fail(ncclInvalidArgument, "ncclMemAlloc(%p, %zu)", static_cast<void*>(ptr), size_bytes);
  MINCCL_TRY(load_driver());
  return user_alloc(size_bytes, ptr);
}

MINCCL_API(ncclResult_t, ncclMemFree, void* ptr) {
  MINCCL_TRY(load_driver());
  return user_free(ptr);
}

MINCCL_API(ncclResult_t, ncclCommSuspend, ncclComm_t comm, int flags) {
  constexpr int kSuspendMemory = 1;  // NCCL_SUSPEND_MEM, the only flag
  MINCCL_TRY(check_usable(comm));
  if (flags != kSuspendMemory)
    return fail(ncclInvalidArgument, "ncclCommSuspend: the flags are %d", flags);
  return comm->suspend();
}

MINCCL_API(ncclResult_t, ncclCommResume, ncclComm_t comm) {
  MINCCL_TRY(check_usable(comm));
  return comm->resume();
}

MINCCL_API(ncclResult_t, ncclCommRegister, const ncclComm_t comm, void* buffer, size_t size_bytes,
           void** handle) {
  MINCCL_TRY(check_usable(comm));
  if (handle == nullptr) return fail(ncclInvalidArgument, "ncclCommRegister: no handle");
  *handle = std::make_unique<Registration>(Registration{buffer, size_bytes}).release();
  return ncclSuccess;
}

MINCCL_API(ncclResult_t, ncclCommDeregister, const ncclComm_t comm, void* handle) {
  MINCCL_TRY(check_usable(comm));
  const std::unique_ptr<Registration> ended(static_cast<Registration*>(handle));
  return ncclSuccess;
}

MINCCL_API(ncclResult_t, ncclCommWindowRegister, ncclComm_t comm, void* buffer, size_t size_bytes,
           void** window, int) {
  MINCCL_TRY(check_usable(comm));
  if (window == nullptr || buffer == nullptr || size_bytes == 0)
    return fail(ncclInvalidArgument, "ncclCommWindowRegister(%p, %zu)", buffer, size_bytes);
  const ContextScope scope(comm->context());
  auto made = std::make_unique<Window>();
  MINCCL_TRY(make_window(made.get()));
  *window = made.release();
  return ncclSuccess;
}

MINCCL_API(ncclResult_t, ncclCommWindowDeregister, const ncclComm_t comm, void* window) {
  MINCCL_TRY(check_usable(comm));
  const std::unique_ptr<Window> ended(static_cast<Window*>(window));
  const ContextScope scope(comm->context());
  return ended != nullptr ? end_window(*ended) : ncclSuccess;
}

extern "C" __attribute__((visibility("default"))) ncclResult_t mincclFindConnection(
    ncclComm_t comm, int channel, int peer, int index, int end, mincclConnection* connection) {
  MINCCL_TRY(check_usable(comm));
  DeviceConnection* found =
      comm->find_connection({channel, peer, static_cast<ConnectionIndex>(index),
                             end == mincclSendEnd ? Direction::send : Direction::recv});
  if (found == nullptr) return fail(ncclInvalidArgument, "no connection with rank %d", peer);
  auto counter = [](uint64_t* p) { return reinterpret_cast<unsigned long long*>(p); };
  *connection = {counter(&found->step), counter(found->head), counter(found->tail), {}, {}};
  for (int protocol = 0; protocol < kProtocols; ++protocol) {
    connection->fifo[protocol] = found->fifo[protocol];
    connection->slot_bytes[protocol] = found->slot_bytes[protocol];
  }
  return ncclSuccess;
}
