// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// A library that is linked with libnccl, as libtorch_cuda.so is.
#include "tests/interpose/plt_calls.h"

extern "C" [[gnu::visibility("default")]] const Nccl call_nccl;
const Nccl call_nccl = kCalls;
