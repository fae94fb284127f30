// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Compares driver.h and driver_functions.def with the toolkit's cuda.h. A test at compile time,
// where there is one. Our header comes first: cuda.h then maps names to the newest form by macros.
#include "symmetric/driver.h"
//
#include <cuda.h>

#include <cstddef>

namespace amem::symmetric {

static_assert(sizeof(Access) == sizeof(CUmemAccessDesc) &&
              offsetof(Access, location_id) == offsetof(CUmemAccessDesc, location.id) &&
              offsetof(Access, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(sizeof(MulticastProperties) == sizeof(CUmulticastObjectProp) &&
              offsetof(MulticastProperties, devices) ==
                  offsetof(CUmulticastObjectProp, numDevices) &&
              offsetof(MulticastProperties, size_bytes) == offsetof(CUmulticastObjectProp, size) &&
              offsetof(MulticastProperties, handle_types) ==
                  offsetof(CUmulticastObjectProp, handleTypes));
static_assert(kNotReady == CUDA_ERROR_NOT_READY);
static_assert(kLocationDevice == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(kAccessReadWrite == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(kHandleTypeFd == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(kGranularityMinimum == CU_MULTICAST_GRANULARITY_MINIMUM);
static_assert(kAttributeMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kAttributeMulticast == CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED);

/// True if the parameters are equal in number and size. Pointer and enum types may differ.
template <typename... A, typename... B>
constexpr bool same_shape(DriverResult (*)(A...), CUresult (*)(B...)) {
  if constexpr (sizeof...(A) != sizeof...(B)) {
    return false;
  } else {
    return ((sizeof(A) == sizeof(B)) && ...);
  }
}

#define AMEM_SYMMETRIC_FUNCTION(symbol, parameters)                                                \
  static_assert(same_shape(decltype(Driver::symbol){}, static_cast<decltype(&::symbol)>(nullptr)), \
                #symbol);
#include "symmetric/driver_functions.def"
#undef AMEM_SYMMETRIC_FUNCTION

}  // namespace amem::symmetric
