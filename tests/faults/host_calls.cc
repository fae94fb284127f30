// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Stands before the C library in a rank's program: counts the calls that libamem_nccl.so makes and
// lets the one fail that a test asks for. Calls of everybody else pass through.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

enum class HostFunction {
#define AMEM_HOST_FUNCTION(result, name, parameters, arguments, failed, code) name,
#include "tests/faults/host_functions.def"
#undef AMEM_HOST_FUNCTION
  kCount
};

constexpr const char* kNames[] = {
#define AMEM_HOST_FUNCTION(result, name, parameters, arguments, failed, code) #name,
#include "tests/faults/host_functions.def"
#undef AMEM_HOST_FUNCTION
};
constexpr int kFunctions = static_cast<int>(HostFunction::kCount);

struct Fault {
  std::atomic<int> function{-1};
  std::atomic<long> first{0};  ///< the call that fails, counted from 1
  std::atomic<bool> all_later{false};
  std::atomic<long> seen{0};
};

std::atomic<long> g_calls[kFunctions];
Fault g_fault;

/// Where the code of libamem_nccl.so lies; 0, 0 as long as it is not loaded.
struct Range {
  std::atomic<uintptr_t> begin{0}, end{0};
};
Range g_amem;

int find_amem(dl_phdr_info* object, size_t, void*) {
  if (strstr(object->dlpi_name, "/libamem_nccl.so") == nullptr) return 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    g_amem.end = object->dlpi_addr + part.p_vaddr + part.p_memsz;
    g_amem.begin = object->dlpi_addr + part.p_vaddr;
  }
  return 1;
}

bool is_amem(const void* caller) {
  if (g_amem.begin == 0) dl_iterate_phdr(find_amem, nullptr);
  const auto at = reinterpret_cast<uintptr_t>(caller);
  return at >= g_amem.begin && at < g_amem.end;
}

/// Counts a call; true when it has to fail.
bool fails(HostFunction function, const void* caller) {
  if (!is_amem(caller)) return false;
  const int index = static_cast<int>(function);
  ++g_calls[index];
  if (g_fault.function != index) return false;
  const long nth = ++g_fault.seen;
  return g_fault.all_later ? nth >= g_fault.first : nth == g_fault.first;
}

int index_of(const char* name) {
  for (int i = 0; i < kFunctions; ++i)
    if (strcmp(kNames[i], name) == 0) return i;
  return -1;
}

}  // namespace

#define AMEM_EXPORTED extern "C" __attribute__((visibility("default")))

#define AMEM_HOST_FUNCTION(result, name, parameters, arguments, failed, code)                 \
  AMEM_EXPORTED result name parameters {                                                      \
    static const auto real = reinterpret_cast<result(*) parameters>(dlsym(RTLD_NEXT, #name)); \
    if (!fails(HostFunction::name, __builtin_return_address(0))) return real arguments;       \
    errno = code;                                                                             \
    return failed;                                                                            \
  }
#include "tests/faults/host_functions.def"
#undef AMEM_HOST_FUNCTION

/// Calls of libamem_nccl.so so far; -1 for an unknown name.
AMEM_EXPORTED long amem_test_host_calls(const char* name) {
  const int index = index_of(name);
  return index < 0 ? -1 : g_calls[index].load();
}

/// "name:n" (the n-th call from now on fails) or "name:n.." (it and all later ones); "" for none.
/// Returns 0, or 1 and changes nothing if that cannot be understood.
AMEM_EXPORTED int amem_test_set_host_fault(const char* fault) {
  char name[32] = "", dots[3] = "";
  long first = 0;
  if (*fault != '\0' && sscanf(fault, "%31[^:]:%ld%2s", name, &first, dots) < 2) return 1;
  if (*fault != '\0' && (index_of(name) < 0 || first < 1)) return 1;
  g_fault.function = -1;
  g_fault.seen = 0;
  g_fault.first = first;
  g_fault.all_later = strcmp(dots, "..") == 0;
  g_fault.function = index_of(name);
  return 0;
}
