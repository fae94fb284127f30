// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// A CUDA runtime with the functions that tests use, on device 0 until cudaSetDevice(). The look-ups
// find the runtime itself under the name "runtime".
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

enum { kSuccess = 0, kNotFound = 500 };

static void* driver_function(const char* name) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  return driver == NULL ? NULL : dlsym(driver, name);
}

static int find(const char* name, void** function) {
  *function = (void*)find;
  if (strcmp(name, "runtime") == 0) return kSuccess;
  *function = driver_function(name);
  return *function == NULL ? kNotFound : kSuccess;
}

int cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                            int* status) {
  (void)flags;
  return *status = find(name, function);
}

int cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                     unsigned long long flags, int* status) {
  (void)version;
  (void)flags;
  return *status = find(name, function);
}

// --- Memory

#define CALL(name, ...) ((int (*)())driver_function(name))(__VA_ARGS__)

int cudaSetDevice(int device) {
  void* context = NULL;
  int result = CALL("cuInit", 0);
  if (result == kSuccess) result = CALL("cuDevicePrimaryCtxRetain", &context, device);
  return result == kSuccess ? CALL("cuCtxSetCurrent", context) : result;
}

static int use_context(void) {
  void* context = NULL;
  CALL("cuInit", 0);
  CALL("cuCtxGetCurrent", &context);
  return context == NULL ? cudaSetDevice(0) : kSuccess;
}

int cudaMalloc(void** pointer, size_t size_bytes) {
  const int ready = use_context();
  return ready == kSuccess ? CALL("cuMemAlloc_v2", pointer, size_bytes) : ready;
}

int cudaFree(void* pointer) {
  const int ready = use_context();
  return ready == kSuccess && pointer != NULL ? CALL("cuMemFree_v2", pointer) : ready;
}

typedef struct {
  char reserved[64];
} IpcMemHandle;

int cudaIpcGetMemHandle(IpcMemHandle* handle, void* pointer) {
  memset(handle, 0x55, sizeof *handle);
  memcpy(handle, &pointer, sizeof pointer);
  return kSuccess;
}

int cudaIpcOpenMemHandle(void** pointer, IpcMemHandle handle, unsigned flags) {
  (void)flags;
  *pointer = (void*)0x5555;
  return handle.reserved[63] == 0x55 ? kSuccess : 1;
}

int cudaIpcCloseMemHandle(void* pointer) { return pointer == (void*)0x5555 ? kSuccess : 1; }

int cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  void* context = NULL;
  int result = use_context();
  if (result == kSuccess) result = CALL("cuDevicePrimaryCtxRetain", &context, peer);
  return result == kSuccess ? CALL("cuCtxEnablePeerAccess", context, flags) : result;
}

int cudaMemset(void* pointer, int value, size_t size_bytes) {
  return CALL("cuMemsetD8_v2", pointer, (unsigned char)value, size_bytes);
}

int cudaMemcpy(void* to, const void* from, size_t size_bytes, int kind) {
  (void)kind;
  return CALL("cuMemcpy", to, from, size_bytes);
}

// What a kernel's illegal address becomes.
int cudaDeviceSynchronize(void) { return use_context() == kSuccess ? 700 : 1; }

int cudaMemcpyToHost(void* to, const void* from, size_t size_bytes) {
  return CALL("cuMemcpyDtoH_v2", to, from, size_bytes);
}
