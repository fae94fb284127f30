// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// churn ROUNDS NCCL LIBRARY OTHER: one thread opens, uses and closes LIBRARY, which calls NCCL,
// another thread does so with OTHER, and two look up functions of NCCL and call them. Ends with
// "done".
#include <pthread.h>

#include <atomic>

#include "tests/interpose/nccl_job.h"

namespace {

int g_rounds = 0;
const char* g_library = nullptr;
const char* g_other = nullptr;
void* g_nccl = nullptr;
std::atomic<bool> g_stop{false};

void* open_and_close(void*) {
  for (int i = 0; i < g_rounds; ++i) {
    void* const handle = dlopen(g_library, RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) fail(dlerror());
    const auto* functions = static_cast<const Nccl*>(dlsym(handle, "call_nccl"));
    functions->group_start();
    functions->group_end();
    dlclose(handle);
  }
  g_stop = true;
  return nullptr;
}

void* look_up_and_call(void*) {
  while (!g_stop) {
    const Nccl nccl = nccl_of(g_nccl, "");
    nccl.group_start();
    nccl.group_end();
  }
  return nullptr;
}

void* open_another(void*) {
  while (!g_stop)
    if (void* handle = dlopen(g_other, RTLD_NOW | RTLD_LOCAL)) dlclose(handle);
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  g_rounds = atoi(argv[1]);
  g_nccl = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  g_library = argv[3];
  g_other = argv[4];
  if (g_nccl == nullptr) fail(dlerror());
  pthread_t threads[4];
  void* (*const work[])(void*) = {open_and_close, look_up_and_call, look_up_and_call, open_another};
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], nullptr, work[i], nullptr);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  printf("done\n");
  return 0;
}
