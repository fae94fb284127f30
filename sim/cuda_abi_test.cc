// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Holds cuda_abi.h against the toolkit's cuda.h where there is one; compiling is the test.
#include "sim/cuda_abi.h"

#include <gtest/gtest.h>

#if __has_include(<cuda.h>)
#include <cuda.h>

namespace amem::sim {
namespace {

#define AMEM_SAME(ours, theirs) \
  static_assert(static_cast<int>(ours) == static_cast<int>(theirs), #theirs)
#define AMEM_SAME_FIELD(our_type, ours, their_type, theirs)                 \
  static_assert(offsetof(our_type, ours) == offsetof(their_type, theirs) && \
                    sizeof(our_type::ours) == sizeof(their_type::theirs),   \
                #theirs)

#define AMEM_SIM_ERROR(code, name, text) AMEM_SAME(code, name);
#include "sim/error_names.def"
#undef AMEM_SIM_ERROR
AMEM_SAME(kErrorInvalidValue, CUDA_ERROR_INVALID_VALUE);
AMEM_SAME(kErrorOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
AMEM_SAME(kErrorNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
AMEM_SAME(kErrorStubLibrary, CUDA_ERROR_STUB_LIBRARY);
AMEM_SAME(kErrorNoDevice, CUDA_ERROR_NO_DEVICE);
AMEM_SAME(kErrorInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
AMEM_SAME(kErrorInvalidImage, CUDA_ERROR_INVALID_IMAGE);
AMEM_SAME(kErrorInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
AMEM_SAME(kErrorUnsupportedLimit, CUDA_ERROR_UNSUPPORTED_LIMIT);
AMEM_SAME(kErrorOperatingSystem, CUDA_ERROR_OPERATING_SYSTEM);
AMEM_SAME(kErrorInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
AMEM_SAME(kErrorIllegalState, CUDA_ERROR_ILLEGAL_STATE);
AMEM_SAME(kErrorNotFound, CUDA_ERROR_NOT_FOUND);
AMEM_SAME(kErrorNotReady, CUDA_ERROR_NOT_READY);
AMEM_SAME(kErrorIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
AMEM_SAME(kErrorPeerAccessAlreadyEnabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
AMEM_SAME(kErrorPeerAccessNotEnabled, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
AMEM_SAME(kErrorPrimaryContextActive, CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE);
AMEM_SAME(kErrorContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
AMEM_SAME(kErrorHostMemoryAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
AMEM_SAME(kErrorHostMemoryNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
AMEM_SAME(kErrorMisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS);
AMEM_SAME(kErrorNotPermitted, CUDA_ERROR_NOT_PERMITTED);
AMEM_SAME(kErrorNotSupported, CUDA_ERROR_NOT_SUPPORTED);
AMEM_SAME(kErrorStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
AMEM_SAME(kErrorStreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
AMEM_SAME(kErrorStreamCaptureMerge, CUDA_ERROR_STREAM_CAPTURE_MERGE);
AMEM_SAME(kErrorStreamCaptureUnmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
AMEM_SAME(kErrorStreamCaptureUnjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
AMEM_SAME(kErrorStreamCaptureIsolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
AMEM_SAME(kErrorStreamCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
AMEM_SAME(kErrorCapturedEvent, CUDA_ERROR_CAPTURED_EVENT);
AMEM_SAME(kErrorStreamCaptureWrongThread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
AMEM_SAME(kErrorUnknown, CUDA_ERROR_UNKNOWN);

AMEM_SAME(kLimitStackSize, CU_LIMIT_STACK_SIZE);
AMEM_SAME(kLocationDevice, CU_MEM_LOCATION_TYPE_DEVICE);
AMEM_SAME(kAllocationPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
AMEM_SAME(kHandleTypeNone, CU_MEM_HANDLE_TYPE_NONE);
AMEM_SAME(kHandleTypePosixFd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
AMEM_SAME(kAccessNone, CU_MEM_ACCESS_FLAGS_PROT_NONE);
AMEM_SAME(kAccessRead, CU_MEM_ACCESS_FLAGS_PROT_READ);
AMEM_SAME(kAccessReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
AMEM_SAME(kGranularityMinimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
AMEM_SAME(kGranularityRecommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
AMEM_SAME(kRangeHandleDmaBufFd, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
AMEM_SAME(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
AMEM_SAME(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
AMEM_SAME(kCaptureGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL);
AMEM_SAME(kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
AMEM_SAME(kCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
AMEM_SAME(kCaptureStatusNone, CU_STREAM_CAPTURE_STATUS_NONE);
AMEM_SAME(kCaptureStatusActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
AMEM_SAME(kCaptureStatusInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
AMEM_SAME(kMemoryTypeHost, CU_MEMORYTYPE_HOST);
AMEM_SAME(kMemoryTypeDevice, CU_MEMORYTYPE_DEVICE);
AMEM_SAME(kPointerContext, CU_POINTER_ATTRIBUTE_CONTEXT);
AMEM_SAME(kPointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
AMEM_SAME(kPointerDevicePointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
AMEM_SAME(kPointerHostPointer, CU_POINTER_ATTRIBUTE_HOST_POINTER);
AMEM_SAME(kPointerIsManaged, CU_POINTER_ATTRIBUTE_IS_MANAGED);
AMEM_SAME(kPointerDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
AMEM_SAME(kPointerIsLegacyIpcCapable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
AMEM_SAME(kPointerRangeStart, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
AMEM_SAME(kPointerRangeSize, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
AMEM_SAME(kPointerMapped, CU_POINTER_ATTRIBUTE_MAPPED);
AMEM_SAME(kPointerAllowedHandleTypes, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
AMEM_SAME(kPointerIsGpuDirectRdmaCapable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE);
AMEM_SAME(kAttributeMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
AMEM_SAME(kAttributeComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
AMEM_SAME(kAttributeVirtualMemoryManagement,
          CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
AMEM_SAME(kAttributeHandleTypePosixFd,
          CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
AMEM_SAME(kAttributeGpuDirectRdmaWithVmm,
          CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
AMEM_SAME(kAttributeUnifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
AMEM_SAME(kAttributeDmaBuf, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);

static_assert(sizeof(CuAllocationProp) == sizeof(CUmemAllocationProp));
AMEM_SAME_FIELD(CuAllocationProp, type, CUmemAllocationProp, type);
AMEM_SAME_FIELD(CuAllocationProp, requested_handle_types, CUmemAllocationProp,
                requestedHandleTypes);
AMEM_SAME_FIELD(CuAllocationProp, location, CUmemAllocationProp, location);
AMEM_SAME_FIELD(CuAllocationProp, win32_metadata, CUmemAllocationProp, win32HandleMetaData);
AMEM_SAME_FIELD(CuAllocationProp, gpu_direct_rdma_capable, CUmemAllocationProp,
                allocFlags.gpuDirectRDMACapable);
static_assert(sizeof(CuAccessDesc) == sizeof(CUmemAccessDesc));
AMEM_SAME_FIELD(CuAccessDesc, flags, CUmemAccessDesc, flags);
static_assert(sizeof(CuUuid) == sizeof(CUuuid));
static_assert(sizeof(CuIpcMemHandle) == sizeof(CUipcMemHandle));
static_assert(sizeof(CuResult) == sizeof(CUresult));
static_assert(sizeof(CuMemHandle) == sizeof(CUmemGenericAllocationHandle));
static_assert(sizeof(CuDevicePtr) == sizeof(CUdeviceptr));

#if CUDA_VERSION >= 12030
AMEM_SAME(kLocationHost, CU_MEM_LOCATION_TYPE_HOST);
AMEM_SAME(kLocationHostNuma, CU_MEM_LOCATION_TYPE_HOST_NUMA);
AMEM_SAME(kLocationHostNumaCurrent, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
AMEM_SAME(kHandleTypeFabric, CU_MEM_HANDLE_TYPE_FABRIC);
AMEM_SAME(kAttributeHandleTypeFabric, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
AMEM_SAME(kProcAddressSuccess, CU_GET_PROC_ADDRESS_SUCCESS);
AMEM_SAME(kProcAddressNotFound, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
AMEM_SAME(kProcAddressVersionNotSufficient, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
AMEM_SAME(kAttributeMulticast, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED);
static_assert(sizeof(CuMulticastProp) == sizeof(CUmulticastObjectProp));
AMEM_SAME_FIELD(CuMulticastProp, size_bytes, CUmulticastObjectProp, size);
AMEM_SAME_FIELD(CuMulticastProp, handle_types, CUmulticastObjectProp, handleTypes);
#endif

}  // namespace
}  // namespace amem::sim

TEST(CudaAbi, IsThatOfTheToolkit) { SUCCEED() << "cuda.h " << CUDA_VERSION; }
#else
TEST(CudaAbi, IsThatOfTheToolkit) { GTEST_SKIP() << "there is no cuda.h to compare with"; }
#endif
