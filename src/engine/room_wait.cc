// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/room_wait.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/environment.h"
#include "base/log.h"
#include "base/test_seam.h"
#include "engine/resume_error.h"

namespace amem {

std::string job_of(const ProcessContext& context) {
  if (!environment().group.name.empty()) return "group " + environment().group.name;
  if (context.group != 0) return "group " + std::to_string(context.group);
  struct stat pid_namespace {};
  (void)stat("/proc/self/ns/pid", &pid_namespace);
  return "parent " + std::to_string(getppid()) + " in " + std::to_string(pid_namespace.st_ino);
}

std::string gpu_name(const ProcessContext& context, int device) {
  const std::string uuid = gpu_uuid(context.driver, device);
  return uuid.empty() ? RoomTicket::kUnknownGpu : uuid;
}

RoomWait::RoomWait(ProcessContext& context, RoomTicket& ticket, const std::set<std::string>& gpus,
                   long wait_ms, const std::atomic<bool>* cancelled)
    : context_(context),
      ticket_(ticket),
      gpus_(gpus),
      wait_ms_(wait_ms),
      deadline_(Deadline::after_ms(wait_ms)),
      cancelled_(cancelled) {}

RoomWait::~RoomWait() {
  if (in_queue_) ticket_.leave(resumed_, deadline_, gpus_);
}

bool RoomWait::ended() const {
  return deadline_.passed() || (cancelled_ != nullptr && *cancelled_);
}

Error RoomWait::lack(const char* why) const {
  return make_error(ErrorKind::driver, driver_result::kOutOfMemory,
                    "the resume has waited %ld ms for GPU memory%s", wait_ms_, why);
}

bool RoomWait::is_first() {
  if (wait_ms_ == 0 || outside_queue_ || gpus_.empty()) return true;
  if (!in_queue_) {
    const Status joined = ticket_.join(job_of(context_), gpus_);
    if (!joined.ok() && joined.error().kind == ErrorKind::misuse) return false;
    step_point("resume_joined");
    if (in_queue_ = joined.ok(); !in_queue_) {
      AMEM_LOG(warn, -1, "the resume waits for GPU memory outside the queue of processes: %s",
               joined.error().message.c_str());
      return outside_queue_ = true;
    }
  }
  const Result<bool> first = ticket_.is_first();
  return !first.ok() || first.value();
}

Status RoomWait::wait_for_turn(const std::function<Status()>& release,
                               const std::function<std::map<int, size_t>()>& wanted_bytes) {
  lost_turn_ = false;
  for (;;) {
    const bool first = is_first();
    if (first && (wait_ms_ == 0 || has_room(wanted_bytes()))) return ok_status();
    if (!first) AMEM_TRY(release());  // again: another resume can fail meanwhile
    AMEM_TRY(context_.exiting.check());
    if (ended()) return lack(first ? "" : ", behind others");
    (void)poll(nullptr, 0, first ? 1 : 5);
  }
}

// Free memory is asked for before the announcements, from which memory is taken before it is free.
bool RoomWait::has_room(const std::map<int, size_t>& wanted_bytes) {
  std::map<int, size_t> missing;
  for (const auto& [device, wanted] : wanted_bytes) {
    const size_t free =
        free_bytes(context_.driver, context_.fill_threads, device).value_or(wanted);  // it is tried
    if (free < wanted) missing[device] = wanted - free;
  }
  takes_releases_ = !missing.empty();
  if (missing.empty()) return true;
  const std::map<std::string, size_t> announced = ticket_.announced();
  return std::ranges::all_of(missing, [&](const auto& of_device) {
    const auto found = announced.find(gpu_name(context_, of_device.first));
    return found != announced.end() && found->second >= of_device.second;
  });
}

Status RoomWait::wait_for_room(const Error& lack, const std::map<int, size_t>& wanted_bytes) {
  if (wait_ms_ > 0) step_point("resume_waits");
  // The free memory is known before the driver releases all of it: the call is then made anyway.
  constexpr int kIntervals = 50;
  for (int interval = 0; interval < kIntervals; ++interval) {
    AMEM_TRY(context_.exiting.check());
    if (ended()) {
      Error error = lack;
      if (wait_ms_ > 0)
        error.message +=
            "; the resume has waited " + std::to_string(wait_ms_) + " ms for GPU memory";
      return error;
    }
    (void)poll(nullptr, 0, 1);
    if (std::ranges::any_of(wanted_bytes, [&](const auto& wanted) {
          return free_bytes(context_.driver, context_.fill_threads, wanted.first).value_or(0) >=
                 wanted.second;
        }))
      break;
  }
  if (lost_turn_ = !is_first(); lost_turn_) return lack;
  return ok_status();
}

void RoomWait::wait_for_pauses() {
  const Deadline soon = Deadline::after_ms(RoomTicket::kCountsMs);
  const auto has_announced = [&] {
    const auto announced = ticket_.announced();
    return std::ranges::any_of(gpus_, [&](const auto& gpu) { return announced.contains(gpu); });
  };
  while (takes_releases_ && is_first() && has_announced() && !soon.passed())
    (void)poll(nullptr, 0, 1);
}

}  // namespace amem
