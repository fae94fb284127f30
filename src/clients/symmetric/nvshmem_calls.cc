// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/symmetric/nvshmem_calls.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstring>

#include "base/environment.h"
#include "clients/driver_entries/library_calls.h"

namespace amem {
namespace {

constexpr const char* kGetProcAddress = "cuGetProcAddress";

const DriverCall kOwnCalls[] = {
    AMEM_DRIVER_CALL(cuMemCreate, cuMemCreate, &create_symmetric),
    AMEM_DRIVER_CALL(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange,
                     &VirtualMemory::get_handle_for_address_range)};

/// The driver's, in its form with four arguments.
using GetProcAddress = DriverResult(const char*, void**, int, uint64_t);
constinit std::atomic<GetProcAddress*> g_real{nullptr};

DriverResult get_proc_address(const char* name, void** function, int version, uint64_t flags) {
  const DriverResult result = g_real.load()(name, function, version, flags);
  if (result == driver_result::kSuccess && name != nullptr && function != nullptr)
    *function = library_entry(kOwnCalls, name, *function);
  return result;
}

void* find_get_proc_address(void* handle, const char* name) {
  void* const real = real_dlsym()(handle, name);
  if (real == nullptr || reinterpret_cast<uintptr_t>(real) != first_definition(kGetProcAddress))
    return real;
  g_real.store(reinterpret_cast<GetProcAddress*>(real));
  return reinterpret_cast<void*>(&get_proc_address);
}

constexpr std::array<const char*, 1> kNames{"dlsym"};

const void* entry_of(size_t, uintptr_t function, const Image* user) {
  const bool is_own = function == 0 || function == reinterpret_cast<uintptr_t>(real_dlsym());
  return user != nullptr && is_own && user->file_name().starts_with("libnvshmem_host.so")
             ? reinterpret_cast<const void*>(&amem_nvshmem_dlsym_entry)
             : nullptr;
}

constinit NamedFunctions g_nvshmem_functions{kNames, entry_of};

}  // namespace

void catch_nvshmem_calls() {
  if (flag_of(variable_now("AMEM_NVSHMEM")).value_or(false)) intercept_names(g_nvshmem_functions);
}

}  // namespace amem

amem::DlsymFunction amem_nvshmem_dlsym_route(void* handle, const char* name) noexcept {
  const bool is_explicit = handle != RTLD_NEXT && handle != RTLD_DEFAULT;
  return is_explicit && strcmp(name, amem::kGetProcAddress) == 0 ? amem::find_get_proc_address
                                                                 : amem_dlsym_route(handle, name);
}
