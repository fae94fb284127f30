// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/amem_orders.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

#include "amem.h"
#include "nccl.h"

namespace jobs {

namespace {

/// Throws with what amem said when one of its calls failed.
void check_amem(ncclResult_t result, const char* call) {
  if (result != ncclSuccess)
    throw std::runtime_error(std::string(call) + " returned " + std::to_string(result) + ": " +
                             amemGetLastError());
}

std::string pause(Words&) {
  return std::to_string(seconds_of([] { check_amem(ncclPause(NULL), "ncclPause"); }));
}

std::string resume(Words&) {
  return std::to_string(seconds_of([] { check_amem(ncclResume(NULL), "ncclResume"); }));
}

/// resume_on_call ENABLE
std::string resume_on_call(Words& words) {
  int enable = 0;
  words >> enable;
  check_amem(static_cast<ncclResult_t>(amemResumeOnCall(enable)), "amemResumeOnCall");
  return "";
}

std::string state(Words&) { return std::to_string(amemGetState()); }

std::string stats(Words&) {
  check_amem(ncclMemStats(), "ncclMemStats");
  return "";
}

std::string set_group(Words& words) {
  int id = 0;
  words >> id;
  check_amem(ncclSetGroupID(id), "ncclSetGroupID");
  return "";
}

std::string totals(Words&) {
  amemTotals_t own{}, imports{};
  amemGetTotals(-1, -1, &own);
  amemGetImports(&imports);
  amemDriverObjects_t objects{};
  amemGetDriverObjects(&objects);
  return std::to_string(own.objects) + " " + std::to_string(own.allocated_bytes) + " " +
         std::to_string(own.resident_bytes) + " " + std::to_string(own.released_bytes) + " " +
         std::to_string(own.fixed_bytes) + " " + std::to_string(imports.objects) + " " +
         std::to_string(imports.resident_bytes) + " " + std::to_string(objects.own) + " " +
         std::to_string(objects.own_bytes) + " " + std::to_string(objects.imported) + " " +
         std::to_string(own.saved_bytes);
}

/// amemTimes_t, its members in their order.
std::string times(Words&) {
  amemTimes_t t{};
  amemGetTimes(&t);
  char text[320];
  snprintf(text, sizeof text, "%.3f %.3f %.3f %.3f %.3f %.3f %.3f %.3f %.3f %llu %llu %llu %llu",
           t.pause_ms, t.pause_wait_ms, t.pause_peers_ms, t.pause_copy_ms, t.pause_memory_ms,
           t.resume_ms, t.resume_memory_ms, t.resume_copy_ms, t.resume_peers_ms,
           static_cast<unsigned long long>(t.pause_copied_bytes),
           static_cast<unsigned long long>(t.resume_copied_bytes),
           static_cast<unsigned long long>(t.host_capacity_bytes),
           static_cast<unsigned long long>(t.pause_context_bytes));
  return text;
}

std::string trim(Words&) {
  uint64_t bytes = 0;
  check_amem(static_cast<ncclResult_t>(amemTrimHostMemory(&bytes)), "amemTrimHostMemory");
  return std::to_string(bytes);
}

/// In a forked child, which must only forward: the answer is the child's own of pause.
std::string fork_pause(Words&) {
  const pid_t child = ::fork();
  if (child == 0) _exit(ncclPause(NULL));
  int status = 0;
  if (waitpid(child, &status, 0) != child) throw std::runtime_error("waitpid failed");
  return std::to_string(WEXITSTATUS(status));
}

std::string set_variable(Words& words) {
  std::string name, value;
  words >> name >> value;
  setenv(name.c_str(), value.c_str(), 1);
  return "";
}

}  // namespace

Orders amem_orders() {
  return {
      {"pause", pause},
      {"resume", resume},
      {"state", state},
      {"stats", stats},
      {"set_group", set_group},
      {"totals", totals},
      {"times", times},
      {"fork_pause", fork_pause},
      {"trim", trim},
      {"set_variable", set_variable},
      {"resume_on_call", resume_on_call},
  };
}

}  // namespace jobs
