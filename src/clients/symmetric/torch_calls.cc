// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/symmetric/torch_calls.h"

#include <array>
#include <utility>

#include "clients/driver_entries/library_calls.h"
#include "clients/tensors/memory_calls.h"
#include "interpose/interposer.h"
#include "interpose/real_functions.h"
#include "interpose/slots.h"

namespace amem {
namespace {

constexpr int kGranularityRecommended = 1;  // CU_MEM_ALLOC_GRANULARITY_RECOMMENDED

/// The calling thread has queried the recommended granularity: symmetric memory follows.
constinit thread_local bool t_symmetric_expected = false;

DriverResult granularity(VirtualMemory& memory, size_t* bytes,
                         const AllocationProperties* properties, int option) {
  t_symmetric_expected = option == kGranularityRecommended;
  return memory.driver().cuMemGetAllocationGranularity(bytes, properties, option);
}

DriverResult create(VirtualMemory& memory, DriverHandle* handle, size_t size_bytes,
                    const AllocationProperties* properties, unsigned long long flags) {
  if (std::exchange(t_symmetric_expected, false))
    return create_symmetric(memory, handle, size_bytes, properties, flags);
  // Else for an expandable segment of its allocator.
  if (const auto created =
          create_in_region(current_region_of_pytorch, handle, size_bytes, properties, flags))
    return *created;
  return memory.driver().cuMemCreate(handle, size_bytes, properties, flags);
}

const DriverCall kOwnCalls[] = {
    AMEM_DRIVER_CALL(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, &granularity),
    AMEM_DRIVER_CALL(cuMemCreate, cuMemCreate, &create),
    AMEM_DRIVER_CALL(cuMemGetAddressRange, cuMemGetAddressRange_v2,
                     &VirtualMemory::get_address_range)};

// --- A table that PyTorch fills later

enum RuntimeFunction { kNewest, kByVersion, kRuntimeFunctions };
constexpr std::array<const char*, kRuntimeFunctions> kNames{"cudaGetDriverEntryPoint",
                                                            "cudaGetDriverEntryPointByVersion"};
constinit RealFunctions<kRuntimeFunctions> g_real(kNames);

template <RuntimeFunction kWhich, typename... More>
int look_up(const char* name, void** function, More... more) {
  const int result = g_real.call(kWhich, name, function, more...);
  if (result == 0 && function != nullptr) *function = library_entry(kOwnCalls, name, *function);
  return result;
}

// With the types of the ABI (CUDA Runtime API, "Driver Entry Point Access").
constexpr auto* kNewestEntry = &look_up<kNewest, unsigned long long, int*>;
constexpr auto* kByVersionEntry = &look_up<kByVersion, unsigned, unsigned long long, int*>;

bool has_torchs_table(const Image& image) {
  return image.file_name().starts_with("libc10_cuda.so");
}

const void* entry_of(size_t which, uintptr_t function, const Image* user) {
  if (user == nullptr || !has_torchs_table(*user)) return nullptr;
  if (function != 0) g_real.set(which, function);
  return which == kNewest ? reinterpret_cast<const void*>(kNewestEntry)
                          : reinterpret_cast<const void*>(kByVersionEntry);
}

// --- A table that is filled

void replace_functions(const Image& image) {
  if (!has_torchs_table(image)) return;
  for (const auto calls :
       {std::span<const DriverCall>(kOwnCalls), std::span<const DriverCall>(kSharedLibraryCalls)})
    for (const DriverCall& call : calls)
      if (const uintptr_t real = first_definition(call.symbol); real != 0)
        replace_variables(image, real, reinterpret_cast<uintptr_t>(call.entry_for(real)));
}

constinit NamedFunctions g_torch_functions{kNames, entry_of, replace_functions};

}  // namespace

void catch_torch_calls() { intercept_names(g_torch_functions); }

}  // namespace amem
