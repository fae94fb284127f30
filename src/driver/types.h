// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>

struct CUctx_st;
struct CUevent_st;
struct CUstream_st;
struct CUmemPoolHandle_st;
struct CUmod_st;
struct CUfunc_st;

/// Declarations of the CUDA driver's types that amem uses, so that amem builds without CUDA.
/// types_test.cc compares them with the toolkit's cuda.h if there is one.
namespace amem {

using DriverResult = int;                  ///< CUresult
using DriverHandle = uint64_t;             ///< CUmemGenericAllocationHandle
using DeviceAddress = uint64_t;            ///< CUdeviceptr
using DriverContext = ::CUctx_st*;         ///< CUcontext
using DriverStream = ::CUstream_st*;       ///< CUstream
using DriverEvent = ::CUevent_st*;         ///< CUevent
using DriverPool = ::CUmemPoolHandle_st*;  ///< CUmemoryPool
using DriverModule = ::CUmod_st*;          ///< CUmodule
using DriverKernel = ::CUfunc_st*;         ///< CUfunction

/// The results that amem handles. It returns every other value unchanged.
namespace driver_result {
inline constexpr DriverResult kSuccess = 0;
inline constexpr DriverResult kInvalidValue = 1;
inline constexpr DriverResult kOutOfMemory = 2;
inline constexpr DriverResult kInvalidDevice = 101;
inline constexpr DriverResult kInvalidContext = 201;
inline constexpr DriverResult kNotFound = 500;
inline constexpr DriverResult kNotReady = 600;
inline constexpr DriverResult kContextIsDestroyed = 709;
inline constexpr DriverResult kNotPermitted = 800;
inline constexpr DriverResult kNotSupported = 801;
inline constexpr DriverResult kUnknown = 999;
}  // namespace driver_result

/// CUmemLocation.
struct Location {
  int32_t type;  ///< CUmemLocationType: 1 device, 2 host, 3 NUMA node of the host
  int32_t id;
  bool operator==(const Location&) const = default;
};
inline constexpr int32_t kLocationDevice = 1;

/// CUmemAllocationProp.
struct AllocationProperties {
  int32_t type;
  int32_t requested_handle_types;
  Location location;
  void* win32_metadata;
  uint8_t compression_type;
  uint8_t gpu_direct_rdma_capable;
  uint16_t usage;
  uint8_t reserved[4];
};

/// CUmemAccessDesc.
struct Access {
  Location location;
  int32_t flags;
};

inline constexpr int kAllocationPinned = 1;    ///< CU_MEM_ALLOCATION_TYPE_PINNED
inline constexpr int kAccessReadWrite = 3;     ///< CU_MEM_ACCESS_FLAGS_PROT_READWRITE
inline constexpr int kHandleTypeFd = 1;        ///< CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
inline constexpr int kHandleTypeFabric = 8;    ///< CU_MEM_HANDLE_TYPE_FABRIC
inline constexpr int kAttributeFabric = 128;   ///< CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED
inline constexpr int kGranularityMinimum = 0;  ///< CU_MEM_ALLOC_GRANULARITY_MINIMUM
inline constexpr int kAttributeMultiprocessors = 16;  ///< CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
inline constexpr int kCaptureModeRelaxed = 2;         ///< CU_STREAM_CAPTURE_MODE_RELAXED
inline constexpr int kCaptureStatusNone = 0;          ///< CU_STREAM_CAPTURE_STATUS_NONE
inline constexpr int kCaptureStatusActive = 1;        ///< CU_STREAM_CAPTURE_STATUS_ACTIVE
inline constexpr int kLimitStackSize = 0;             ///< CU_LIMIT_STACK_SIZE
inline constexpr unsigned kStreamNonBlocking = 1;     ///< CU_STREAM_NON_BLOCKING
inline constexpr unsigned kEventDisableTiming = 2;    ///< CU_EVENT_DISABLE_TIMING

}  // namespace amem
