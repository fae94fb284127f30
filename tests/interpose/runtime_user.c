// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// A library that is linked with the CUDA runtime, as PyTorch's allocator is.
#include <stddef.h>

int cudaMalloc(void**, size_t);
int cudaFree(void*);

void* user_malloc(size_t size_bytes) {
  void* pointer = NULL;
  return cudaMalloc(&pointer, size_bytes) == 0 ? pointer : NULL;
}

int user_malloc_result(size_t size_bytes) {
  void* pointer = NULL;
  return cudaMalloc(&pointer, size_bytes);
}

int user_malloc_nowhere(size_t size_bytes) { return cudaMalloc(NULL, size_bytes); }

int user_free(void* pointer) { return cudaFree(pointer); }

// By value, as cudaIpcMemHandle_t.
typedef struct {
  char reserved[64];
} IpcMemHandle;
int cudaIpcGetMemHandle(IpcMemHandle*, void*);
int cudaIpcOpenMemHandle(void**, IpcMemHandle, unsigned);
int cudaIpcCloseMemHandle(void*);

int user_export(void* handle, void* pointer) { return cudaIpcGetMemHandle(handle, pointer); }

void* user_open(const IpcMemHandle* handle) {
  void* pointer = NULL;
  return cudaIpcOpenMemHandle(&pointer, *handle, 1) == 0 ? pointer : NULL;
}

int user_close(void* pointer) { return cudaIpcCloseMemHandle(pointer); }

int cudaDeviceEnablePeerAccess(int, unsigned);
int user_enable_peer(int peer) { return cudaDeviceEnablePeerAccess(peer, 0); }

int cudaMemcpy(void*, const void*, size_t, int);
int cudaDeviceSynchronize(void);
int user_copy(void* to, const void* from, size_t size_bytes) {
  return cudaMemcpy(to, from, size_bytes, 4);
}
int user_synchronize(void) { return cudaDeviceSynchronize(); }
