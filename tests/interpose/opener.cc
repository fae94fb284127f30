// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// opener [option ...]: a program that opens NCCL by dlopen(3). In the order of the options:
//   amem=PATH         opens libamem_nccl.so with RTLD_LOCAL and enables it; amem-global=PATH with
//   RTLD_GLOBAL nccl=FILE         opens NCCL with RTLD_LOCAL; nccl-global=, nccl-deep=
//   (RTLD_DEEPBIND) library=PATH      opens a library that is linked with NCCL, and uses NCCL
//   through its `call_nccl` profiling         calls pncclX in place of ncclX communicators makes
//   the communicators now again=FILE        a second NCCL, which works beside the first unknown
//   work by a function that amem does not know
// Then the job works, is paused and works again.
#include <memory>

#include "tests/interpose/nccl_job.h"

namespace {

struct State {
  void* nccl = nullptr;
  void* amem = nullptr;
  const char* prefix = "";
  Nccl functions{};
  std::unique_ptr<Job> job;
};

void* open(const char* file, int flags) {
  void* const handle = dlopen(file, RTLD_NOW | flags);
  if (handle == nullptr) fail(dlerror());
  return handle;
}

const char* value(const char* option, const char* name) {
  const size_t length = strlen(name);
  return strncmp(option, name, length) == 0 && option[length] == '=' ? option + length + 1
                                                                     : nullptr;
}

Job& job_of(State& state) {
  if (state.functions.init_all == nullptr) state.functions = nccl_of(state.nccl, state.prefix);
  if (state.job == nullptr) state.job = std::make_unique<Job>(state.functions);
  return *state.job;
}

void open_amem(State& state, const char* path, int flags) {
  state.amem = open(path, flags);
  void (*enable)();
  find(enable, state.amem, "amemEnable");
  enable();
}

void work_by_unknown_function(State& state) {
  ncclResult_t (*unknown)(void*, size_t, ncclComm_t, amemStream_t);
  find(unknown, state.nccl, "mincclUnknownAllReduce");
  Job& job = job_of(state);
  state.functions.group_start();
  int result = 0;
  for (int i = 0; i < 2; ++i)
    result += unknown(job.buffer(i), Floats::kCount, job.comm(i), nullptr);
  result += state.functions.group_end();
  printf("unknown: %d\n", result);
}

void follow(State& state, const char* option) {
  if (const char* path = value(option, "amem")) return open_amem(state, path, RTLD_LOCAL);
  if (const char* path = value(option, "amem-global")) return open_amem(state, path, RTLD_GLOBAL);
  if (const char* file = value(option, "nccl")) state.nccl = open(file, RTLD_LOCAL);
  if (const char* file = value(option, "nccl-global")) state.nccl = open(file, RTLD_GLOBAL);
  if (const char* file = value(option, "nccl-deep")) state.nccl = open(file, RTLD_DEEPBIND);
  if (const char* path = value(option, "library")) {
    state.nccl = open(path, RTLD_LOCAL);
    const Nccl* functions;
    functions = static_cast<const Nccl*>(dlsym(state.nccl, "call_nccl"));
    state.functions = *functions;
  }
  if (strcmp(option, "profiling") == 0) state.prefix = "p";
  if (strcmp(option, "functions") == 0) state.functions = nccl_of(state.nccl, state.prefix);
  if (strcmp(option, "communicators") == 0) job_of(state);
  if (strcmp(option, "pause") == 0) {
    Amem amem(state.nccl, state.amem);
    amem.pause();
    amem.resume();
  }
  if (strcmp(option, "unknown") == 0) work_by_unknown_function(state);
  if (const char* file = value(option, "again")) {
    Job second(nccl_of(open(file, RTLD_LOCAL), ""));
    second.check("second");
  }
}

}  // namespace

int main(int argc, char** argv) {
  State state;
  for (int i = 1; i < argc; ++i) follow(state, argv[i]);
  pause_and_resume(job_of(state), state.nccl, state.amem);
  return 0;
}
