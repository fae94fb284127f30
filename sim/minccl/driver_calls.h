// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "sim/cuda_abi.h"
#include "sim/minccl/last_error.h"

namespace amem::minccl {

using namespace amem::sim;

/// The driver functions of driver_functions.def, found as NCCL and its static CUDA runtime find
/// theirs.
struct DriverCalls {
#define MINCCL_DRIVER_FUNCTION(member, name, version, ...) \
  CuResult (*member)(__VA_ARGS__) = nullptr;
#include "sim/minccl/driver_functions.def"
#undef MINCCL_DRIVER_FUNCTION
};

/// Finds the driver at the first call (never earlier: loading this library must touch nothing) and
/// says how that went ever after. Thread-safe.
ncclResult_t load_driver();

/// REQUIRES: load_driver() returned ncclSuccess.
const DriverCalls& driver();

/// Makes `context` current for the calling thread and puts the old one back at the end of the
/// scope, as NCCL does with cudaSetDevice around its work.
class ContextScope {
 public:
  explicit ContextScope(CuContext context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  CuContext previous_ = nullptr;
};

/// Allocations in the scope are legal while another stream of the process is being captured
/// (NCCL wraps its own the same way).
class RelaxedCaptureScope {
 public:
  RelaxedCaptureScope();
  ~RelaxedCaptureScope();
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;

 private:
  int mode_ = kCaptureRelaxed;
};

/// The calling thread's context and device; device 0's primary context is made current where there
/// is none, which is what the CUDA runtime does for NCCL.
ncclResult_t current_context(CuContext* context, CuDevice* device);

ncclResult_t fail_driver(const char* call, CuResult code);

inline CuDevicePtr device_pointer(const void* pointer) {
  return reinterpret_cast<CuDevicePtr>(pointer);
}

}  // namespace amem::minccl

/// Calls a driver function and returns from the enclosing function when it fails.
#define MINCCL_CU(call)                                                    \
  do {                                                                     \
    if (::amem::sim::CuResult minccl_code = ::amem::minccl::driver().call; \
        minccl_code != ::amem::sim::kSuccess)                              \
      return ::amem::minccl::fail_driver(#call, minccl_code);              \
  } while (false)
