// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// linked calls|table: a program that is linked with libnccl. "calls" goes through the PLT, "table"
// through a table of function addresses, which the loader fills at the start.
#include "tests/interpose/nccl_job.h"

namespace {

const Nccl kTable{ncclCommInitAll, ncclAllReduce, ncclGroupStart, ncclGroupEnd, ncclCommDestroy};

// Each is one call through the PLT.
const Nccl kCalls{[](ncclComm_t* comms, int count, const int* devices) {
                    return ncclCommInitAll(comms, count, devices);
                  },
                  [](const void* send, void* recv, size_t count, ncclDataType_t type,
                     ncclRedOp_t op, ncclComm_t comm, amemStream_t stream) {
                    return ncclAllReduce(send, recv, count, type, op, comm, stream);
                  },
                  [] { return ncclGroupStart(); }, [] { return ncclGroupEnd(); },
                  [](ncclComm_t comm) { return ncclCommDestroy(comm); }};

}  // namespace

int main(int argc, char** argv) {
  Job job(argc > 1 && strcmp(argv[1], "table") == 0 ? kTable : kCalls);
  pause_and_resume(job, RTLD_DEFAULT, nullptr);
  return 0;
}
