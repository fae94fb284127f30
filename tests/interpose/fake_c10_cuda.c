// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// The driver calls of PyTorch's libc10_cuda.so: a table that is filled at the first use, symmetric
// memory, and expandable segments.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "driver_types.h"

int cudaGetDriverEntryPointByVersion(const char*, void**, unsigned, unsigned long long, int*);
int cudaSetDevice(int);

typedef struct {
  unsigned devices;
  size_t size_bytes;
  unsigned long long handle_types, flags;
} MulticastProperties;

static struct {
  int (*cuMemGetAllocationGranularity)(size_t*, const Properties*, int);
  int (*cuMemCreate)(uint64_t*, size_t, const Properties*, unsigned long long);
  int (*cuMemRelease)(uint64_t);
  int (*cuMemAddressReserve)(uint64_t*, size_t, size_t, uint64_t, unsigned long long);
  int (*cuMemMap)(uint64_t, size_t, size_t, uint64_t, unsigned long long);
  int (*cuMemUnmap)(uint64_t, size_t);
  int (*cuMemSetAccess)(uint64_t, size_t, const Access*, size_t);
  int (*cuMemExportToShareableHandle)(void*, uint64_t, int, unsigned long long);
  int (*cuMemImportFromShareableHandle)(uint64_t*, void*, int);
  int (*cuMulticastCreate)(uint64_t*, const MulticastProperties*);
  int (*cuMulticastAddDevice)(uint64_t, int);
  int (*cuMulticastBindMem)(uint64_t, size_t, uint64_t, size_t, size_t, unsigned long long);
} table;

#define FIND(name) \
  (cudaGetDriverEntryPointByVersion(#name, (void**)&table.name, 12000, 0, &status) != 0)

int c10_init(void) {
  int status = 0;
  return cudaSetDevice(0) != 0 || FIND(cuMemGetAllocationGranularity) || FIND(cuMemCreate) ||
         FIND(cuMemRelease) || FIND(cuMemAddressReserve) || FIND(cuMemMap) || FIND(cuMemUnmap) ||
         FIND(cuMemSetAccess) || FIND(cuMemExportToShareableHandle) ||
         FIND(cuMemImportFromShareableHandle) || FIND(cuMulticastCreate) ||
         FIND(cuMulticastAddDevice) || FIND(cuMulticastBindMem);
}

static uint64_t map(uint64_t handle, size_t size_bytes) {
  uint64_t address = 0;
  const Access access = {1, 0, 3};
  if (table.cuMemAddressReserve(&address, size_bytes, 0, 0, 0) != 0 ||
      table.cuMemMap(address, size_bytes, 0, handle, 0) != 0 ||
      table.cuMemSetAccess(address, size_bytes, &access, 1) != 0)
    return 0;
  return address;
}

static uint64_t symmetric(size_t size_bytes, int handle_type, uint64_t* handle) {
  const Properties properties = {1, handle_type, 1, 0, NULL, {0}};
  size_t granularity = 0;
  if (table.cuMemGetAllocationGranularity(&granularity, &properties, 1) != 0 ||
      table.cuMemCreate(handle, size_bytes, &properties, 0) != 0)
    return 0;
  return map(*handle, size_bytes);
}

/// As CUDASymmetricMemoryAllocator::alloc(): stores the handle, which PyTorch keeps.
uint64_t c10_symmetric(size_t size_bytes, uint64_t* handle) {
  return symmetric(size_bytes, 1, handle);
}

/// The same where get_fabric_access() finds an IMEX channel, and the rendezvous through a store.
uint64_t c10_fabric_symmetric(size_t size_bytes, uint64_t* handle) {
  return symmetric(size_bytes, 8, handle);
}

int c10_export_fabric(uint64_t handle, unsigned char name[64]) {
  return table.cuMemExportToShareableHandle(name, handle, 8, 0);
}

uint64_t c10_import_fabric(unsigned char name[64], size_t size_bytes, uint64_t* handle) {
  return table.cuMemImportFromShareableHandle(handle, name, 8) != 0 ? 0 : map(*handle, size_bytes);
}

/// As an expandable segment.
uint64_t c10_segment(size_t size_bytes, uint64_t* handle) {
  const Properties properties = {1, 1, 1, 0, NULL, {0}};
  return table.cuMemCreate(handle, size_bytes, &properties, 0) != 0 ? 0 : map(*handle, size_bytes);
}

int c10_export(uint64_t handle) {
  int fd = -1;
  return table.cuMemExportToShareableHandle(&fd, handle, 1, 0) == 0 ? fd : -1;
}

uint64_t c10_import(int fd, size_t size_bytes, uint64_t* handle) {
  if (table.cuMemImportFromShareableHandle(handle, (void*)(intptr_t)fd, 1) != 0) return 0;
  return map(*handle, size_bytes);
}

/// As CUDASymmetricMemoryAllocator::rendezvous() on a machine with multicast, for both ranks.
/// Returns the address at which the multicast object is mapped.
uint64_t c10_multicast(uint64_t handle, size_t size_bytes) {
  const MulticastProperties properties = {2, size_bytes, 1, 0};
  uint64_t multicast = 0;
  if (table.cuMulticastCreate(&multicast, &properties) != 0 ||
      table.cuMulticastAddDevice(multicast, 0) != 0 ||
      table.cuMulticastAddDevice(multicast, 1) != 0 ||
      table.cuMulticastBindMem(multicast, 0, handle, 0, size_bytes, 0) != 0)
    return 0;
  return map(multicast, size_bytes);
}

int c10_free(uint64_t address, size_t size_bytes, uint64_t handle) {
  return table.cuMemUnmap(address, size_bytes) != 0 || table.cuMemRelease(handle) != 0;
}
