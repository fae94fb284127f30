// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/driver_calls.h"

#include <dlfcn.h>

#include <mutex>

namespace amem::minccl {
namespace {

using GetProcAddress = CuResult (*)(const char* name, void** function, int version,
                                    unsigned long long flags, int* status);

DriverCalls g_calls;

// CUDA_ERROR_STUB_LIBRARY: the answer to the empty name that tells the runtime it found the linker
// stub (nccl-memory: static cudart 13.0, step 3).
bool is_stub(GetProcAddress get) {
  void* nothing = nullptr;
  return get("", &nothing, 0, 0, nullptr) == kErrorStubLibrary;
}

ncclResult_t look_up(GetProcAddress get, const char* name, int version, void** function) {
  int status = kProcAddressSuccess;
  *function = nullptr;
  CuResult code = get(name, function, version, 0, &status);
  if (code == kSuccess && *function != nullptr) return ncclSuccess;
  return fail(ncclSystemError, "cuGetProcAddress(%s, %d): error %d, status %d", name, version, code,
              status);
}

ncclResult_t look_up_all(GetProcAddress get) {
#define MINCCL_DRIVER_FUNCTION(member, name, version, ...)                 \
  {                                                                        \
    void* function = nullptr;                                              \
    MINCCL_TRY(look_up(get, name, version, &function));                    \
    g_calls.member = reinterpret_cast<decltype(g_calls.member)>(function); \
  }
#include "sim/minccl/driver_functions.def"
#undef MINCCL_DRIVER_FUNCTION
  return ncclSuccess;
}

// The order of the static CUDA runtime: library, cuGetProcAddress_v2 by dlsym, probe, cuInit, and
// then its own pointer is replaced by what that pointer answers for "cuGetProcAddress".
ncclResult_t load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return fail(ncclSystemError, "dlopen(libcuda.so.1): %s", dlerror());
  auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) return fail(ncclSystemError, "libcuda.so.1 has no cuGetProcAddress_v2");
  if (is_stub(get)) return fail(ncclSystemError, "libcuda.so.1 is the linker stub");
  g_calls.bound_memory =
      reinterpret_cast<decltype(g_calls.bound_memory)>(dlsym(library, "amemSimBoundMemory"));
  void* init = nullptr;
  void* first_form = nullptr;
  void* replacement = nullptr;
  MINCCL_TRY(look_up(get, "cuInit", 2000, &init));
  MINCCL_TRY(look_up(get, "cuGetProcAddress", 11030, &first_form));
  MINCCL_TRY(look_up(get, "cuGetProcAddress", 12000, &replacement));
  MINCCL_TRY(look_up_all(reinterpret_cast<GetProcAddress>(replacement)));
  CuResult code = reinterpret_cast<CuResult (*)(unsigned)>(init)(0);
  if (code != kSuccess) return fail_driver("cuInit(0)", code);
  int version = 0;
  MINCCL_CU(driver_get_version(&version));
  log_info("cudaDriverVersion %d", version);
  return ncclSuccess;
}

}  // namespace

ncclResult_t load_driver() {
  static std::once_flag once;
  static ncclResult_t outcome = ncclSuccess;
  std::call_once(once, [] { outcome = load(); });
  return outcome;
}

const DriverCalls& driver() { return g_calls; }

ncclResult_t fail_driver(const char* call, CuResult code) {
  const char* name = nullptr;
  if (driver().get_error_name == nullptr || driver().get_error_name(code, &name) != kSuccess)
    name = nullptr;
  return fail(ncclUnhandledCudaError, "%s: driver error %d (%s)", call, code,
              name == nullptr ? "?" : name);
}

ContextScope::ContextScope(CuContext context) {
  driver().context_get_current(&previous_);
  driver().context_set_current(context);
}

ContextScope::~ContextScope() { driver().context_set_current(previous_); }

RelaxedCaptureScope::RelaxedCaptureScope() { driver().exchange_capture_mode(&mode_); }

RelaxedCaptureScope::~RelaxedCaptureScope() { driver().exchange_capture_mode(&mode_); }

ncclResult_t current_context(CuContext* context, CuDevice* device) {
  MINCCL_CU(context_get_current(context));
  if (*context == nullptr) {
    MINCCL_CU(primary_context_retain(context, 0));
    MINCCL_CU(context_set_current(*context));
  }
  MINCCL_CU(context_get_device(device));
  return ncclSuccess;
}

}  // namespace amem::minccl
