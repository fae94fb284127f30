// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The five functions that amem adds to NCCL's, and those of amem.h that only report.
#include <unistd.h>

#include "api/calls.h"
#include "api/enable.h"
#include "api/interposition_report.h"
#include "base/system_call.h"
#include "base/thread_value.h"
#include "clients/nccl/buffer_contents.h"
#include "clients/nccl/doors/added_functions.h"
#include "engine/statistics.h"

namespace amem {
namespace {

Status set_group(int id) {
  Process& process = *AMEM_TRY(active_process());
  if (id < 0) return misuse_error("a group id is 0 or greater, not %d", id);
  if (process.registry.was_used())
    return misuse_error(
        "memory has been allocated already: call it before the first communicator is "
        "made, or set AMEM_GROUP");
  process.engine.group = id;
  return ok_status();
}

Status print_statistics() {
  Process& process = *AMEM_TRY(active_process());
  const Statistics statistics = take_statistics(process.registry);
  std::string text;
  for (const std::string& line : format_statistics(statistics, process.engine.group, getpid()))
    text += line + "\n";
  const DiscardedSignals discarded;
  [[maybe_unused]] const ssize_t written =
      write(STDOUT_FILENO, text.data(), text.size());  // allow: ncclMemStats() prints
  return ok_status();
}

Status get_group(int* id) {
  Process& process = *AMEM_TRY(active_process());
  AMEM_TRY(check_pointer(id, "argument"));
  *id = process.engine.group;
  return ok_status();
}

template <typename Body, typename... Arguments>
int nccl_result(const char* call, Body body, Arguments... arguments) {
  const NoCancellation no_cancellation;
  const Status status = body(arguments...);
  return status.ok() ? 0 : report_error(call, status.error());
}

int pause() { return nccl_result("ncclPause", pause_process, selection_of_nccl()); }

int resume() { return nccl_result("ncclResume", resume_process, Selection{{kNcclTag}}); }

int mem_stats() { return nccl_result("ncclMemStats", print_statistics); }

int set_group_id(int id) { return nccl_result("ncclSetGroupID", set_group, id); }

int get_group_id(int* id) { return nccl_result("ncclGetGroupID", get_group, id); }

}  // namespace
}  // namespace amem

AMEM_API int ncclPause(void**) { return amem::pause(); }
AMEM_API int ncclResume(void**) { return amem::resume(); }
AMEM_API int ncclMemStats(void) { return amem::mem_stats(); }
AMEM_API int ncclSetGroupID(int id) { return amem::set_group_id(id); }
AMEM_API int ncclGetGroupID(int* id) { return amem::get_group_id(id); }

void amem::set_up_entries() {
  // Not the addresses of the functions above: the loader may bind those to another library.
  static const AddedFunction added[] = {
      {"ncclPause", reinterpret_cast<void*>(+[](void**) { return pause(); })},
      {"ncclResume", reinterpret_cast<void*>(+[](void**) { return resume(); })},
      {"ncclMemStats", reinterpret_cast<void*>(&mem_stats)},
      {"ncclSetGroupID", reinterpret_cast<void*>(&set_group_id)},
      {"ncclGetGroupID", reinterpret_cast<void*>(&get_group_id)}};
  g_added_functions = added;
  g_build_process = [] { (void)Process::get(); };
}

AMEM_API amemState_t amemGetState(void) {
  const amem::NoCancellation no_cancellation;
  return amem::state_of(amem::kNcclTag);
}

AMEM_API int amemGetImports(amemTotals_t* totals) {
  return amem::read_into("amemGetImports", totals, [](amem::Process& process) {
    return take_statistics(process.registry).imports;
  });
}

AMEM_API int amemGetDriverObjects(amemDriverObjects_t* objects) {
  return amem::read_into("amemGetDriverObjects", objects, [](amem::Process& process) {
    return take_statistics(process.registry).driver_objects;
  });
}

AMEM_API int amemGetTimes(amemTimes_t* times) {
  return amem::read_into("amemGetTimes", times, [](amem::Process& process) -> amemTimes_t {
    const amem::SessionCounters counters = process.session.counters();
    const amem::SessionReport &pause = counters.last_pause, &resume = counters.last_resume;
    return {.pause_ms = pause.total_ms,
            .pause_wait_ms = pause.wait_ms,
            .pause_peers_ms = pause.peers_ms,
            .pause_copy_ms = pause.move.copy_ms,
            .pause_memory_ms = pause.move.memory_ms,
            .resume_ms = resume.total_ms,
            .resume_memory_ms = resume.move.memory_ms,
            .resume_copy_ms = resume.move.copy_ms,
            .resume_peers_ms = resume.peers_ms,
            .pause_copied_bytes = pause.move.copied_bytes,
            .resume_copied_bytes = resume.move.copied_bytes,
            .host_capacity_bytes = process.session.host_pool().capacity_bytes(),
            .pause_context_bytes = pause.context_bytes,
            .pause_unchanged_bytes = pause.move.unchanged_bytes};
  });
}

AMEM_API int amemTrimHostMemory(uint64_t* bytes) {
  if (bytes != nullptr) *bytes = 0;
  return amem::with_process("amemTrimHostMemory", [&](amem::Process& process) -> amem::Status {
    const size_t given = AMEM_TRY(process.session.trim_host_memory());
    if (bytes != nullptr) *bytes = given;
    return amem::ok_status();
  });
}

AMEM_API const char* amemGetInterposition(void) {
  const amem::NoCancellation no_cancellation;
  struct Copy {
    std::string text;
  };
  std::string& copy = amem::thread_value<Copy>().text;
  // In a forked child, the loader's lock may be held.
  amem::Process* const process = amem::Process::built();
  copy = process != nullptr && !process->is_active() ? R"({"nccl": [], "slots": []})"
                                                     : amem::interposition_json();
  return copy.c_str();
}

AMEM_API size_t amemGetStructBytes(const char* name) {
  const amem::NoCancellation no_cancellation;
  const std::string_view wanted = name == nullptr ? "" : name;
  if (wanted == "amemTotals_t") return sizeof(amemTotals_t);
  if (wanted == "amemDriverObjects_t") return sizeof(amemDriverObjects_t);
  if (wanted == "amemTimes_t") return sizeof(amemTimes_t);
  if (wanted == "amemRange_t") return sizeof(amemRange_t);
  return 0;
}

AMEM_API void amemOnNcclCall(amemNcclObserver_t observer) {
  const amem::NoCancellation no_cancellation;
  amem::g_nccl_observer = observer;
}

AMEM_API void amemLogWarning(const char* text) {
  const amem::NoCancellation no_cancellation;
  if (text != nullptr) AMEM_LOG(warn, -1, "%s", text);
}

AMEM_API const char* amemGetLastError(void) { return amem::last_error_text(); }
AMEM_API int amemIsActive(void) {
  const amem::NoCancellation no_cancellation;
  amem::Process* const process = amem::Process::built();
  return process != nullptr && process->is_active() ? 1 : 0;
}
AMEM_API int amemSafePoint(void) {
  const amem::NoCancellation no_cancellation;
  amem::RemoteControl::count_safe_point();
  amem::Process* const process = amem::Process::built();
  return process != nullptr && process->is_active() && process->remote.holds() ? 1 : 0;
}
AMEM_API int amemWaitAtSafePoint(void) {
  const amem::NoCancellation no_cancellation;
  amem::Process* const process = amem::process_that_works();
  return process != nullptr && process->remote.wait_at_safe_point() ? 1 : 0;
}
AMEM_API const char* amemGetShortage(void) {
  const amem::NoCancellation no_cancellation;
  return amem::last_shortage();
}

AMEM_API const char* amemGetVersion(void) { return AMEM_VERSION; }
