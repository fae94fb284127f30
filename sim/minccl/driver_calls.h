// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "sim/cuda_abi.h"
#include "sim/minccl/last_error.h"

namespace amem::minccl {

using namespace amem::sim;

/// The driver functions of driver_functions.def, looked up like NCCL and its static CUDA runtime
/// do.
struct DriverCalls {
#define MINCCL_DRIVER_FUNCTION(member, name, version, ...) \
  CuResult (*member)(__VA_ARGS__) = nullptr;
#include "sim/minccl/driver_functions.def"
#undef MINCCL_DRIVER_FUNCTION
  /// amemSimBoundMemory() of the simulated GPU, for kernels.
  int (*bound_memory)(CuDevicePtr, size_t, void**, int) = nullptr;
};

/// Looks up the driver at the first call, not earlier, because loading this library must have no
/// effect. Later calls return the same result. Thread-safe.
ncclResult_t load_driver();

/// REQUIRES: load_driver() returned ncclSuccess.
const DriverCalls& driver();

/// Makes `context` current for the calling thread until the end of the scope, like NCCL with
/// cudaSetDevice.
class ContextScope {
 public:
  explicit ContextScope(CuContext context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  CuContext previous_ = nullptr;
};

/// Permits allocations while another stream of the process is being captured, like NCCL.
class RelaxedCaptureScope {
 public:
  RelaxedCaptureScope();
  ~RelaxedCaptureScope();
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;

 private:
  int mode_ = kCaptureRelaxed;
};

/// The calling thread's context and device. If there is no context, makes device 0's primary
/// context current, like the CUDA runtime.
ncclResult_t current_context(CuContext* context, CuDevice* device);

ncclResult_t fail_driver(const char* call, CuResult code);

inline CuDevicePtr device_pointer(const void* pointer) {
  return reinterpret_cast<CuDevicePtr>(pointer);
}

}  // namespace amem::minccl

/// Calls a driver function. On failure, returns from the enclosing function.
#define MINCCL_CU(call)                                                    \
  do {                                                                     \
    if (::amem::sim::CuResult minccl_code = ::amem::minccl::driver().call; \
        minccl_code != ::amem::sim::kSuccess)                              \
      return ::amem::minccl::fail_driver(#call, minccl_code);              \
  } while (false)
