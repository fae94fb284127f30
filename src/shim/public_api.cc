// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The functions that amem adds: NCCL's five and amem.h's.
#include <unistd.h>

#include <cstring>
#include <utility>

#include "amem.h"
#include "amem_nccl_abi.h"
#include "base/thread_value.h"
#include "engine/statistics.h"
#include "shim/added_functions.h"
#include "shim/call_result.h"
#include "shim/interposition_report.h"
#include "shim/nccl_copies.h"
#include "shim/process.h"

namespace amem {
namespace {

/// nullptr where amem only forwards; why_forwarding() says why.
Process* process_that_works() {
  Process* const process = Process::get();
  return process == nullptr || process->forked() ? nullptr : process;
}
Error why_forwarding() {
  if (Process::built() == nullptr) return Error{ErrorKind::unsupported, 0, Process::why_off()};
  return make_error(ErrorKind::misuse, 0,
                    "this is a forked child: only the parent's NCCL can be paused");
}

/// Is all that NCCL does in this process caught?
Status check_caught() {
  Process* const process = process_that_works();
  if (process == nullptr) return ok_status();
  if (const std::string refusal = nccl_refusal(); !refusal.empty())
    return make_error(ErrorKind::unsupported, 0, "%s", refusal.c_str());
  if (process->gate().has_ungated_work())
    return make_error(
        ErrorKind::unsupported, 0,
        "NCCL work was started by a call that does not pass amem's gate: by a function "
        "that this version of amem does not know, or by a function pointer from before "
        "amem was loaded; such work cannot be waited for");
  return ok_status();
}

int change_session(const char* call, Status (Session::*change)()) {
  Process* const process = process_that_works();
  if (process == nullptr) return report_error(call, why_forwarding());
  if (process->engine().exiting)
    return report_error(call, make_error(ErrorKind::misuse, 0,
                                         "exit() has begun, and what NCCL holds goes with the "
                                         "process; make the call before exit()"));
  const Status status = (process->session().*change)();
  return status.ok() ? ncclSuccess : report_error(call, status.error());
}

Status set_group(int id) {
  Process* const process = process_that_works();
  if (process == nullptr) return why_forwarding();
  if (id < 0) return make_error(ErrorKind::misuse, 0, "a group id is 0 or greater, not %d", id);
  if (process->registry().was_used())
    return make_error(ErrorKind::misuse, 0,
                      "NCCL has allocated memory already: call it before the first communicator is "
                      "made, or set AMEM_GROUPID");
  process->engine().group = id;
  return ok_status();
}

int print_statistics() {
  Process* const process = process_that_works();
  if (process == nullptr) return report_error("ncclMemStats", why_forwarding());
  const Statistics statistics = take_statistics(process->registry());
  std::string text;
  for (const std::string& line : format_statistics(statistics, process->engine().group, getpid()))
    text += line + "\n";
  [[maybe_unused]] const ssize_t written =
      write(STDOUT_FILENO, text.data(), text.size());  // allow: ncclMemStats() prints
  return 0;
}

int get_group(int* id) {
  Process* const process = process_that_works();
  if (process == nullptr) return report_error("ncclGetGroupID", why_forwarding());
  if (id == nullptr)
    return report_error("ncclGetGroupID", make_error(ErrorKind::misuse, 0, "the argument is null"));
  *id = process->engine().group;
  return 0;
}

void copy_totals(const MemoryTotals& from, amemTotals_t* to) {
  to->objects = from.objects;
  to->allocated_bytes = from.allocated_bytes;
  to->resident_bytes = from.resident_bytes;
  to->released_bytes = from.released_bytes;
  to->saved_bytes = from.saved_bytes;
  to->fixed_bytes = from.fixed_bytes;
}

int pause() {
  if (const Status caught = check_caught(); !caught.ok())
    return report_error("ncclPause", caught.error());
  return change_session("ncclPause", &Session::pause);
}

int resume() { return change_session("ncclResume", &Session::resume); }

int set_group_id(int id) {
  const Status status = set_group(id);
  return status.ok() ? 0 : report_error("ncclSetGroupID", status.error());
}

}  // namespace
}  // namespace amem

#define AMEM_API extern "C" [[gnu::visibility("default")]]

AMEM_API int ncclPause(void**) { return amem::pause(); }
AMEM_API int ncclResume(void**) { return amem::resume(); }
AMEM_API int ncclMemStats(void) { return amem::print_statistics(); }
AMEM_API int ncclSetGroupID(int id) { return amem::set_group_id(id); }
AMEM_API int ncclGetGroupID(int* id) { return amem::get_group(id); }

// Not the addresses of the functions above, which the loader may bind to another library's.
void* amem::added_function(const char* name) {
  using Any = void();
  const std::pair<const char*, Any*> added[] = {
      {"ncclPause", reinterpret_cast<Any*>(+[](void**) { return pause(); })},
      {"ncclResume", reinterpret_cast<Any*>(+[](void**) { return resume(); })},
      {"ncclMemStats", reinterpret_cast<Any*>(&print_statistics)},
      {"ncclSetGroupID", reinterpret_cast<Any*>(&set_group_id)},
      {"ncclGetGroupID", reinterpret_cast<Any*>(&get_group)}};
  for (const auto& [known, function] : added)
    if (strcmp(name, known) == 0) return reinterpret_cast<void*>(function);
  return nullptr;
}

AMEM_API amemState_t amemGetState(void) {
  amem::Process* const process = amem::process_that_works();
  if (process == nullptr) return amemOff;
  return static_cast<amemState_t>(process->session().state());
}

AMEM_API int amemGetTotals(int device, int kind, amemTotals_t* totals) {
  if (totals == nullptr || device < -1 || kind < -1 || kind >= amemKindCount) return -1;
  *totals = {};
  amem::Process* const process = amem::process_that_works();
  if (process == nullptr) return -1;
  amem::MemoryTotals sum;
  for (const auto& [key, part] : take_statistics(process->registry()).by_device_and_kind)
    if ((device == -1 || key.first == device) &&
        (kind == -1 || static_cast<int>(key.second) == kind))
      sum.add(part);
  amem::copy_totals(sum, totals);
  return 0;
}

AMEM_API int amemGetImports(amemTotals_t* totals) {
  if (totals == nullptr) return -1;
  *totals = {};
  amem::Process* const process = amem::process_that_works();
  if (process == nullptr) return -1;
  amem::copy_totals(take_statistics(process->registry()).imports, totals);
  return 0;
}

AMEM_API int amemGetDriverObjects(amemDriverObjects_t* objects) {
  if (objects == nullptr) return -1;
  *objects = {};
  amem::Process* const process = amem::process_that_works();
  if (process == nullptr) return -1;
  const amem::DriverObjects found = take_statistics(process->registry()).driver_objects;
  *objects = {found.own, found.own_bytes, found.imported};
  return 0;
}

AMEM_API int amemGetTimes(amemTimes_t* times) {
  if (times == nullptr) return -1;
  *times = {};
  amem::Process* const process = amem::process_that_works();
  if (process == nullptr) return -1;
  const amem::SessionReport pause = process->session().last_pause();
  const amem::SessionReport resume = process->session().last_resume();
  times->pause_ms = pause.total_ms;
  times->pause_wait_ms = pause.wait_ms;
  times->pause_peers_ms = pause.peers_ms;
  times->pause_copy_ms = pause.move.copy_ms;
  times->pause_memory_ms = pause.move.memory_ms;
  times->resume_ms = resume.total_ms;
  times->resume_memory_ms = resume.move.memory_ms;
  times->resume_copy_ms = resume.move.copy_ms;
  times->resume_peers_ms = resume.peers_ms;
  times->pause_copied_bytes = pause.move.copied_bytes;
  times->resume_copied_bytes = resume.move.copied_bytes;
  times->host_capacity_bytes = process->session().host_capacity_bytes();
  times->pause_context_bytes = pause.context_bytes;
  return 0;
}

AMEM_API int amemTrimHostMemory(uint64_t* bytes) {
  if (bytes != nullptr) *bytes = 0;
  amem::Process* const process = amem::process_that_works();
  const amem::Result<size_t> given = process != nullptr
                                         ? process->session().trim_host_memory()
                                         : amem::Result<size_t>(amem::why_forwarding());
  if (!given.ok()) {
    amem::report_error("amemTrimHostMemory", given.error());
    return -1;
  }
  if (bytes != nullptr) *bytes = given.value();
  return 0;
}

AMEM_API const char* amemGetInterposition(void) {
  struct Copy {
    std::string text;
  };
  std::string& copy = amem::thread_value<Copy>().text;
  copy = amem::interposition_json();
  return copy.c_str();
}

AMEM_API const char* amemGetLastError(void) { return amem::last_error_text(); }

AMEM_API const char* amemGetVersion(void) { return AMEM_VERSION; }
