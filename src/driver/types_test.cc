// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Holds types.h and functions.def against the toolkit's cuda.h. A test at compile time, where there
// is one. Our header comes first: cuda.h then maps un-suffixed names to the newest form by macros.
#include "driver/driver.h"
//
#include <cuda.h>

#include <type_traits>

#if CUDA_VERSION < 13030  // as the CUDA Driver API has them, Logical Endpoint
extern "C" CUresult cuLogicalEndpointBindMem(cuuint32_t, CUdevice, cuuint64_t,
                                             CUmemGenericAllocationHandle, cuuint64_t, cuuint64_t,
                                             unsigned long long);
extern "C" CUresult cuLogicalEndpointBindAddr(cuuint32_t, CUdevice, cuuint64_t, void*, cuuint64_t,
                                              unsigned long long);
#endif

#undef cuGetProcAddress
extern "C" CUresult cuGetProcAddress(const char*, void**, int, cuuint64_t);
// The toolkit's headers declare older forms only for NVIDIA's own use, and do not declare newer
// ones.
extern "C" CUresult cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus*, cuuint64_t*,
                                              CUgraph*, const CUgraphNode**, size_t*);
#if CUDA_VERSION < 12030
extern "C" CUresult cuStreamGetCaptureInfo_v3(CUstream, CUstreamCaptureStatus*, cuuint64_t*,
                                              CUgraph*, const CUgraphNode**, const void**, size_t*);
#endif

namespace amem {

static_assert(sizeof(DriverResult) == sizeof(CUresult));
static_assert(sizeof(DriverHandle) == sizeof(CUmemGenericAllocationHandle));
static_assert(sizeof(DeviceAddress) == sizeof(CUdeviceptr));
static_assert(std::is_same_v<DriverContext, CUcontext> && std::is_same_v<DriverStream, CUstream>);
static_assert(std::is_same_v<DriverModule, CUmodule> && std::is_same_v<DriverKernel, CUfunction>);
static_assert(sizeof(Location) == sizeof(CUmemLocation) &&
              offsetof(Location, id) == offsetof(CUmemLocation, id));
static_assert(sizeof(Access) == sizeof(CUmemAccessDesc) &&
              offsetof(Access, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(AllocationProperties, gpu_direct_rdma_capable) ==
              offsetof(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable));
static_assert(offsetof(AllocationProperties, usage) ==
              offsetof(CUmemAllocationProp, allocFlags.usage));
static_assert(kAttributeMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kLocationDevice == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(kHandleTypeFd == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(kHandleTypeFabric == CU_MEM_HANDLE_TYPE_FABRIC);
static_assert(kAttributeFabric == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
static_assert(kCaptureModeRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(kCaptureStatusNone == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(std::is_same_v<DriverEvent, CUevent> &&
              kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kLimitStackSize == CU_LIMIT_STACK_SIZE);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(driver_result::kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY &&
              driver_result::kNotFound == CUDA_ERROR_NOT_FOUND);
static_assert(driver_result::kInvalidDevice == CUDA_ERROR_INVALID_DEVICE);
static_assert(driver_result::kUnknown == CUDA_ERROR_UNKNOWN);

/// True if the parameters are equal in number and size. Pointer and enum types may differ.
template <typename... A, typename... B>
constexpr bool same_shape(DriverResult (*)(A...), CUresult (*)(B...)) {
  if constexpr (sizeof...(A) != sizeof...(B)) {
    return false;
  } else {
    return ((sizeof(A) == sizeof(B)) && ...);
  }
}

#define AMEM_DRIVER_FUNCTION(name, symbol, since, handling, parameters)                            \
  static_assert(same_shape(decltype(Driver::symbol){}, static_cast<decltype(&::symbol)>(nullptr)), \
                #symbol);
#include "driver/functions.def"
#undef AMEM_DRIVER_FUNCTION

}  // namespace amem
