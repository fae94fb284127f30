// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// opener [option ...]: a program that opens NCCL by dlopen(3). In the order of the options:
//   - amem=PATH: opens libamem_nccl.so with RTLD_LOCAL and enables it; amem-global=PATH with
//     RTLD_GLOBAL
//   - nccl=FILE: opens NCCL with RTLD_LOCAL; nccl-global=, nccl-deep= (RTLD_DEEPBIND)
//   - namespace=FILE: opens NCCL in a namespace of its own
//   - library=PATH: opens a library that is linked with NCCL, and uses NCCL through its `call_nccl`
//   - profiling: calls pncclX in place of ncclX
//   - functions: looks NCCL's functions up now
//   - communicators: makes the communicators now
//   - again=FILE: a second NCCL, which works beside the first
//   - images=FOLDER: loads 4200 libraries, copied from one that is in the folder
//   - unknown: work by a function that amem does not know
//   - pause: pauses and resumes
//   - bind-late: the same after another thread has bound this program's slot of dlsym
// Then the job works, is paused and works again.
#include <filesystem>
#include <memory>
#include <string>

#include "interpose/slots.h"
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

void open_images(const std::string& folder) {
  for (int i = 0; i < 4200; ++i) {
    // The loader knows a file that it has loaded by its name and by its inode.
    const std::string name = folder + "/lib" + std::to_string(i) + ".so";
    std::filesystem::copy_file(folder + "/libtiny.so", name);
    open(name.c_str(), RTLD_LOCAL);
    std::filesystem::remove(name);
  }
}

/// As a thread leaves the slot of dlsym that began to bind it before a scan of amem's, and ends
/// after it.
void bind_dlsym() {
  const auto real = reinterpret_cast<const void*>(amem::first_definition("dlsym"));
  amem::visit_images([&](const amem::Image& image) {
    if (!image.contains(reinterpret_cast<uintptr_t>(&bind_dlsym))) return;
    amem::visit_slots(image, [&](const amem::Slot& slot) {
      if (strcmp(slot.symbol, "dlsym") == 0) amem::set_slot(image, slot, real);
    });
  });
}

void pause(State& state, bool binds_late) {
  Amem amem(state.nccl, state.amem);
  if (binds_late) bind_dlsym();
  amem.pause();
  amem.resume();
}

void follow(State& state, const char* option) {
  if (const char* path = value(option, "amem")) return open_amem(state, path, RTLD_LOCAL);
  if (const char* path = value(option, "amem-global")) return open_amem(state, path, RTLD_GLOBAL);
  if (const char* file = value(option, "nccl")) state.nccl = open(file, RTLD_LOCAL);
  if (const char* file = value(option, "nccl-global")) state.nccl = open(file, RTLD_GLOBAL);
  if (const char* file = value(option, "nccl-deep")) state.nccl = open(file, RTLD_DEEPBIND);
  if (const char* file = value(option, "namespace"))
    if (dlmopen(LM_ID_NEWLM, file, RTLD_NOW) == nullptr) fail(dlerror());
  if (const char* path = value(option, "library")) {
    state.nccl = open(path, RTLD_LOCAL);
    const Nccl* functions;
    functions = static_cast<const Nccl*>(dlsym(state.nccl, "call_nccl"));
    state.functions = *functions;
  }
  if (const char* folder = value(option, "images")) open_images(folder);
  if (strcmp(option, "profiling") == 0) state.prefix = "p";
  if (strcmp(option, "functions") == 0) state.functions = nccl_of(state.nccl, state.prefix);
  if (strcmp(option, "communicators") == 0) job_of(state);
  if (strcmp(option, "pause") == 0) pause(state, false);
  if (strcmp(option, "bind-late") == 0) pause(state, true);
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
