// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "shim/forward.h"

#include <pthread.h>

#include <atomic>
#include <cstring>

#include "base/environment.h"
#include "base/log.h"
#include "hook/loaded_image.h"
#include "shim/added_functions.h"
#include "shim/dlopen_door.h"
#include "shim/gated_calls.h"
#include "shim/missing_nccl.h"
#include "shim/process.h"
#include "shim/real_nccl.h"

namespace amem {
namespace {

/// The real library's function, after everything that must happen around its load.
Result<void*> real_function(const char* name) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, [] {
    if (!environment().enable) return;
    set_load_callbacks({[] { (void)Process::get(); },
                        [](void*) {
                          if (Process* process = Process::get()) process->hook_loaded_nccl();
                        }});
  });
  return real_nccl_symbol(name);
}

/// ncclX and pncclX are one function with two names.
const char* without_p(const char* name) { return strncmp(name, "pnccl", 5) == 0 ? name + 1 : name; }

}  // namespace

void on_new_images() {
  // Most libraries are no NCCL; only one builds the Process, and with it freezes the settings.
  for (const LoadedImage& image : images_exporting("ncclCommInitRank")) {
    if (image.view.exports("amemShimMarker")) continue;
    if (Process* process = Process::get()) process->hook_loaded_nccl();
    return;
  }
}

}  // namespace amem

void* amemForward(const char* name) noexcept {
  if (void* added = amem::added_function(name)) return added;
  const auto real = amem::real_function(name);
  if (!real.ok()) {
    static constinit std::atomic_flag said;
    if (!said.test_and_set())
      AMEM_LOG(error, -1, "no NCCL to forward to: %s", real.error().message.c_str());
    return amem::stand_in_without_nccl(name);
  }
  if (real.value() == nullptr) {
    AMEM_LOG(warn, -1, "%s is not in %s: the call returns ncclInvalidUsage", name,
             amem::real_nccl_path().c_str());
    return amem::stand_in_for_absent(name);
  }
  if (amem::Process::get() == nullptr) return real.value();
  return amem::gated_call(amem::without_p(name), real.value());
}
