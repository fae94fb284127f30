/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: 2026 The amem authors
 *
 * What a kernel gets of a handle of symmetric memory. For amem/symmetric.h and amem/symmetric.cuh.
 */
#ifndef AMEM_SYMMETRIC_VIEW_H_
#define AMEM_SYMMETRIC_VIEW_H_

#include <stddef.h>
#include <stdint.h>

#define AMEM_SYMMETRIC_MAX_RANKS 16

typedef struct {
  unsigned char* buffers[AMEM_SYMMETRIC_MAX_RANKS];    /* of each rank */
  unsigned char* workspaces[AMEM_SYMMETRIC_MAX_RANKS]; /* of each rank: amem's own */
  void* report;                                        /* amem's own */
  size_t buffer_bytes;
  uint32_t rank;
  uint32_t world_size;
} amemSymmetricView_t;

#endif /* AMEM_SYMMETRIC_VIEW_H_ */
