// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <memory>

#include "sim/minccl/allocator.h"
#include "sim/minccl/api.h"
#include "sim/minccl/minccl.h"

namespace amem::minccl {
namespace {

/// What ncclCommRegister() and ncclCommWindowRegister() return. minccl copies through its FIFOs
/// always, so it holds nothing.
struct Registration {
  void* buffer;
  size_t size_bytes;
};

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
  return ncclCommRegister(comm, buffer, size_bytes, window);
}

MINCCL_API(ncclResult_t, ncclCommWindowDeregister, const ncclComm_t comm, void* window) {
  return ncclCommDeregister(comm, window);
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
