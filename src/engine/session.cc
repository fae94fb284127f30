// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/session.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>

#include "base/log.h"
#include "base/seeded_fault.h"
#include "engine/out_of_memory.h"
#include "engine/phase.h"
#include "engine/step_point.h"
#include "registry/backing_steps.h"

namespace amem {
namespace {

constexpr double kMiB = 1 << 20;

/// While it lives, each backing is exported once for all who ask.
class SharedExports {
 public:
  explicit SharedExports(Exports& exports) : exports_(exports) { exports_.begin_sharing(); }
  ~SharedExports() { exports_.end_sharing(); }
  SharedExports(const SharedExports&) = delete;
  void make_ready() { exports_.export_imported(); }

 private:
  Exports& exports_;
};

}  // namespace

const char* session_state_name(SessionState state) {
  switch (state) {
    case SessionState::active:
      return "active";
    case SessionState::pausing:
      return "pausing";
    case SessionState::paused:
      return "paused";
    case SessionState::resuming:
      return "resuming";
  }
  return "?";
}

SessionReport Session::last_pause() {
  MutexLock lock(mutex_);
  return last_pause_;
}

SessionReport Session::last_resume() {
  MutexLock lock(mutex_);
  return last_resume_;
}

Status Session::enter(SessionState to, Deadline deadline, SessionState* before) {
  if (const char* because = disabled_because_.load())
    return make_error(ErrorKind::misuse, 0, "%s", because);
  MutexLock lock(mutex_);
  const bool settled = changed_.wait_until(mutex_, deadline, [&] {
    return state_ == SessionState::active || state_ == SessionState::paused;
  });
  if (!settled)
    return make_error(ErrorKind::timeout, 0,
                      "another thread is %s this process since more than %ld ms",
                      session_state_name(state_), context_.timeout_ms);
  *before = state_;
  if (to == SessionState::pausing || *before == SessionState::paused) state_ = to;
  return ok_status();
}

void Session::leave(SessionState state) {
  MutexLock lock(mutex_);
  state_ = state;
  changed_.notify_all();
}

std::vector<Step> Session::pause_plan() {
  MutexLock lock(context_.registry.mutex);
  return plan_pause(context_.registry.backings(), context_.registry.allocations());
}

std::vector<Step> Session::resume_plan() {
  MutexLock lock(context_.registry.mutex);
  return plan_resume(context_.registry.backings());
}

// --- Pause
// ------------------------------------------------------------------------------------------------------------

Status Session::check_pause() {
  {
    MutexLock lock(context_.registry.mutex);
    if (!context_.registry.refusal.empty())
      return make_error(ErrorKind::unsupported, 0, "%s", context_.registry.refusal.c_str());
  }
  return context_.client->check_pause();
}

Session::Releasable Session::releasable() {
  Releasable here;
  MutexLock lock(context_.registry.mutex);
  for (const auto& [id, backing] : context_.registry.backings()) {
    if (!backing.is_here() ||
        (!backing.is_import && is_persistent(backing, context_.registry.allocations())))
      continue;
    ++here.objects;
    if (!backing.is_import) here.own_bytes += backing.size_bytes;
  }
  return here;
}

std::string Session::what_is_left() {
  return "this process is paused, with " + std::to_string(releasable().own_bytes >> 20) +
         " MiB still on the GPU";
}

Status Session::quiesce(Deadline deadline, SessionReport* report) {
  const Phase phase("pause: wait", &report->wait_ms);
  if (!seeded_fault("leave_gate_open")) AMEM_TRY(context_.client->quiesce(deadline));
  step_point(StepPoint::pause_gate_closed);
  std::vector<int> devices;
  {
    MutexLock lock(context_.registry.mutex);
    devices = devices_in_use(context_.registry);
  }
  AMEM_TRY(context_.devices.drain(devices, deadline));
  step_point(StepPoint::pause_drained);
  // What is not allowed or not there is refused before any neighbour is asked for anything.
  return executor_.make_room(pause_plan(), deadline);
}

Status Session::move_out(Deadline deadline, SessionReport* report, std::vector<Step>* begun) {
  {
    const Phase phase("pause: neighbours", &report->peers_ms);
    AMEM_TRY(neighbours_.exports().revoke(deadline));
  }
  // A peer's last counter update arrives through its own mapping, so nothing is copied before all
  // have let go.
  step_point(StepPoint::pause_let_go);
  trim_contexts(deadline, report);
  const NvtxRange range("pause: copy and release");
  AMEM_TRY(executor_.move_out(pause_plan(), begun, deadline, &report->move));
  step_point(StepPoint::pause_released);
  return ok_status();
}

/// Undoes what a failed pause has begun. Returns where that leads; where to nothing good, the error
/// says why.
SessionState Session::take_back(const std::vector<Step>& begun, Error* error) {
  // The caller has waited long. Our memory may take as long again; to neighbours that do not answer
  // the message is queued, and they are not waited for as long.
  const Deadline deadline = Deadline::after_ms(context_.timeout_ms);
  const std::vector<Step> back = inverse(begun);
  MoveReport report;
  Status taken = restore_contexts(deadline);
  if (taken.ok())
    taken = executor_.move_in(
        back, [] {}, deadline, &report);
  if (taken.ok()) taken = neighbours_.imports().fetch(back, deadline);
  if (!taken.ok()) {
    error->message += "; and its memory could not be taken back (" + taken.error().message +
                      "), so " + what_is_left() +
                      ": call ncclPause() to go on or, when there is room, ncclResume()";
    return SessionState::paused;
  }
  const SharedExports shared(neighbours_.exports());
  const Deadline told_deadline = Deadline::after_ms(context_.timeout_ms / 4);
  const Status told = neighbours_.exports().restore(told_deadline)->wait(told_deadline);
  if (told.ok()) return SessionState::active;
  error->message += "; and " + told.error().message;
  if (told.error().kind == ErrorKind::timeout) return SessionState::active;
  // One that failed has to be told again.
  error->message += "; this process is paused: call ncclResume() to try again";
  return SessionState::paused;
}

// Work launched since the drain holds up the call, and the pause only this long.
void Session::trim_contexts(Deadline deadline, SessionReport* report) {
  constexpr long kMostMs = 1000;
  if (!context_.trim_context) return;
  std::vector<int> devices;
  {
    MutexLock lock(context_.registry.mutex);
    devices = devices_in_use(context_.registry);
  }
  const Deadline soon = Deadline::after_ms(std::min<long>(kMostMs, deadline.left_ms()));
  if (const Status trimmed = context_memory_.trim(devices, soon); !trimmed.ok())
    AMEM_LOG(warn, -1, "a context keeps its local memory: %s", trimmed.error().message.c_str());
  for (const auto& [device, bytes] : context_memory_.returned_bytes())
    report->context_bytes += bytes;
}

Status Session::pause() {
  const Deadline deadline = Deadline::after_ms(context_.timeout_ms);
  SessionState before{};
  AMEM_TRY(enter(SessionState::pausing, deadline, &before));
  if (before == SessionState::paused && releasable().objects == 0) {
    leave(SessionState::paused);
    return ok_status();
  }

  SessionReport report;
  SessionState after = before;
  Status status = ok_status();
  {
    const Phase phase("pause", &report.total_ms);
    step_point(StepPoint::pause_begun);
    status = check_pause();
    if (status.ok()) status = quiesce(deadline, &report);
    std::vector<Step> begun;
    const bool moves = status.ok();
    if (moves) status = move_out(deadline, &report, &begun);
    if (status.ok()) after = SessionState::paused;
    if (!status.ok() && before == SessionState::paused)
      status.error().message +=
          "; " + what_is_left() + ": call ncclPause() to go on, or ncclResume()";
    else if (!status.ok() && moves)
      after = take_back(begun, &status.error());
  }
  if (after == SessionState::active) context_.client->reopen();
  if (status.ok()) {
    MutexLock lock(mutex_);
    last_pause_ = report;
  }
  leave(after);
  if (status.ok())
    AMEM_LOG(info, -1,
             "paused in %.1f ms (work %.1f, neighbours %.1f, copy of %.0f MiB and release %.1f, of "
             "which driver %.1f)",
             report.total_ms, report.wait_ms, report.peers_ms,
             static_cast<double>(report.move.copied_bytes) / kMiB, report.move.copy_ms,
             report.move.memory_ms);
  if (status.ok() && report.context_bytes > 0)
    AMEM_LOG(info, -1, "returned %.0f MiB of local memory of its contexts",
             static_cast<double>(report.context_bytes) / kMiB);
  return status;
}

// --- Host memory
// ------------------------------------------------------------------------------------------------------

void Session::prepare_host_memory(int device, size_t size_bytes) {
  (void)context_.devices.start({{device, [this, device, size_bytes] {
                                   const Status ready = pool_.reserve(size_bytes, device);
                                   if (!ready.ok())
                                     AMEM_LOG(warn, device, "%s", ready.error().message.c_str());
                                   return ok_status();
                                 }}});
}

Result<size_t> Session::trim_host_memory() {
  const int device = pool_.device();
  if (device < 0) return size_t{0};
  const Error in_use = make_error(
      ErrorKind::misuse, 0, "the host memory holds what was on the GPU; call ncclResume() first");
  if (state() != SessionState::active) return in_use;
  const Deadline deadline = Deadline::after_ms(context_.timeout_ms);
  std::vector<int> devices;
  {
    MutexLock lock(context_.registry.mutex);
    devices = devices_in_use(context_.registry);
  }
  // A copy of a pause that ran into its deadline may still be under way.
  AMEM_TRY(context_.devices.drain(devices, deadline));
  const auto given = std::make_shared<size_t>(0);
  AMEM_TRY(context_.devices.run({{device,
                                  [this, given] {
                                    *given = pool_.trim();
                                    return ok_status();
                                  }}},
                                "unpinning host memory", deadline));
  if (*given == 0 && pool_.capacity_bytes() > 0) return in_use;
  return *given;
}

// --- Resume
// -----------------------------------------------------------------------------------------------------------

std::map<int, size_t> Session::moved_bytes(const std::vector<Step>& plan) {
  std::map<int, size_t> bytes;
  MutexLock lock(context_.registry.mutex);
  for (const Step& step : plan)
    if (step.action == Step::Action::move_in)
      if (const Backing* backing = context_.registry.find_backing(step.backing))
        bytes[backing->device()] += backing->size_bytes;
  return bytes;
}

Status Session::restore_contexts(Deadline deadline) {
  Status restored = context_memory_.restore(deadline);
  if (!restored.ok() && restored.error().kind == ErrorKind::driver &&
      restored.error().code == driver_result::kOutOfMemory)
    return out_of_memory(context_, restored.error(), context_memory_.returned_bytes());
  return restored;
}

Status Session::move_in(Deadline deadline, SessionReport* report) {
  step_point(StepPoint::resume_begun);
  AMEM_TRY(restore_contexts(deadline));
  const std::vector<Step> plan = resume_plan();
  SharedExports shared(neighbours_.exports());
  {
    const NvtxRange range("resume: create and copy");
    Status moved = executor_.move_in(
        plan, [&shared] { shared.make_ready(); }, deadline, &report->move);
    if (!moved.ok() && moved.error().kind == ErrorKind::driver &&
        moved.error().code == driver_result::kOutOfMemory)
      return out_of_memory(context_, moved.error(), moved_bytes(plan));
    AMEM_TRY(std::move(moved));
  }
  step_point(StepPoint::resume_filled);
  const Phase phase("resume: neighbours", &report->peers_ms);
  const std::shared_ptr<Replies> told = neighbours_.exports().restore(deadline);
  step_point(StepPoint::resume_told);
  AMEM_TRY(neighbours_.imports().fetch(plan, deadline));
  step_point(StepPoint::resume_fetched);
  AMEM_TRY(told->wait(deadline));
  step_point(StepPoint::resume_done);
  return ok_status();
}

Status Session::resume() {
  const Deadline deadline = Deadline::after_ms(context_.timeout_ms);
  SessionState before{};
  AMEM_TRY(enter(SessionState::resuming, deadline, &before));
  if (before == SessionState::active) return ok_status();

  SessionReport report;
  Status status = ok_status();
  {
    const Phase phase("resume", &report.total_ms);
    status = move_in(deadline, &report);
  }
  if (!status.ok()) {
    leave(SessionState::paused);
    return status;
  }
  context_.client->reopen();
  {
    MutexLock lock(mutex_);
    last_resume_ = report;
  }
  leave(SessionState::active);
  AMEM_LOG(info, -1,
           "resumed in %.1f ms (create and copy of %.0f MiB %.1f, of which driver %.1f, neighbours "
           "%.1f)",
           report.total_ms, static_cast<double>(report.move.copied_bytes) / kMiB,
           report.move.copy_ms, report.move.memory_ms, report.peers_ms);
  return status;
}

}  // namespace amem
