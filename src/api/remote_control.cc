// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "api/remote_control.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "base/environment.h"
#include "base/log.h"
#include "base/thread.h"
#include "clients/nccl/buffer_contents.h"
#include "engine/room_wait.h"
#include "engine/statistics.h"

namespace amem {
namespace {

using Action = Control::Action;
using State = ControlReply::State;

constexpr const char* kStateNames[] = {"running", "held", "pausing", "paused", "resuming"};
/// After so many safe points in succession by one thread, the training has moved to it.
constexpr uint64_t kSafePointsOfOneThread = 16;

const char* name_of(State state) { return kStateNames[static_cast<int>(state)]; }

/// Only the memory of NCCL has calls that resume it.
bool needs_safe_point(const Control& request) { return request.tags != std::vector<Tag>{kNcclTag}; }

size_t released_mib(Registry& registry, const Tags& tags) {
  const Statistics statistics = take_statistics(registry);
  size_t bytes = 0;
  for (const Tag& tag : tags) bytes += sum_of(statistics, tag, {}, {}).released_bytes;
  return bytes >> 20;
}

}  // namespace

bool RemoteControl::is_paused() {
  // At a safe point, one without memory of these tags waits with the others of its job.
  if (at_safe_point_ != nullptr && tags_.empty()) return true;
  // A call that has resumed the memory of NCCL has said so at the gate.
  if (at_safe_point_ == nullptr && gate_.remote_pause() == 0) return false;
  return std::any_of(tags_.begin(), tags_.end(),
                     [&](const Tag& tag) { return session_.state(tag) != SessionState::active; });
}

void RemoteControl::refresh() {
  if (state_ == State::paused && !is_paused()) state_ = State::running;
  if (state_ == State::running) {
    at_safe_point_.reset();
    gate_.set_remote_pause(0);
  }
  if (held_until_.passed()) hold_at_ = 0;
  holds_ = hold_at_ > 0 || at_safe_point_ != nullptr;
  changed_.notify_all();
}

void RemoteControl::note_pause(const Tags& tags) {
  MutexLock lock(mutex_);
  std::erase_if(tags_, [&](const Tag& tag) { return tags.empty() || tags.contains(tag); });
  if (at_safe_point_ == nullptr && tags_.empty()) gate_.set_remote_pause(0);
  refresh();
}

void RemoteControl::note_resume() {
  MutexLock lock(mutex_);
  refresh();
}

bool RemoteControl::wait_at_safe_point() {
  constexpr long kDayMs = 86400000;
  MutexLock lock(mutex_);
  const uint64_t pauses_before = pauses_;
  ++waiting_;
  for (refresh(); must_wait(); refresh()) {
    const bool is_paused = at_safe_point_ != nullptr;  // otherwise held
    changed_.wait_until(mutex_, is_paused ? Deadline::after_ms(kDayMs) : held_until_,
                        [&]() AMEM_REQUIRES(mutex_) {
                          return !must_wait() || is_paused != (at_safe_point_ != nullptr);
                        });
  }
  --waiting_;
  return pauses_ != pauses_before;
}

ControlReply RemoteControl::answer(const Control& request, pid_t from) {
  MutexLock lock(mutex_);
  refresh();
  const Status done = carry_out(request, from);
  refresh();
  return {done.ok() && !failed_,
          was_late_,
          state(),
          command_,
          safe_points_,
          job_of(context_),
          done.ok() ? text_ : done.error().message};
}

void RemoteControl::note_thread() {
  thread_ = pthread_self();
  first_of_thread_ = safe_points_.load();
  const auto tid = static_cast<pid_t>(syscall(SYS_gettid));
  threads_alternate_ = other_tid_.exchange(tid_.exchange(tid)) == tid;
}

Status RemoteControl::check_threads() {
  const pid_t tid = tid_, other = other_tid_;
  const uint64_t in_row = safe_points_ - first_of_thread_ + 1;
  if (other == 0 || other == tid || (in_row >= kSafePointsOfOneThread && !threads_alternate_) ||
      syscall(SYS_tgkill, getpid(), other, 0) != 0)
    return ok_status();
  return misuse_error(
      "threads %d and %d both reach safe points: one can work while the other waits; %s", tid,
      other, threads_alternate_ ? "let one thread reach them all" : "ask again some steps later");
}

Status RemoteControl::check_stop(const Control& request, pid_t from) {
  if (!environment().remote) return misuse_error("it is started with AMEM_REMOTE=0");
  // Held where it is paused, by a command that resumes it.
  const bool stays = at_safe_point_ != nullptr && request.safe_point == safe_points_ &&
                     request.action == Action::hold;
  if ((state_ != State::running && !stays) ||
      (state_ != State::paused && hold_at_ > 0 && command_ != request.command))
    return misuse_error(state_ == State::paused ? "process %d has paused it already: amem resume"
                                                : "process %d has requested another pause of it",
                        by_);
  command_ = request.command;
  if (stays) return ok_status();
  failed_ = was_late_ = false;
  by_ = from;
  return needs_safe_point(request) ? check_threads() : ok_status();
}

Status RemoteControl::carry_out(const Control& request, pid_t from) {
  // A job of which calls have resumed some processes is paused as a whole again.
  if (request.action == Action::pause && !needs_safe_point(request) && state_ == State::paused)
    return ok_status();
  const bool stops = request.action == Action::hold || request.action == Action::pause;
  if (stops) AMEM_TRY(check_stop(request, from));
  switch (request.action) {
    case Action::query:
      break;
    case Action::hold:
      hold_at_ = std::max<uint64_t>(request.safe_point, 1);
      held_until_ = Deadline::after_ms(request.timeout_ms);
      break;
    case Action::release:
      if (command_ == request.command) hold_at_ = 0;
      break;
    case Action::pause:
      return begin_pause(request);
    case Action::resume:
      if (state_ != State::paused) break;
      resumed_by_ = request.command;
      return begin(State::resuming, {tags_, false, static_cast<long>(request.timeout_ms),
                                     static_cast<long>(request.timeout_ms)});
  }
  return ok_status();
}

Status RemoteControl::begin(State state, const Selection& selection) {
  const auto work = [this, selection, state] { move(selection, state == State::pausing); };
  pthread_detach(AMEM_TRY(start_thread("amem-remote", work)));
  state_ = state;
  failed_ = was_late_ = false;
  return ok_status();
}

Status RemoteControl::begin_pause(const Control& request) {
  const bool at_safe_point = needs_safe_point(request);
  if (at_safe_point && (!is_waiting() || safe_points_ != request.safe_point))
    return misuse_error("it does not wait at safe point %" PRIu64, request.safe_point);
  // A command that takes back its resume: what was paused before.
  const bool again = at_safe_point && resumed_by_ == request.command;
  const Tags wanted = again ? tags_ : Tags(request.tags.begin(), request.tags.end());
  tags_.clear();
  for (const auto& [tag, state] : session_.states())
    if (state == SessionState::active && ((wanted.empty() && !again) || wanted.contains(tag)))
      tags_.insert(tag);
  if (at_safe_point)
    at_safe_point_ = std::make_unique<CallGate::WaitingCalls>(gate_);
  else if (!tags_.empty())
    gate_.set_remote_pause(++pauses_);
  AMEM_TRY(begin(State::pausing, {.tags = tags_,
                                  .trim_context = at_safe_point || environment().trim_context,
                                  .drain_ms = static_cast<long>(request.timeout_ms)}));
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  since_s_ = now.tv_sec;
  AMEM_LOG(info, -1, "process %d pauses this one", by_);
  return ok_status();
}

void RemoteControl::move(const Selection& selection, bool is_pause) {
  const auto begun = Deadline::Clock::now();
  size_t mib = released_mib(context_.registry, selection.tags);
  Status moved = ok_status();  // a selection without tags would be all of them
  if (!selection.tags.empty())
    moved = is_pause ? session_.pause(selection) : session_.resume(selection);
  if (is_pause) mib = released_mib(context_.registry, selection.tags);
  const std::chrono::duration<double> seconds = Deadline::Clock::now() - begun;
  char text[80];
  snprintf(text, sizeof text, "%zu MiB %s in %.3f s", mib, is_pause ? "released" : "restored",
           seconds.count());
  MutexLock lock(mutex_);
  failed_ = !moved.ok();
  was_late_ = failed_ &&
              (moved.error().kind == ErrorKind::timeout || moved.error().kind == ErrorKind::peer);
  text_ = moved.ok() ? text : moved.error().message;
  const bool has_ended = selection.tags.empty() && !is_pause;
  state_ = has_ended ? State::running : State::paused;
  const bool was_refused = failed_ && moved.error().kind == ErrorKind::misuse;
  // Also if it has failed: contents that are not kept may be gone.
  if (is_pause && at_safe_point_ != nullptr && !was_refused) ++pauses_;
  if (is_pause) hold_at_ = 0;
  refresh();
}

std::string RemoteControl::json() {
  MutexLock lock(mutex_);
  refresh();
  std::string tags;
  for (const Tag& tag : tags_) tags += (tags.empty() ? "\"" : ", \"") + tag + "\"";
  char text[160];
  snprintf(text, sizeof text,
           "{\"state\": \"%s\", \"pid\": %d, \"time\": %" PRId64 ", \"safe_points\": %" PRIu64
           ", \"tags\": [",
           name_of(state()), by_, since_s_, safe_points_.load());
  return text + tags + "]}";
}

}  // namespace amem
