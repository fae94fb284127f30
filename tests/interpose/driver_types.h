// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// Types of the driver for the stand-ins of libraries that call it (CUDA Driver API, "Virtual Memory
// Management").
#pragma once

#include <stddef.h>

/// CUmemAllocationProp.
typedef struct {
  int type, handle_types;
  int location_type, device;
  void* reserved;
  unsigned char flags[8];
} Properties;

/// CUmemAccessDesc.
typedef struct {
  int location_type, device, flags;
} Access;
