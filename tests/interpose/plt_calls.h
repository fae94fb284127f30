// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// For programs and libraries that are linked with libnccl.
#pragma once

#include "tests/interpose/nccl_job.h"

// Each is one call through the PLT of the image that includes this.
static const Nccl kCalls{[](ncclComm_t* comms, int count, const int* devices) {
                           return ncclCommInitAll(comms, count, devices);
                         },
                         [](const void* send, void* recv, size_t count, ncclDataType_t type,
                            ncclRedOp_t op, ncclComm_t comm, amemStream_t stream) {
                           return ncclAllReduce(send, recv, count, type, op, comm, stream);
                         },
                         [] { return ncclGroupStart(); }, [] { return ncclGroupEnd(); },
                         [](ncclComm_t comm) { return ncclCommDestroy(comm); }};
