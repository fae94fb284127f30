// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/symmetric/library_calls.h"

#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "clients/nccl/driver_calls/entry_points.h"
#include "clients/symmetric/symmetric_client.h"

namespace amem {

#define AMEM_SHARED_CALL(function) \
  library_call<&Driver::function, &hooks::function>(#function, #function)

std::span<const LibraryCall> shared_library_calls() {
  static const std::array<LibraryCall, 10> all{
      AMEM_SHARED_CALL(cuMemRelease),
      AMEM_SHARED_CALL(cuMemMap),
      AMEM_SHARED_CALL(cuMemUnmap),
      AMEM_SHARED_CALL(cuMemSetAccess),
      AMEM_SHARED_CALL(cuMemExportToShareableHandle),
      AMEM_SHARED_CALL(cuMemImportFromShareableHandle),
      AMEM_SHARED_CALL(cuMemRetainAllocationHandle),
      AMEM_SHARED_CALL(cuMemGetAllocationPropertiesFromHandle),
      AMEM_SHARED_CALL(cuMulticastBindMem),
      AMEM_SHARED_CALL(cuMulticastUnbind),
  };
  return all;
}

DriverResult create_symmetric(HookContext& context, DriverHandle* handle, size_t size_bytes,
                              const AllocationProperties* properties, unsigned long long flags) {
  if (handle == nullptr || properties == nullptr || properties->location.type != kLocationDevice ||
      context.gives_no_handles)
    return context.driver->cuMemCreate(handle, size_bytes, properties, flags);
  DriverHandle real = 0;
  const DriverResult result = context.driver->cuMemCreate(&real, size_bytes, properties, flags);
  if (result != driver_result::kSuccess) return result;
  MutexLock lock(context.registry->mutex);
  *handle = handle_of(
      context.registry->add_local(size_bytes, *properties, real, size_bytes, kSymmetricTag).id);
  return result;
}

void* library_entry(std::span<const LibraryCall> own, const char* name, void* function) {
  for (const auto calls : {own, shared_library_calls()}) {
    for (const LibraryCall& call : calls) {
      if (strcmp(call.name, name) != 0) continue;
      const auto address = reinterpret_cast<uintptr_t>(function);
      if (address != first_definition(call.symbol)) {
        if (address != 0 && !is_in_this_library(address))
          forward_unknown_form(std::string("a look-up of ") + name);
        return function;
      }
      call.real->store(address);
      return const_cast<void*>(call.entry);
    }
  }
  return function;
}

bool is_library(const Image& image, const char* name) {
  std::string_view file = image.path;
  file.remove_prefix(file.rfind('/') + 1);
  return file.starts_with(name);
}

}  // namespace amem
