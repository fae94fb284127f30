// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// linked calls|table|settings: a program that is linked with libnccl. "calls" goes through the PLT,
// "table" through a table of function addresses, which the loader fills at the start. "settings"
// sets amem's variables and prints what became of them.
#include "tests/interpose/plt_calls.h"

namespace {

const Nccl kTable{ncclCommInitAll, ncclAllReduce, ncclGroupStart, ncclGroupEnd, ncclCommDestroy};

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "settings") == 0) {
    setenv("AMEM_GROUPID", "7", 1);
    int (*get_group)(int*);
    int group = -1;
    find(get_group, RTLD_DEFAULT, "ncclGetGroupID");
    const int result = get_group(&group);
    printf("group %d\n", group);
    return result;
  }
  Job job(argc > 1 && strcmp(argv[1], "table") == 0 ? kTable : kCalls);
  pause_and_resume(job, RTLD_DEFAULT, nullptr);
  return 0;
}
