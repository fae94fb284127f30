// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "amem.h"
#include "base/result.h"

struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;

/// The CUDA driver, which is found at run time, and amem.
namespace amem::symmetric {

using DriverResult = int;             ///< CUresult
using DriverHandle = uint64_t;        ///< CUmemGenericAllocationHandle
using DeviceAddress = uint64_t;       ///< CUdeviceptr
using DriverContext = ::CUctx_st*;    ///< CUcontext
using DriverStream = ::CUstream_st*;  ///< CUstream
using DriverModule = ::CUmod_st*;     ///< CUmodule
using DriverKernel = ::CUfunc_st*;    ///< CUfunction

/// CUmemAccessDesc, with CUmemLocation.
struct Access {
  int32_t location_type, location_id, flags;
};

/// CUmulticastObjectProp.
struct MulticastProperties {
  uint32_t devices;
  size_t size_bytes;
  uint64_t handle_types;
  uint64_t flags;
};

inline constexpr DriverResult kNotReady = 600;        ///< CUDA_ERROR_NOT_READY
inline constexpr int kLocationDevice = 1;             ///< CU_MEM_LOCATION_TYPE_DEVICE
inline constexpr int kAccessReadWrite = 3;            ///< CU_MEM_ACCESS_FLAGS_PROT_READWRITE
inline constexpr int kHandleTypeFd = 1;               ///< CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
inline constexpr int kGranularityMinimum = 0;         ///< CU_MULTICAST_GRANULARITY_MINIMUM
inline constexpr int kAttributeMultiprocessors = 16;  ///< CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
inline constexpr int kAttributeMulticast = 132;       ///< CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED

struct Driver {
#define AMEM_SYMMETRIC_FUNCTION(symbol, parameters) DriverResult(*symbol) parameters = nullptr;
#include "symmetric/driver_functions.def"
#undef AMEM_SYMMETRIC_FUNCTION
};

/// Errors: unsupported, without a driver, or if it lacks a function.
Result<Driver> load_driver();

/// Success, or an error with the text of the printf format, the name of the error and its number.
[[gnu::format(printf, 3, 4)]] Status driver_status(const Driver& driver, DriverResult code,
                                                   const char* format, ...);

/// Work of amem_symmetric in a stream of its own in the current context, which has ended when this
/// returns. Works while streams are captured.
class OwnStream {
 public:
  explicit OwnStream(const Driver& driver);
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;

  /// Sets `size_bytes` bytes, a multiple of 4, to 0.
  Status zero(DeviceAddress address, size_t size_bytes);
  Status write(DeviceAddress address, const void* from, size_t size_bytes);
  /// Errors: timeout; driver, also that of the constructor.
  Status wait(long timeout_ms);

 private:
  const Driver& driver_;
  int capture_mode_;  ///< of the thread, to be restored
  DriverStream stream_ = nullptr;
  Status created_;
};

/// The error of a call of amem that has returned this; success for 0.
Status amem_status(int result);
/// What a function of amem/symmetric.h returns for the error: an amemError_t.
int result_of(const Error& error);

}  // namespace amem::symmetric
