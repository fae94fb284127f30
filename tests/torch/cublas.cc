// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The functions of cuBLAS and cuBLASLt that PyTorch calls for a matrix product. A product writes
// its workspace, as on a GPU: that fails if the workspace is not there. It computes nothing.
// Preloaded with cudart.cc.
#include <cublasLt.h>
#include <cublas_v2.h>

#include <algorithm>
#include <list>
#include <mutex>
#include <type_traits>

#define AMEM_CUBLAS_API extern "C" __attribute__((visibility("default")))

namespace {

struct Handle {
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};

Handle* of(cublasHandle_t handle) { return reinterpret_cast<Handle*>(handle); }

cublasStatus_t write(void* workspace, size_t size_bytes, cudaStream_t stream) {
  const cudaError_t written =
      size_bytes == 0 ? cudaSuccess
                      : cudaMemsetAsync(workspace, 1, std::min(size_bytes, size_t{4096}), stream);
  return written == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

template <typename Object>
Object object_without_contents() {
  static std::remove_pointer_t<Object> object{};
  return &object;
}

}  // namespace

AMEM_CUBLAS_API cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  static std::mutex mutex;
  static std::list<Handle> handles;  // PyTorch destroys none
  const std::lock_guard lock(mutex);
  *handle = reinterpret_cast<cublasHandle_t>(&handles.emplace_back());
  return CUBLAS_STATUS_SUCCESS;
}
AMEM_CUBLAS_API cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  *of(handle) = {.stream = stream};  // the workspace is the default one after it
  return CUBLAS_STATUS_SUCCESS;
}
AMEM_CUBLAS_API cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace,
                                                     size_t size_bytes) {
  of(handle)->workspace = workspace;
  of(handle)->workspace_bytes = size_bytes;
  return CUBLAS_STATUS_SUCCESS;
}
AMEM_CUBLAS_API cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) {
  return CUBLAS_STATUS_SUCCESS;
}
AMEM_CUBLAS_API cublasStatus_t cublasGetMathMode(cublasHandle_t, cublasMath_t* mode) {
  *mode = CUBLAS_DEFAULT_MATH;
  return CUBLAS_STATUS_SUCCESS;
}
AMEM_CUBLAS_API cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t,
                                              cublasOperation_t, int, int, int, const float*,
                                              const float*, int, const float*, int, const float*,
                                              float*, int) {
  return write(of(handle)->workspace, of(handle)->workspace_bytes, of(handle)->stream);
}
AMEM_CUBLAS_API cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t,
                                            cublasOperation_t, int, int, int, const void*,
                                            const void*, cudaDataType, int, const void*,
                                            cudaDataType, int, const void*, void*, cudaDataType,
                                            int, cublasComputeType_t, cublasGemmAlgo_t) {
  return write(of(handle)->workspace, of(handle)->workspace_bytes, of(handle)->stream);
}

// --- cuBLASLt. Its objects have no contents.

AMEM_CUBLAS_API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* object,
                                                        cublasComputeType_t, cudaDataType_t) {
  *object = object_without_contents<std::remove_pointer_t<decltype(object)>>();
  return CUBLAS_STATUS_SUCCESS;
}
AMEM_CUBLAS_API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t) {
  return CUBLAS_STATUS_SUCCESS;
}
AMEM_CUBLAS_API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t,
                                                              cublasLtMatmulDescAttributes_t,
                                                              const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
AMEM_CUBLAS_API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* object,
                                                          cudaDataType, uint64_t, uint64_t,
                                                          int64_t) {
  *object = object_without_contents<std::remove_pointer_t<decltype(object)>>();
  return CUBLAS_STATUS_SUCCESS;
}
AMEM_CUBLAS_API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t) {
  return CUBLAS_STATUS_SUCCESS;
}
AMEM_CUBLAS_API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t,
                                                                cublasLtMatrixLayoutAttribute_t,
                                                                const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
AMEM_CUBLAS_API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* object) {
  *object = object_without_contents<std::remove_pointer_t<decltype(object)>>();
  return CUBLAS_STATUS_SUCCESS;
}
AMEM_CUBLAS_API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) {
  return CUBLAS_STATUS_SUCCESS;
}
AMEM_CUBLAS_API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
AMEM_CUBLAS_API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
    cublasLtMatmulHeuristicResult_t results[], int* count) {
  results[0] = {};
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}
AMEM_CUBLAS_API cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*,
                                              const void*, cublasLtMatrixLayout_t, const void*,
                                              cublasLtMatrixLayout_t, const void*, const void*,
                                              cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t,
                                              const cublasLtMatmulAlgo_t*, void* workspace,
                                              size_t size_bytes, cudaStream_t stream) {
  return write(workspace, size_bytes, stream);
}
