// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUgraphExec_st;
struct CUmemPoolHandle_st;
struct CUmod_st;
struct CUfunc_st;

/// Declarations of the types and values of the CUDA driver's ABI that the simulated driver and the
/// contract suite need, so that both build without CUDA. cuda_abi_test.cc compares them with the
/// toolkit's cuda.h if there is one.
namespace amem::sim {

using CuDevice = int;
using CuDevicePtr = unsigned long long;
using CuMemHandle = unsigned long long;
using CuContext = ::CUctx_st*;
using CuStream = ::CUstream_st*;
using CuEvent = ::CUevent_st*;
using CuGraph = ::CUgraph_st*;
using CuGraphNode = ::CUgraphNode_st*;
using CuGraphExec = ::CUgraphExec_st*;
using CuMemPool = ::CUmemPoolHandle_st*;
using CuModule = ::CUmod_st*;
using CuFunction = ::CUfunc_st*;
using CuHostFn = void (*)(void*);

enum CuResult : int {
  kSuccess = 0,
  kErrorInvalidValue = 1,
  kErrorOutOfMemory = 2,
  kErrorNotInitialized = 3,
  kErrorStubLibrary = 34,
  kErrorNoDevice = 100,
  kErrorInvalidDevice = 101,
  kErrorInvalidImage = 200,
  kErrorInvalidContext = 201,
  kErrorUnsupportedLimit = 215,
  kErrorOperatingSystem = 304,
  kErrorInvalidHandle = 400,
  kErrorIllegalState = 401,
  kErrorNotFound = 500,
  kErrorNotReady = 600,
  kErrorIllegalAddress = 700,
  kErrorPeerAccessAlreadyEnabled = 704,
  kErrorPeerAccessNotEnabled = 705,
  kErrorPrimaryContextActive = 708,
  kErrorContextIsDestroyed = 709,
  kErrorHostMemoryAlreadyRegistered = 712,
  kErrorHostMemoryNotRegistered = 713,
  kErrorMisalignedAddress = 716,
  kErrorNotPermitted = 800,
  kErrorNotSupported = 801,
  kErrorStreamCaptureUnsupported = 900,
  kErrorStreamCaptureInvalidated = 901,
  kErrorStreamCaptureMerge = 902,
  kErrorStreamCaptureUnmatched = 903,
  kErrorStreamCaptureUnjoined = 904,
  kErrorStreamCaptureIsolation = 905,
  kErrorStreamCaptureImplicit = 906,
  kErrorCapturedEvent = 907,
  kErrorStreamCaptureWrongThread = 908,
  kErrorUnknown = 999,
};

// CUmemLocationType, CUmemAllocationType, CUmemAllocationHandleType, CUmemAccess_flags.
enum CuLocationType : int {
  kLocationInvalid = 0,
  kLocationDevice = 1,
  kLocationHost = 2,
  kLocationHostNuma = 3,
  kLocationHostNumaCurrent = 4,
};
inline constexpr int kAllocationPinned = 1;
inline constexpr int kHandleTypeNone = 0;
inline constexpr int kHandleTypePosixFd = 1;
inline constexpr int kHandleTypeFabric = 8;
inline constexpr int kAccessNone = 0;
inline constexpr int kAccessRead = 1;
inline constexpr int kAccessReadWrite = 3;
inline constexpr int kGranularityMinimum = 0;
inline constexpr int kGranularityRecommended = 1;
inline constexpr int kRangeHandleDmaBufFd = 1;

// CUstream_flags, CUevent_flags, CUstreamCaptureMode, CUstreamCaptureStatus.
inline constexpr unsigned kStreamDefault = 0;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr int kCaptureGlobal = 0;
inline constexpr int kCaptureThreadLocal = 1;
inline constexpr int kCaptureRelaxed = 2;
inline constexpr int kCaptureStatusNone = 0;
inline constexpr int kCaptureStatusActive = 1;
inline constexpr int kCaptureStatusInvalidated = 2;

// CUlimit.
inline constexpr int kLimitStackSize = 0;

// CUdriverProcAddressQueryResult, CUmemorytype.
inline constexpr int kProcAddressSuccess = 0;
inline constexpr int kProcAddressNotFound = 1;
inline constexpr int kProcAddressVersionNotSufficient = 2;
inline constexpr unsigned kMemoryTypeHost = 1;
inline constexpr unsigned kMemoryTypeDevice = 2;

// CUpointer_attribute.
inline constexpr int kPointerContext = 1;
inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerDevicePointer = 3;
inline constexpr int kPointerHostPointer = 4;
inline constexpr int kPointerIsManaged = 8;
inline constexpr int kPointerDeviceOrdinal = 9;
inline constexpr int kPointerIsLegacyIpcCapable = 10;
inline constexpr int kPointerRangeStart = 11;
inline constexpr int kPointerRangeSize = 12;
inline constexpr int kPointerMapped = 13;
inline constexpr int kPointerAllowedHandleTypes = 14;
inline constexpr int kPointerIsGpuDirectRdmaCapable = 15;

// CUdevice_attribute.
inline constexpr int kAttributeWarpSize = 10;
inline constexpr int kAttributeMultiprocessorCount = 16;
inline constexpr int kAttributeCanMapHostMemory = 19;
inline constexpr int kAttributePciBusId = 33;
inline constexpr int kAttributeThreadsPerMultiprocessor = 39;
inline constexpr int kAttributePciDeviceId = 34;
inline constexpr int kAttributeAsyncEngineCount = 40;
inline constexpr int kAttributeUnifiedAddressing = 41;
inline constexpr int kAttributeComputeCapabilityMajor = 75;
inline constexpr int kAttributeComputeCapabilityMinor = 76;
inline constexpr int kAttributeStreamPrioritiesSupported = 78;
inline constexpr int kAttributeCanUseHostPointerForRegisteredMemory = 91;
inline constexpr int kAttributeHostRegisterSupported = 99;
inline constexpr int kAttributeVirtualMemoryManagement = 102;
inline constexpr int kAttributeHandleTypePosixFd = 103;
inline constexpr int kAttributeGpuDirectRdmaWithVmm = 110;
inline constexpr int kAttributeGpuDirectRdma = 116;
inline constexpr int kAttributeDmaBuf = 124;
inline constexpr int kAttributeHandleTypeFabric = 128;
inline constexpr int kAttributeMulticast = 132;
inline constexpr int kAttributeHostNumaVirtualMemoryManagement = 141;
inline constexpr int kAttributeHostVirtualMemoryManagement = 145;

struct CuLocation {
  int type;
  int id;
  bool operator==(const CuLocation&) const = default;
};

struct CuAllocationProp {
  int type;
  int requested_handle_types;
  CuLocation location;
  void* win32_metadata;
  unsigned char compression_type;
  unsigned char gpu_direct_rdma_capable;
  unsigned short usage;
  unsigned char reserved[4];
};

struct CuAccessDesc {
  CuLocation location;
  int flags;
};

struct CuMulticastProp {
  unsigned num_devices;
  size_t size_bytes;
  unsigned long long handle_types;
  unsigned long long flags;
};

// CUprocessState.
enum CuProcessState : int {
  kProcessRunning = 0,
  kProcessLocked = 1,
  kProcessCheckpointed = 2,
  kProcessFailed = 3,
};

struct CuCheckpointLockArgs {
  unsigned timeout_ms;
  unsigned reserved[15];
};

struct CuIpcMemHandle {
  char reserved[64];
};

struct CuUuid {
  char bytes[16];
};

}  // namespace amem::sim
