// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// A CUDA runtime with the functions that tests use, on device 0 until cudaSetDevice(). The look-ups
// find the runtime itself under the name "runtime".
//
// With STATIC_CUDART it is a part of a program, and finds the driver's functions as
// libcudart_static does: dlsym(3) for cuGetProcAddress(), which finds the others.
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

enum { kSuccess = 0, kNotFound = 500 };

static void* driver_function(const char* name) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) return NULL;
#ifdef STATIC_CUDART
  char plain_name[64] = "";
  const char* version = strstr(name, "_v2");
  strncat(plain_name, name, version != NULL ? (size_t)(version - name) : sizeof plain_name - 1);
  void* function = NULL;
  int (*look_up)() = (int (*)())dlsym(driver, "cuGetProcAddress_v2");
  // The static runtime asks this function for itself.
  if (look_up("cuGetProcAddress", &function, 12000, 0LL, NULL) != kSuccess) return NULL;
  return ((int (*)())function)(plain_name, &function, 12000, 0LL, NULL) == kSuccess ? function
                                                                                    : NULL;
#else
  return dlsym(driver, name);
#endif
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
  const int result = CALL("cuCtxGetCurrent", &context);
  return result == kSuccess && context == NULL ? cudaSetDevice(0) : result;
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

#ifdef STATIC_CUDART
int cudaIpcGetMemHandle(IpcMemHandle* handle, void* pointer) {
  return CALL("cuIpcGetMemHandle", handle, pointer);
}

int cudaIpcOpenMemHandle(void** pointer, IpcMemHandle handle, unsigned flags) {
  const int ready = use_context();
  return ready == kSuccess ? CALL("cuIpcOpenMemHandle", pointer, handle, flags) : ready;
}

int cudaIpcCloseMemHandle(void* pointer) { return CALL("cuIpcCloseMemHandle", pointer); }
#else
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
#endif

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
