// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// An allocator for PyTorch's pools with the driver calls of vLLM's CuMemAllocator, in their order:
// memory for GPUDirect RDMA and with fabric handles where the GPU says that it has them
// (vllm-project/vllm#33540), which sleeps and wakes at its address.
#include <cuda.h>
#include <stddef.h>

enum { kMost = 64 };
static struct Block {
  CUdeviceptr address;
  size_t size_bytes;
  int device;
  CUmemGenericAllocationHandle handle;
} blocks[kMost];

static int attribute(CUdevice_attribute which, int device) {
  int value = 0;
  return cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS && value != 0;
}

static int fill(struct Block* block) {
  CUmemAllocationProp wanted = {0};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted.location.id = block->device;
  if (attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, block->device))
    wanted.allocFlags.gpuDirectRDMACapable = 1;
  if (attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, block->device))
    wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  const CUmemAccessDesc access = {wanted.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  // GPUs without an IMEX channel say so too.
  if (cuMemCreate(&block->handle, block->size_bytes, &wanted, 0) == CUDA_ERROR_NOT_PERMITTED) {
    wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    if (cuMemCreate(&block->handle, block->size_bytes, &wanted, 0) != CUDA_SUCCESS) return 0;
  }
  return block->handle != 0 &&
         cuMemMap(block->address, block->size_bytes, 0, block->handle, 0) == CUDA_SUCCESS &&
         cuMemSetAccess(block->address, block->size_bytes, &access, 1) == CUDA_SUCCESS;
}

static int empty(struct Block* block) {
  const CUmemGenericAllocationHandle handle = block->handle;
  block->handle = 0;
  return cuMemUnmap(block->address, block->size_bytes) == CUDA_SUCCESS &&
         cuMemRelease(handle) == CUDA_SUCCESS;
}

static struct Block* block_at(CUdeviceptr address) {
  for (struct Block* block = blocks; block < blocks + kMost; ++block)
    if (block->address == address) return block;
  return NULL;
}

void* cumem_malloc(ptrdiff_t size, int device, CUstream stream) {
  (void)stream;
  CUmemAllocationProp asked = {0};
  asked.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  asked.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  asked.location.id = device;
  size_t unit = 0;
  struct Block* const block = block_at(0);
  if (block == NULL || cuMemGetAllocationGranularity(
                           &unit, &asked, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS)
    return NULL;
  *block = (struct Block){0, ((size_t)size + unit - 1) / unit * unit, device, 0};
  if (cuMemAddressReserve(&block->address, block->size_bytes, 0, 0, 0) != CUDA_SUCCESS ||
      !fill(block))
    return NULL;
  return (void*)block->address;
}

void cumem_free(void* pointer, ptrdiff_t size, int device, CUstream stream) {
  (void)size, (void)device, (void)stream;
  struct Block* const block = block_at((CUdeviceptr)pointer);
  if (block == NULL || !empty(block)) return;
  cuMemAddressFree(block->address, block->size_bytes);
  block->address = 0;
}

int cumem_sleep_and_wake(void* pointer) {
  struct Block* const block = block_at((CUdeviceptr)pointer);
  return block != NULL && empty(block) && fill(block);
}

/// As a library for transfers between nodes does with the address.
int cumem_export(void* pointer, void* name) {
  CUmemGenericAllocationHandle handle = 0;
  return cuMemRetainAllocationHandle(&handle, pointer) == CUDA_SUCCESS &&
         cuMemExportToShareableHandle(name, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0) == CUDA_SUCCESS &&
         cuMemRelease(handle) == CUDA_SUCCESS;
}
