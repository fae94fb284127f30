// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/tensors/tagged_calls.h"

#include "base/active.h"
#include "base/last_error.h"
#include "clients/tensors/tensor_client.h"

namespace amem {
namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kPeerAccessAlreadyEnabled = 704,
              kUnknown = 999;

int result_of(const char* call, const Error& error) {
  // Of a lack of memory no line in the log: the caller may free memory and try again; PyTorch does.
  const bool is_lack = error.kind == ErrorKind::driver && error.code == kOutOfMemory;
  (is_lack ? set_last_error : keep_last_error)(call, error);
  if (error.kind == ErrorKind::misuse) return kInvalidValue;
  return error.kind == ErrorKind::driver ? error.code : kUnknown;
}

int result_of(const char* call, Result<DeviceAddress> made, DeviceAddress* address) {
  if (!made.ok()) return result_of(call, made.error());
  *address = made.value();
  return kSuccess;
}

}  // namespace

std::optional<Region> tagged_region(std::optional<Region> (*find)()) {
  if (active<TensorClient>() == nullptr) return std::nullopt;
  std::optional<Region> region = find();
  if (!region.has_value() || region->tag.empty()) return std::nullopt;
  return region;
}

int allocate_in(const Region& region, const char* call, DeviceAddress* address, size_t size_bytes) {
  return result_of(call, active<TensorClient>()->allocate(size_bytes, region.tag, region.kind),
                   address);
}

std::optional<int> free_tagged(const char* call, DeviceAddress address) {
  TensorClient* const client = address != 0 ? active<TensorClient>() : nullptr;
  if (client == nullptr || !client->has(address)) return std::nullopt;
  for (;;) {
    const Status freed = client->free(address);
    if (freed.ok()) return kSuccess;
    // exit() has begun: the memory ends with the process.
    if (freed.error().kind == ErrorKind::misuse) return kSuccess;
    if (freed.error().kind != ErrorKind::timeout) return result_of(call, freed.error());
  }
}

std::optional<int> export_tagged(const char* call, IpcHandleBytes* handle, DeviceAddress address) {
  TensorClient* const client = handle != nullptr ? active<TensorClient>() : nullptr;
  if (client == nullptr) return std::nullopt;
  const Result<std::optional<IpcHandleBytes>> exported = client->export_handle(address);
  if (!exported.ok()) return result_of(call, exported.error());
  if (!exported.value().has_value()) return std::nullopt;
  *handle = *exported.value();
  return kSuccess;
}

bool is_exported(const IpcHandleBytes& handle) { return decode_ipc_handle(handle).has_value(); }

int open_exported(const char* call, DeviceAddress* address, const IpcHandleBytes& handle) {
  TensorClient* const client = active<TensorClient>();
  if (client != nullptr) return result_of(call, client->open(handle), address);
  return result_of(call, make_error(ErrorKind::misuse, 0,
                                    "this is a handle of amem's memory, and amem is inactive in "
                                    "this process: it is not enabled, or a forked child"));
}

std::optional<int> close_exported(const char* call, DeviceAddress address) {
  TensorClient* const client = active<TensorClient>();
  const std::optional<Status> closed =
      client != nullptr ? client->close(address) : std::optional<Status>();
  if (!closed.has_value()) return std::nullopt;
  return closed->ok() ? kSuccess : result_of(call, closed->error());
}

void keep_resident(const void* pointer, const char* because) {
  TensorClient* const client = active<TensorClient>();
  const auto address = reinterpret_cast<DeviceAddress>(pointer);
  if (client != nullptr && client->contains(address))
    (void)client->make_persistent(address, because);
}

template <typename Owner>
int enable_peer_access(const char* call, int result, Owner owner) {
  TensorClient* const client = active<TensorClient>();
  if (client == nullptr || (result != kSuccess && result != kPeerAccessAlreadyEnabled))
    return result;
  const Status enabled = client->enable_peer_access(owner);
  return enabled.ok() ? result : result_of(call, enabled.error());
}
template int enable_peer_access(const char* call, int result, int owner);
template int enable_peer_access(const char* call, int result, DriverContext owner);

}  // namespace amem
