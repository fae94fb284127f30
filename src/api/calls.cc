// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "api/calls.h"

#include <dlfcn.h>

#include <cinttypes>

#include "base/environment.h"

namespace amem {
Process* process_that_works() {
  Process* const process = Process::get();
  return process == nullptr || !process->is_active() ? nullptr : process;
}

Result<Process*> active_process() {
  if (Process* const process = process_that_works()) return process;
  if (Process::built() == nullptr) return Error{ErrorKind::unsupported, 0, Process::why_off()};
  return misuse_error("this is a forked child: only the parent's memory can be paused");
}

Status pause_process(const Selection& selection) {
  const NoCancellation no_cancellation;
  Process& process = *AMEM_TRY(active_process());
  const Status status = process.session.pause(selection);
  if (status.ok()) process.remote.note_pause(selection.tags);
  return status;
}

Status resume_process(const Selection& selection) {
  const NoCancellation no_cancellation;
  Process& process = *AMEM_TRY(active_process());
  const Status status = process.session.resume(selection);
  process.remote.note_resume();
  return status;
}

amemState_t state_of(const Tag& tag) {
  Process* const process = process_that_works();
  return process == nullptr ? amemOff : static_cast<amemState_t>(process->session.state(tag));
}

Selection selection_of_nccl() { return {{kNcclTag}, environment().trim_context}; }

Status check_pointer(const void* pointer, const char* name) {
  return pointer != nullptr ? ok_status() : misuse_error("the %s is null", name);
}

Status check_duration(uint64_t milliseconds) {
  constexpr uint64_t kMaxWaitMs = 86400000;
  if (milliseconds <= kMaxWaitMs) return ok_status();
  return misuse_error("%" PRIu64 " ms are more than a day", milliseconds);
}

Result<std::vector<AddressRange>> ranges_of(const amemRange_t* ranges, size_t count) {
  constexpr size_t kMax = 1 << 24;
  if (count > 0) AMEM_TRY(check_pointer(ranges, "list of ranges"));
  if (count > kMax) return misuse_error("%zu ranges: at most %zu are possible", count, kMax);
  std::vector<AddressRange> all(count);
  for (size_t i = 0; i < count; ++i) {
    all[i] = {reinterpret_cast<DeviceAddress>(ranges[i].pointer), ranges[i].size_bytes};
    if (all[i].address > UINTPTR_MAX - all[i].size_bytes)
      return misuse_error("range %zu ends behind the last address", i);
  }
  return all;
}

std::string beside_this_library(const char* file) {
  static constexpr char kHere = 0;
  Dl_info here{};
  (void)dladdr(&kHere, &here);
  const std::string path = here.dli_fname != nullptr ? here.dli_fname : "";
  return path.substr(0, path.rfind('/') + 1) + file;
}

}  // namespace amem
