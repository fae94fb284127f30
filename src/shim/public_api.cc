// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The functions that amem adds: NCCL's five and amem.h's.
#include <unistd.h>

#include <cstring>

#include "amem.h"
#include "engine/statistics.h"
#include "shim/added_functions.h"
#include "shim/call_result.h"
#include "shim/process.h"

namespace amem {
namespace {

Status pause_process() {
  Process* const process = Process::get();
  if (process == nullptr) return Error{ErrorKind::unsupported, 0, Process::why_off()};
  return process->session().pause();
}

Status resume_process() {
  Process* const process = Process::get();
  if (process == nullptr) return Error{ErrorKind::unsupported, 0, Process::why_off()};
  return process->session().resume();
}

Status set_group(int id) {
  Process* const process = Process::get();
  if (process == nullptr) return Error{ErrorKind::unsupported, 0, Process::why_off()};
  if (id < 0) return make_error(ErrorKind::misuse, 0, "a group id is 0 or greater, not %d", id);
  if (process->registry().was_used())
    return make_error(ErrorKind::misuse, 0,
                      "NCCL has allocated memory already: call it before the first communicator is "
                      "made, or set AMEM_GROUPID");
  process->engine().group = id;
  return ok_status();
}

int ncclPause(void**) {
  const Status status = pause_process();
  return status.ok() ? 0 : report_error("ncclPause", status.error());
}

int ncclResume(void**) {
  const Status status = resume_process();
  return status.ok() ? 0 : report_error("ncclResume", status.error());
}

int ncclMemStats() {
  Process* const process = Process::get();
  if (process == nullptr)
    return report_error("ncclMemStats", Error{ErrorKind::unsupported, 0, Process::why_off()});
  const Statistics statistics = take_statistics(process->registry(), process->engine().kinds);
  std::string text;
  for (const std::string& line : format_statistics(statistics, process->engine().group, getpid()))
    text += line + "\n";
  [[maybe_unused]] const ssize_t written =
      write(STDOUT_FILENO, text.data(), text.size());  // allow: ncclMemStats() prints
  return 0;
}

int ncclSetGroupID(int id) {
  const Status status = set_group(id);
  return status.ok() ? 0 : report_error("ncclSetGroupID", status.error());
}

int ncclGetGroupID(int* id) {
  Process* const process = Process::get();
  if (process == nullptr)
    return report_error("ncclGetGroupID", Error{ErrorKind::unsupported, 0, Process::why_off()});
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

}  // namespace

void* added_function(const char* name) {
  if (strcmp(name, "ncclPause") == 0) return reinterpret_cast<void*>(&ncclPause);
  if (strcmp(name, "ncclResume") == 0) return reinterpret_cast<void*>(&ncclResume);
  if (strcmp(name, "ncclMemStats") == 0) return reinterpret_cast<void*>(&ncclMemStats);
  if (strcmp(name, "ncclSetGroupID") == 0) return reinterpret_cast<void*>(&ncclSetGroupID);
  if (strcmp(name, "ncclGetGroupID") == 0) return reinterpret_cast<void*>(&ncclGetGroupID);
  return nullptr;
}

}  // namespace amem

#define AMEM_API extern "C" [[gnu::visibility("default")]]

AMEM_API amemState_t amemGetState(void) {
  amem::Process* const process = amem::Process::get();
  if (process == nullptr) return amemOff;
  return static_cast<amemState_t>(process->session().state());
}

AMEM_API int amemGetTotals(int device, int kind, amemTotals_t* totals) {
  if (totals == nullptr || device < -1 || kind < -1 || kind >= amemKindCount) return -1;
  *totals = {};
  amem::Process* const process = amem::Process::get();
  if (process == nullptr) return -1;
  amem::MemoryTotals sum;
  for (const auto& [key, part] :
       take_statistics(process->registry(), process->engine().kinds).by_device_and_kind)
    if ((device == -1 || key.first == device) &&
        (kind == -1 || static_cast<int>(key.second) == kind))
      sum.add(part);
  amem::copy_totals(sum, totals);
  return 0;
}

AMEM_API int amemGetImports(amemTotals_t* totals) {
  if (totals == nullptr) return -1;
  *totals = {};
  amem::Process* const process = amem::Process::get();
  if (process == nullptr) return -1;
  amem::copy_totals(take_statistics(process->registry(), process->engine().kinds).imports, totals);
  return 0;
}

AMEM_API int amemGetTimes(amemTimes_t* times) {
  if (times == nullptr) return -1;
  *times = {};
  amem::Process* const process = amem::Process::get();
  if (process == nullptr) return -1;
  const amem::SessionReport pause = process->session().last_pause();
  const amem::SessionReport resume = process->session().last_resume();
  times->pause_ms = pause.total_ms;
  times->pause_wait_ms = pause.wait_ms;
  times->pause_peers_ms = pause.peers_ms;
  times->pause_copy_ms = pause.copy_ms;
  times->pause_memory_ms = pause.memory_ms;
  times->resume_ms = resume.total_ms;
  times->resume_memory_ms = resume.memory_ms;
  times->resume_copy_ms = resume.copy_ms;
  times->resume_peers_ms = resume.peers_ms;
  times->pause_copied_bytes = pause.copied_bytes;
  times->resume_copied_bytes = resume.copied_bytes;
  times->host_capacity_bytes = process->session().host_capacity_bytes();
  return 0;
}

AMEM_API const char* amemGetLastError(void) { return amem::last_error_text(); }

AMEM_API const char* amemGetVersion(void) { return AMEM_VERSION; }
