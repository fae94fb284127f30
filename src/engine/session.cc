// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/session.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>

#include "base/log.h"
#include "base/seeded_fault.h"
#include "driver/memory_holders.h"
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

Status Session::enter(SessionState from, SessionState to, SessionState done, Deadline deadline,
                      bool* already) {
  if (const char* because = disabled_because_.load())
    return make_error(ErrorKind::misuse, 0, "%s", because);
  MutexLock lock(mutex_);
  const bool settled =
      changed_.wait_until(mutex_, deadline, [&] { return state_ == from || state_ == done; });
  if (!settled)
    return make_error(ErrorKind::timeout, 0,
                      "another thread is %s this process since more than %ld ms",
                      session_state_name(state_), context_.timeout_ms);
  *already = state_ == done;
  if (!*already) state_ = to;
  return ok_status();
}

void Session::leave(SessionState state, bool stopped_half_way) {
  if (state == SessionState::active) store_.forget_blocks();
  MutexLock lock(mutex_);
  state_ = state;
  stopped_half_way_ = stopped_half_way;
  changed_.notify_all();
}

std::vector<Step> Session::pause_plan() {
  MutexLock lock(context_.registry.mutex);
  return plan_pause(context_.registry.backings(), context_.registry.allocations(), context_.kinds);
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
  if (context_.gate.caller_is_inside())
    return make_error(
        ErrorKind::misuse, 0,
        "ncclPause() was called from inside an NCCL call or an open ncclGroupStart()");
  if (context_.nccl->is_capturing())
    return make_error(
        ErrorKind::misuse, 0,
        "a stream with NCCL work is being captured into a CUDA graph; end the capture, then pause");
  if (!context_.registry.was_used() && !context_.gate.communicators().empty())
    return make_error(ErrorKind::misuse, 0,
                      "nothing that NCCL holds can be released: it runs with NCCL_CUMEM_ENABLE=0; "
                      "set AMEM_CUMEM=force or "
                      "NCCL_CUMEM_ENABLE=1 and start again");
  return ok_status();
}

Status Session::check_all_is_away() {
  {
    MutexLock lock(mutex_);
    if (!stopped_half_way_) return ok_status();
  }
  MutexLock lock(context_.registry.mutex);
  for (const auto& [id, backing] : context_.registry.backings())
    if (backing.is_here() &&
        (backing.is_import || !is_fixed(backing, context_.registry.allocations(), context_.kinds)))
      return make_error(
          ErrorKind::misuse, 0,
          "the last ncclPause() or ncclResume() stopped half way, and memory of NCCL is on "
          "the GPU; call ncclResume() until it succeeds, then pause");
  return ok_status();
}

Status Session::quiesce(Deadline deadline, SessionReport* report) {
  const Phase phase("pause: wait", &report->wait_ms);
  if (!seeded_fault("leave_gate_open"))
    context_.gate.close_process("this process is paused; call ncclResume() first");
  AMEM_TRY(context_.gate.wait_until_outside(nullptr, deadline));
  step_point(StepPoint::pause_gate_closed);
  AMEM_TRY(context_.nccl->wait_until_settled(nullptr, deadline));
  if (context_.nccl->is_capturing())
    return make_error(
        ErrorKind::misuse, 0,
        "a stream with NCCL work is being captured into a CUDA graph; end the capture, then pause");
  std::vector<int> devices;
  {
    MutexLock lock(context_.registry.mutex);
    devices = devices_in_use(context_.registry);
  }
  AMEM_TRY(context_.devices.drain(devices, deadline));
  step_point(StepPoint::pause_drained);
  // What is not allowed or not there is refused before any neighbour is asked for anything.
  neighbours_.exports().expect_in_step();
  Status planned = executor_.plan_room(pause_plan(), deadline);
  neighbours_.exports().forget_in_step();
  return planned;
}

Status Session::undo(const std::vector<Step>& plan, const std::vector<Step>& begun,
                     Deadline deadline) {
  executor_.cancel_saves(plan);
  AMEM_TRY(restore_contexts(deadline));
  const std::vector<Step> back = inverse(begun);
  AMEM_TRY(executor_.create(back));
  AMEM_TRY(executor_.fill(
      back, [] {}, deadline));
  return neighbours_.imports().fetch(back, deadline);
}

Status Session::move_out(Deadline deadline, SessionReport* report, bool* lost_way_back) {
  Status status = ok_status();
  {
    const Phase phase("pause: neighbours", &report->peers_ms);
    // Pinning waits for the device, whose work is done by now.
    status = neighbours_.exports().ask_to_let_go(
        deadline, [this, deadline] { return executor_.make_room(deadline); });
  }

  // A peer's last counter update arrives through its own mapping, so nothing is saved before all
  // have let go.
  const std::vector<Step> plan = pause_plan();
  std::vector<Step> begun;
  if (status.ok()) {
    step_point(StepPoint::pause_let_go);
    trim_contexts(deadline, report);
    const Phase phase("pause: copy", &report->copy_ms);
    status = executor_.save(plan, &begun, deadline);
    step_point(StepPoint::pause_saved);
    report->copied_bytes = executor_.copied_bytes();
  }
  if (status.ok()) {
    const Phase phase("pause: release", &report->memory_ms);
    status = executor_.release(plan, &begun);
  }
  if (status.ok()) {
    step_point(StepPoint::pause_released);
    return status;
  }

  // The caller has waited long. Our memory may take as long again; neighbours that do not answer
  // have it in writing, and are not waited for as long.
  const Deadline undo_deadline = Deadline::after_ms(context_.timeout_ms);
  if (Status undone = undo(plan, begun, undo_deadline); !undone.ok()) {
    *lost_way_back = true;
    status.error().message += "; and its memory could not be taken back (" +
                              undone.error().message +
                              "), so this process is paused: call ncclResume() when there is room";
    return status;
  }
  const SharedExports shared(neighbours_.exports());
  const Deadline told_deadline = Deadline::after_ms(context_.timeout_ms / 4);
  if (Status told = neighbours_.exports().bring_back(told_deadline)->wait(told_deadline);
      !told.ok()) {
    status.error().message += "; and " + told.error().message;
    // One that does not answer has it in writing. One that failed has to be told again.
    if (told.error().kind != ErrorKind::timeout) {
      *lost_way_back = true;
      status.error().message += "; this process is paused: call ncclResume() to try again";
    }
  }
  return status;
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
  bool already = false;
  AMEM_TRY(
      enter(SessionState::active, SessionState::pausing, SessionState::paused, deadline, &already));
  if (already) return check_all_is_away();

  SessionReport report;
  bool lost_way_back = false;
  Status status = ok_status();
  {
    const Phase phase("pause", &report.total_ms);
    step_point(StepPoint::pause_begun);
    status = check_pause();
    if (status.ok()) status = quiesce(deadline, &report);
    if (status.ok()) status = move_out(deadline, &report, &lost_way_back);
  }
  if (!status.ok() && !lost_way_back) {
    context_.gate.open_process();
    leave(SessionState::active);
    return status;
  }
  {
    MutexLock lock(mutex_);
    last_pause_ = report;
  }
  leave(SessionState::paused, lost_way_back);
  AMEM_LOG(info, -1,
           "paused in %.1f ms (work %.1f, neighbours %.1f, copy %.1f of %.0f MiB, release %.1f)",
           report.total_ms, report.wait_ms, report.peers_ms, report.copy_ms,
           static_cast<double>(report.copied_bytes) / kMiB, report.memory_ms);
  if (report.context_bytes > 0)
    AMEM_LOG(info, -1, "returned %.0f MiB of local memory of its contexts",
             static_cast<double>(report.context_bytes) / kMiB);
  return status;
}

// --- Host memory
// ------------------------------------------------------------------------------------------------------

void Session::prepare_host_memory(int device, size_t size_bytes) {
  (void)context_.devices.start({{device, [this, device, size_bytes] {
                                   const Status ready = store_.prepare(size_bytes, device);
                                   if (!ready.ok())
                                     AMEM_LOG(warn, device, "%s", ready.error().message.c_str());
                                   return ok_status();
                                 }}});
}

Result<size_t> Session::trim_host_memory() {
  const int device = store_.device();
  if (device < 0) return size_t{0};
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
                                    *given = store_.trim();
                                    return ok_status();
                                  }}},
                                "unpinning host memory", deadline));
  if (*given == 0 && store_.capacity_bytes() > 0)
    return make_error(ErrorKind::misuse, 0,
                      "the host memory holds what was on the GPU; call ncclResume() first");
  return *given;
}

// --- Resume
// -----------------------------------------------------------------------------------------------------------

size_t Session::free_bytes(int device) {
  constexpr long kMostMs = 1000;  // it is for a sentence only
  const auto found = std::make_shared<size_t>(0);
  (void)context_.devices.run({{device,
                               [driver = &context_.driver, found] {
                                 size_t total_bytes = 0;
                                 driver->cuMemGetInfo_v2(found.get(), &total_bytes);
                                 return ok_status();
                               }}},
                             "counting its memory", Deadline::after_ms(kMostMs));
  return *found;
}

std::map<int, size_t> Session::created_bytes(const std::vector<Step>& plan) {
  std::map<int, size_t> bytes;
  MutexLock lock(context_.registry.mutex);
  for (const Step& step : plan)
    if (step.action == Step::Action::create)
      if (const Backing* backing = context_.registry.find_backing(step.backing))
        bytes[backing->device()] += backing->size_bytes;
  return bytes;
}

Error Session::out_of_memory(const Error& error, const std::map<int, size_t>& wanted) {
  std::string text = error.message;
  for (const auto& [device, bytes] : wanted) {
    text += "; device " + std::to_string(device) + ": " + std::to_string(bytes >> 20) +
            " MiB are wanted, " + std::to_string(free_bytes(device) >> 20) + " MiB are free";
    const std::string others = describe_holders(memory_holders(context_.driver, device), getpid());
    if (!others.empty()) text += " (" + others + ")";
  }
  return Error{ErrorKind::driver, error.code,
               text + "; this process stays paused: free memory, then call ncclResume() again"};
}

Status Session::restore_contexts(Deadline deadline) {
  Status restored = context_memory_.restore(deadline);
  if (!restored.ok() && restored.error().kind == ErrorKind::driver &&
      restored.error().code == driver_result::kOutOfMemory)
    return out_of_memory(restored.error(), context_memory_.returned_bytes());
  return restored;
}

Status Session::create(const std::vector<Step>& plan, SessionReport* report) {
  const Phase phase("resume: create", &report->memory_ms);
  Status created = executor_.create(plan);
  if (!created.ok() && created.error().kind == ErrorKind::driver &&
      created.error().code == driver_result::kOutOfMemory)
    return out_of_memory(created.error(), created_bytes(plan));
  return created;
}

Status Session::move_in(Deadline deadline, SessionReport* report) {
  step_point(StepPoint::resume_begun);
  AMEM_TRY(restore_contexts(deadline));
  const std::vector<Step> plan = resume_plan();
  AMEM_TRY(create(plan, report));
  step_point(StepPoint::resume_created);
  SharedExports shared(neighbours_.exports());
  {
    const Phase phase("resume: copy", &report->copy_ms);
    AMEM_TRY(executor_.fill(
        plan, [&shared] { shared.make_ready(); }, deadline));
    report->copied_bytes = executor_.copied_bytes();
  }
  step_point(StepPoint::resume_filled);
  const Phase phase("resume: neighbours", &report->peers_ms);
  const std::shared_ptr<Replies> told = neighbours_.exports().bring_back(deadline);
  step_point(StepPoint::resume_told);
  AMEM_TRY(neighbours_.imports().fetch(plan, deadline));
  step_point(StepPoint::resume_fetched);
  AMEM_TRY(told->wait(deadline));
  step_point(StepPoint::resume_done);
  return ok_status();
}

Status Session::resume() {
  const Deadline deadline = Deadline::after_ms(context_.timeout_ms);
  bool already = false;
  AMEM_TRY(enter(SessionState::paused, SessionState::resuming, SessionState::active, deadline,
                 &already));
  if (already) return ok_status();

  SessionReport report;
  Status status = ok_status();
  {
    const Phase phase("resume", &report.total_ms);
    status = move_in(deadline, &report);
  }
  if (!status.ok()) {
    leave(SessionState::paused, true);
    return status;
  }
  context_.gate.open_process();
  {
    MutexLock lock(mutex_);
    last_resume_ = report;
  }
  leave(SessionState::active);
  AMEM_LOG(info, -1, "resumed in %.1f ms (memory %.1f, copy %.1f of %.0f MiB, neighbours %.1f)",
           report.total_ms, report.memory_ms, report.copy_ms,
           static_cast<double>(report.copied_bytes) / kMiB, report.peers_ms);
  return status;
}

}  // namespace amem
