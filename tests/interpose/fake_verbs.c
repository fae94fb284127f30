// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// Functions of libibverbs and gdrcopy that use memory by its physical addresses. They refuse 999
// bytes.
#include <stddef.h>

void* ibv_reg_mr(void* domain, void* address, size_t size_bytes, int access) {
  (void)access;
  return size_bytes == 999 ? NULL : domain != NULL ? domain : address;
}

int gdr_pin_buffer(void* gdr, unsigned long address, size_t size_bytes, unsigned long long token,
                   unsigned space, void* handle) {
  (void)gdr, (void)address, (void)token, (void)space, (void)handle;
  return size_bytes == 999 ? 22 : 0;
}
