// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// The driver calls of NVSHMEM's libnvshmem_host.so: functions that it looks up itself, and a heap
// of two PEs at addresses that are reserved at once.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#include "driver_types.h"

int cudaSetDevice(int);

static const Properties kProperties = {1, 1, 1, 0, NULL, {0}};
enum { kPes = 2, kHeapBytes = 64 << 20 };

static struct {
  int (*cuMemGetAllocationGranularity)(size_t*, const Properties*, int);
  int (*cuMemGetHandleForAddressRange)(void*, uint64_t, size_t, int, unsigned long long);
  int (*cuMemCreate)(uint64_t*, size_t, const Properties*, unsigned long long);
  int (*cuMemRelease)(uint64_t);
  int (*cuMemAddressReserve)(uint64_t*, size_t, size_t, uint64_t, unsigned long long);
  int (*cuMemAddressFree)(uint64_t, size_t);
  int (*cuMemMap)(uint64_t, size_t, size_t, uint64_t, unsigned long long);
  int (*cuMemUnmap)(uint64_t, size_t);
  int (*cuMemSetAccess)(uint64_t, size_t, const Access*, size_t);
  int (*cuMemExportToShareableHandle)(void*, uint64_t, int, unsigned long long);
  int (*cuMemImportFromShareableHandle)(uint64_t*, void*, int);
} table;
static uint64_t heap;
static size_t used;

#define FIND(name, version) (get(#name, (void**)&table.name, version, 0) != 0)

/// As nvshmemi_cuda_library_init() and reserve_heap().
int nvshmem_begin(void) {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);
  int (*get)(const char*, void**, int, uint64_t) = NULL;
  size_t granularity = 0;
  *(void**)&get = dlsym(driver, "cuGetProcAddress");
  return get == NULL || cudaSetDevice(0) != 0 || FIND(cuMemGetAllocationGranularity, 10020) ||
         FIND(cuMemGetHandleForAddressRange, 11070) || FIND(cuMemCreate, 10020) ||
         FIND(cuMemRelease, 10020) || FIND(cuMemAddressReserve, 10020) ||
         FIND(cuMemAddressFree, 10020) || FIND(cuMemMap, 10020) || FIND(cuMemUnmap, 10020) ||
         FIND(cuMemSetAccess, 10020) || FIND(cuMemExportToShareableHandle, 10020) ||
         FIND(cuMemImportFromShareableHandle, 10020) ||
         table.cuMemGetAllocationGranularity(&granularity, &kProperties, 1) != 0 ||
         table.cuMemAddressReserve(&heap, kPes * (size_t)kHeapBytes, 0, 0, 0) != 0;
}

/// As allocate_physical_memory_to_heap(): returns the address and stores the handle.
uint64_t nvshmem_grow(size_t size_bytes, uint64_t* handle) {
  const Access access = {1, 0, 3};
  const uint64_t address = heap + used;
  if (table.cuMemCreate(handle, size_bytes, &kProperties, 0) != 0 ||
      table.cuMemMap(address, size_bytes, 0, *handle, 0) != 0 ||
      table.cuMemSetAccess(address, size_bytes, &access, 1) != 0)
    return 0;
  used += size_bytes;
  return address;
}

int nvshmem_export(uint64_t handle) {
  int fd = -1;
  return table.cuMemExportToShareableHandle(&fd, handle, 1, 0) == 0 ? fd : -1;
}

/// As import_memory(), into the other PE's part of the addresses: the handle is released before the
/// access is set.
uint64_t nvshmem_import(int fd, size_t size_bytes, size_t offset) {
  const Access access = {1, 0, 3};
  const uint64_t address = heap + kHeapBytes + offset;
  uint64_t handle = 0;
  if (table.cuMemImportFromShareableHandle(&handle, (void*)(intptr_t)fd, 1) != 0 ||
      table.cuMemMap(address, size_bytes, 0, handle, 0) != 0 || table.cuMemRelease(handle) != 0 ||
      table.cuMemSetAccess(address, size_bytes, &access, 1) != 0)
    return 0;
  return address;
}

int nvshmem_dma_buf(uint64_t address, size_t size_bytes) {
  int fd = -1;
  return table.cuMemGetHandleForAddressRange(&fd, address, size_bytes, 1, 0) == 0 ? fd : -1;
}

/// As cleanup_symmetric_heap(): all of this PE's memory at once, its handles, and then all that
/// lies in the other PE's part of the addresses.
int nvshmem_end(const uint64_t* handles, int count) {
  if (used > 0 && table.cuMemUnmap(heap, used) != 0) return 1;
  for (int i = 0; i < count; ++i)
    if (table.cuMemRelease(handles[i]) != 0) return 2;
  if (table.cuMemUnmap(heap + kHeapBytes, kHeapBytes) != 0) return 3;
  return table.cuMemAddressFree(heap, kPes * (size_t)kHeapBytes);
}

/// What a look-up for the libraries after this one finds.
void* nvshmem_next(const char* name) { return dlsym(RTLD_NEXT, name); }
