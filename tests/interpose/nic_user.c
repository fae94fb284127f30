// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// A library that is linked with libibverbs and gdrcopy, as UCX is.
#include <stddef.h>

void* ibv_reg_mr(void*, void*, size_t, int);
void* ibv_reg_dmabuf_mr(void*, size_t, size_t, size_t, int, int);
int gdr_pin_buffer(void*, unsigned long, size_t, unsigned long long, unsigned, void*);

int nic_register(void* address, size_t size_bytes) {
  return ibv_reg_mr(NULL, address, size_bytes, 7) == address ? 0 : -1;
}
int nic_register_dma_buf(void* address, size_t size_bytes) {
  return ibv_reg_dmabuf_mr(NULL, 0, size_bytes, (size_t)address, 3, 7) == address ? 0 : -1;
}
int nic_map(unsigned long address, size_t size_bytes) {
  return gdr_pin_buffer(NULL, address, size_bytes, 0, 0, NULL);
}
