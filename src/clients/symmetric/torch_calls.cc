// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/symmetric/torch_calls.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string_view>
#include <utility>

#include "clients/nccl/driver_calls/entry_points.h"
#include "clients/symmetric/symmetric_client.h"
#include "interpose/interposer.h"
#include "interpose/real_functions.h"
#include "interpose/slots.h"

namespace amem {
namespace {

constexpr int kGranularityRecommended = 1;  // CU_MEM_ALLOC_GRANULARITY_RECOMMENDED

/// The calling thread has queried the recommended granularity: symmetric memory follows.
constinit thread_local bool t_symmetric_expected = false;

DriverResult granularity(HookContext& context, size_t* bytes,
                         const AllocationProperties* properties, int option) {
  t_symmetric_expected = option == kGranularityRecommended;
  return context.driver->cuMemGetAllocationGranularity(bytes, properties, option);
}

DriverResult create(HookContext& context, DriverHandle* handle, size_t size_bytes,
                    const AllocationProperties* properties, unsigned long long flags) {
  DriverHandle real = 0;
  const bool is_symmetric = std::exchange(t_symmetric_expected, false) && handle != nullptr &&
                            properties != nullptr && properties->location.type == kLocationDevice;
  if (!is_symmetric) return context.driver->cuMemCreate(handle, size_bytes, properties, flags);
  const DriverResult result = context.driver->cuMemCreate(&real, size_bytes, properties, flags);
  if (result != driver_result::kSuccess) return result;
  MutexLock lock(context.registry->mutex);
  *handle = handle_of(
      context.registry->add_local(size_bytes, *properties, real, size_bytes, kSymmetricTag).id);
  return result;
}

/// `kReal` in a process in which amem is inactive, else `kHook`.
template <auto kReal, auto kHook>
struct TorchEntry;
template <typename... Parameters, DriverResult (*Driver::*kReal)(Parameters...),
          DriverResult (*kHook)(HookContext&, Parameters...)>
struct TorchEntry<kReal, kHook> {
  static constinit inline std::atomic<uintptr_t> real{0};
  static DriverResult call(Parameters... parameters) {
    if (hook_context() == nullptr) make_hook_context();
    HookContext* const context = hook_context();
    if (context != nullptr && !context->forward_only) return kHook(*context, parameters...);
    return reinterpret_cast<DriverResult (*)(Parameters...)>(real.load())(parameters...);
  }
};

/// A driver function that PyTorch calls, and what it gets in its place.
struct Row {
  const char* name;    ///< as PyTorch looks it up
  const char* symbol;  ///< in libcuda
  const void* entry;
  std::atomic<uintptr_t>* real;
};
template <auto kReal, auto kHook>
Row row(const char* name, const char* symbol) {
  using Entry = TorchEntry<kReal, kHook>;
  return {name, symbol, reinterpret_cast<const void*>(&Entry::call), &Entry::real};
}
#define AMEM_TORCH_ROW(function) row<&Driver::function, &hooks::function>(#function, #function)

const std::array<Row, 12>& rows() {
  static const std::array<Row, 12> all{
      row<&Driver::cuMemGetAllocationGranularity, &granularity>("cuMemGetAllocationGranularity",
                                                                "cuMemGetAllocationGranularity"),
      row<&Driver::cuMemCreate, &create>("cuMemCreate", "cuMemCreate"),
      row<&Driver::cuMemGetAddressRange_v2, &hooks::cuMemGetAddressRange_v2>(
          "cuMemGetAddressRange", "cuMemGetAddressRange_v2"),
      AMEM_TORCH_ROW(cuMemRelease),
      AMEM_TORCH_ROW(cuMemMap),
      AMEM_TORCH_ROW(cuMemUnmap),
      AMEM_TORCH_ROW(cuMemSetAccess),
      AMEM_TORCH_ROW(cuMemExportToShareableHandle),
      AMEM_TORCH_ROW(cuMemImportFromShareableHandle),
      AMEM_TORCH_ROW(cuMemRetainAllocationHandle),
      AMEM_TORCH_ROW(cuMemGetAllocationPropertiesFromHandle),
      AMEM_TORCH_ROW(cuMulticastBindMem),
  };
  return all;
}

/// The entry in place of `function`, the driver's own for this name; else `function`.
void* entry_for(const char* name, void* function) {
  for (const Row& each : rows()) {
    if (strcmp(each.name, name) != 0) continue;
    const auto address = reinterpret_cast<uintptr_t>(function);
    if (address == 0 || address != first_definition(each.symbol)) return function;
    each.real->store(address);
    return const_cast<void*>(each.entry);
  }
  return function;
}

// --- A table that PyTorch fills later

enum RuntimeFunction { kNewest, kByVersion, kRuntimeFunctions };
constexpr std::array<const char*, kRuntimeFunctions> kNames{"cudaGetDriverEntryPoint",
                                                            "cudaGetDriverEntryPointByVersion"};
constinit RealFunctions<kRuntimeFunctions> g_real(kNames);

int newest_entry(const char* name, void** function, unsigned long long flags, int* status) {
  const int result = g_real.call(kNewest, name, function, flags, status);
  if (result == 0 && function != nullptr) *function = entry_for(name, *function);
  return result;
}

int by_version_entry(const char* name, void** function, unsigned version, unsigned long long flags,
                     int* status) {
  const int result = g_real.call(kByVersion, name, function, version, flags, status);
  if (result == 0 && function != nullptr) *function = entry_for(name, *function);
  return result;
}

bool has_torchs_table(const Image& image) {
  std::string_view name = image.path;
  name.remove_prefix(name.rfind('/') + 1);
  return name.starts_with("libc10_cuda.so");
}

const void* entry_of(size_t which, uintptr_t function, const Image* user) {
  if (user == nullptr || !has_torchs_table(*user)) return nullptr;
  if (function != 0) g_real.set(which, function);
  return which == kNewest ? reinterpret_cast<const void*>(&newest_entry)
                          : reinterpret_cast<const void*>(&by_version_entry);
}

// --- A table that is filled

/// Reads across the variables of another image, which AddressSanitizer would report.
[[gnu::no_sanitize_address]] void replace(uintptr_t* words, size_t count, uintptr_t real,
                                          uintptr_t entry) {
  for (size_t i = 0; i < count; ++i)
    if (words[i] == real) __atomic_store_n(&words[i], entry, __ATOMIC_RELEASE);
}

void replace_functions(const Image& image) {
  if (!has_torchs_table(image)) return;
  constexpr uintptr_t kWord = sizeof(uintptr_t);
  for (const Row& each : rows()) {
    const uintptr_t real = first_definition(each.symbol);
    if (real == 0) continue;
    each.real->store(real);
    for (const ElfW(Phdr) & header : image.headers) {
      if (header.p_type != PT_LOAD || (header.p_flags & PF_W) == 0) continue;
      const uintptr_t begin = (image.load_bias + header.p_vaddr + kWord - 1) / kWord * kWord;
      const uintptr_t end = image.load_bias + header.p_vaddr + header.p_memsz;
      // Relocated words that are read-only now are not variables.
      const uintptr_t first = std::max(begin, std::min(end, image.relro_end));
      replace(reinterpret_cast<uintptr_t*>(first), (end - first) / kWord, real,
              reinterpret_cast<uintptr_t>(each.entry));
    }
  }
}

constexpr NamedFunctions kTorchFunctions{kNames, entry_of, replace_functions};

}  // namespace

void catch_torch_calls() {
  (void)rows();  // constructed here, not under the loader's lock
  intercept_names(kTorchFunctions);
}

}  // namespace amem
