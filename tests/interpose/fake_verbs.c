// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// Functions of libibverbs and gdrcopy that use memory by its physical addresses. They refuse 999
// bytes. As in libibverbs, one has an earlier version for programs that were linked with it.
#include <stddef.h>

static void* registered(void* address, size_t size_bytes) {
  return size_bytes == 999 ? NULL : address;
}

void* reg_mr_1_0(void* domain, void* address, size_t size_bytes, int access) {
  (void)domain, (void)address, (void)size_bytes, (void)access;
  return NULL;
}
__asm__(".symver reg_mr_1_0, ibv_reg_mr@IBVERBS_1.0");

void* reg_mr_1_1(void* domain, void* address, size_t size_bytes, int access) {
  (void)domain, (void)access;
  return registered(address, size_bytes);
}
__asm__(".symver reg_mr_1_1, ibv_reg_mr@@IBVERBS_1.1");

void* ibv_reg_dmabuf_mr(void* domain, size_t offset, size_t size_bytes, size_t address, int fd,
                        int access) {
  (void)domain, (void)offset, (void)fd, (void)access;
  return registered((void*)address, size_bytes);
}

int gdr_pin_buffer(void* gdr, unsigned long address, size_t size_bytes, unsigned long long token,
                   unsigned space, void* handle) {
  (void)gdr, (void)address, (void)token, (void)space, (void)handle;
  return size_bytes == 999 ? 22 : 0;
}
