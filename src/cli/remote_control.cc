// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/remote_control.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <map>
#include <utility>

#include "base/deadline.h"
#include "cli/failure.h"
#include "cli/process_status.h"
#include "cli/status_report.h"

namespace amem {
namespace {

using Action = Control::Action;
using State = ControlReply::State;

constexpr long kAnswerMs = 2000;
constexpr int kIntervalMs = 50;
/// A hold is renewed each kIntervalMs, and ends without this command.
constexpr uint32_t kHoldMs = 3000;
/// How long most tries to pause the memory of NCCL wait for work, as calls of the job wait
/// meanwhile.
constexpr uint32_t kShortTryMs = 250;

/// With the answer to the last request, and the last reply.
struct Process : Answer {
  ControlReply reply{};
};
using Job = std::vector<Process>;

std::string name_of(const Process& process) {
  return process.pid == 0 ? "a process of another pid namespace"
                          : fmt::format("process {}", process.pid);
}

/// Of this command.
const uint64_t g_command = random_instance_id().bits[0];

/// Sends a request to all processes and stores their replies. Those that have ended are left out.
void ask_all(Job& job, Control control) {
  control.command = g_command;
  std::map<InstanceId, Message> requests;
  for (const Process& process : job) requests[process.instance] = control;
  Job answered;
  for (const Answer& answer : ask(requests, kAnswerMs)) {
    const ControlReply before = std::ranges::find(job, answer.instance, &Process::instance)->reply;
    const auto* const reply = std::get_if<ControlReply>(&answer.message);
    answered.push_back({answer, reply != nullptr ? *reply : before});
  }
  job = std::move(answered);
}

/// The same. Throws Failure if one does not answer.
void request(Job& job, const Control& control) {
  ask_all(job, control);
  for (const Process& process : job)
    if (!process.silence.empty())
      throw Failure(kNoReply, name_of(process) + ": " + process.silence);
}

void check_done(const Job& job) {
  if (job.empty()) throw Failure(kFailed, "its processes have ended");
  for (const Process& process : job)
    if (!process.reply.ok) throw Failure(kFailed, name_of(process) + ": " + process.reply.text);
}

/// Sends a request, and then `meanwhile`, until the pauses or resumes of all have ended, each with
/// a deadline of its own.
void settle(Job& job, const Control& first, const Control& meanwhile = {}) {
  const auto moves = [](const Process& process) {
    return process.reply.state == State::pausing || process.reply.state == State::resuming;
  };
  for (request(job, first); std::ranges::any_of(job, moves); request(job, meanwhile))
    (void)poll(nullptr, 0, kIntervalMs);
}

/// Of a process that does not answer: as in engine/room_wait.cc, from what it was started with.
std::string job_at_start(long pid) {
  for (const char* name : {"AMEM_GROUP=", "AMEM_GROUPID="})
    if (const std::string group = started_with(pid, {name}); !group.empty() && group != "0")
      return "group " + group;
  std::string parent;
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("PPid:\t")) parent = line.substr(strlen("PPid:\t"));
  struct stat pid_namespace {};
  (void)stat(fmt::format("/proc/{}/ns/pid", pid).c_str(), &pid_namespace);
  return fmt::format("parent {} in {}", parent, pid_namespace.st_ino);
}

/// The processes of this user that no caller has taken from it, by job.
std::map<std::string, Job>& new_processes() {
  static std::set<InstanceId> known;
  static std::map<std::string, Job> jobs;
  Job found;
  for (const InstanceId& instance : known_instances())
    if (known.insert(instance).second) found.push_back({{instance}});
  ask_all(found, {});
  for (const Process& process : found) {
    const bool answers = process.silence.empty();
    jobs[answers ? process.reply.job : job_at_start(process.pid)].push_back(process);
  }
  return jobs;
}

/// Holds all processes at the same safe point (api/remote_control.h), and returns its number. Adds
/// those of the job that have begun to run amem meanwhile: one that is held there has communicators
/// with them.
uint64_t hold(Job& job, const Deadline& deadline) {
  request(job, {Action::hold, 0, 0, kHoldMs});
  check_done(job);
  uint64_t target = 0;
  for (const Process& process : job) target = std::max(target, process.reply.safe_points + 1);
  for (;;) {
    request(job, {Action::hold, 0, target, kHoldMs});
    check_done(job);
    std::string others;
    bool is_past = false;
    for (const Process& process : job) {
      const ControlReply& reply = process.reply;
      is_past = is_past || reply.safe_points > target;
      if (reply.state != State::held || reply.safe_points != target)
        others += fmt::format("; {} has reached {}{}", name_of(process), reply.safe_points,
                              reply.safe_points == target ? " and does not wait there" : "");
    }
    if (others.empty()) {
      const Job later = std::exchange(new_processes()[job.front().reply.job], {});
      if (later.empty()) return target;
      job.insert(job.end(), later.begin(), later.end());
      return hold(job, deadline);
    }
    if (is_past || deadline.passed())
      throw Failure(
          kFailed,
          fmt::format("the processes of the job do not meet at safe point {}{}. All call "
                      "amem.safe_point() equally often, or are started with amem run --safe-point "
                      "optimizer; the memory of NCCL (--tag nccl) needs no safe point",
                      target, others));
    (void)poll(nullptr, 0, kIntervalMs);
  }
}

/// Takes back a part of a pause or resume: after `first`, processes that this command has brought
/// to `state` do the opposite. Returns what remains, or "".
std::string take_back(Job job, const Control& first, State state, Control opposite) {
  std::string problems;
  for (const Process& process : job)
    if (!process.silence.empty() && process.reply.state == State::pausing)
      problems += fmt::format("; it may be paused when it continues: amem resume {}",
                              process.pid > 0 ? fmt::format("--pid {}", process.pid) : "--all");
  std::erase_if(job, [](const Process& process) { return !process.silence.empty(); });
  try {
    settle(job, first, first);
    std::erase_if(job, [&](const Process& process) {
      return process.reply.state != state || process.reply.command != g_command;
    });
    for (const Process& process : job) opposite.safe_point = process.reply.safe_points;
    settle(job, opposite);
    if (!job.empty()) check_done(job);
  } catch (const Failure& failure) {
    problems += fmt::format("; {}: amem status says what is paused", failure.what());
  }
  return problems;
}

/// False if work of the job has not ended within `try_ms` or by the deadline: nothing is paused
/// then.
bool try_to_pause(Job& job, const RemoteOptions& options, const Deadline& deadline,
                  uint32_t try_ms) {
  const bool is_nccl = options.is_nccl();
  try {
    const uint64_t safe_point = is_nccl ? 0 : hold(job, deadline);
    const std::vector<Tag> tags(options.tags.begin(), options.tags.end());
    const auto left_ms = static_cast<uint32_t>(std::max(1, deadline.left_ms()));
    settle(job, {Action::pause, 0, safe_point, std::min(try_ms, left_ms), tags});
    check_done(job);
    return true;
  } catch (const Failure& failure) {
    const bool was_late =
        std::ranges::any_of(job, [](const Process& process) { return process.reply.was_late; });
    const std::string problems =
        take_back(job, {Action::release}, State::paused, {Action::resume, 0, 0, options.wait_ms()});
    if (is_nccl && was_late && problems.empty() && !deadline.passed()) return false;
    throw Failure(failure.exit_code,
                  fmt::format("the job is not paused: {}{}", failure.what(), problems));
  }
}

/// While ranks call collectives of NCCL at different times, one may be in flight that waits for a
/// call which waits for the pause: a longer try would only stop the job for longer. Work that is
/// long itself needs one: tries wait 1, 2, 1, 4, 1, 2, 1, 8 times the shortest, and so on.
void pause_job(Job& job, const RemoteOptions& options) {
  if (options.is_nccl() && options.pid > 0)
    std::erase_if(job, [&](const Process& process) { return process.pid != options.pid; });
  const Deadline deadline = Deadline::after_ms(options.wait_ms());
  const auto try_ms = [&](uint32_t number) {
    return options.is_nccl() ? kShortTryMs * (number & -number) : options.wait_ms();
  };
  for (uint32_t number = 1; !try_to_pause(job, options, deadline, try_ms(number)); ++number)
    (void)poll(nullptr, 0, kIntervalMs);
  for (const Process& process : job) fmt::print("{}: {}\n", name_of(process), process.reply.text);
}

/// All processes of the job, or none: each stays at its safe point until all have resumed.
void resume_job(Job& job, const RemoteOptions& options) {
  std::erase_if(job, [](const Process& process) {
    const bool is_other = process.silence.empty() && process.reply.state != State::paused;
    if (is_other) fmt::print("{}: not paused by amem pause\n", name_of(process));
    return is_other;
  });
  if (job.empty()) return;
  Control hold{Action::hold, 0, 0, kHoldMs};
  for (const Process& process : job) hold.safe_point = process.reply.safe_points;
  try {
    request(job, hold);
    settle(job, {Action::resume, 0, 0, options.wait_ms()}, hold);
    request(job, {});
    check_done(job);
  } catch (const Failure& failure) {
    const std::string problems =
        take_back(job, hold, State::held, {Action::pause, 0, 0, options.wait_ms()});
    throw Failure(failure.exit_code,
                  fmt::format("the job is not resumed: {}{}", failure.what(), problems));
  }
  for (const Process& process : job) fmt::print("{}: {}\n", name_of(process), process.reply.text);
  ask_all(job, {Action::release});
}

/// The selected processes, by job.
std::map<std::string, Job> jobs_of(const RemoteOptions& options) {
  std::map<std::string, Job> jobs = std::exchange(new_processes(), {});
  std::string chosen = "group " + options.group;
  for (const auto& [name, job] : jobs)
    if (options.pid > 0 && std::ranges::find(job, options.pid, &Process::pid) != job.end())
      chosen = name;
  if (!options.all) std::erase_if(jobs, [&](const auto& job) { return job.first != chosen; });
  if (!jobs.empty()) return jobs;
  throw Failure(kFailed, options.all       ? "no process of this user runs amem"
                         : options.pid > 0 ? why_unknown(options.pid)
                                           : "there is no process of group " + options.group);
}

/// A job that fails does not keep the others from their turn.
template <typename Body>
int for_each_job(const RemoteOptions& options, Body body) {
  int exit_code = 0;
  for (auto& [name, job] : jobs_of(options)) {
    try {
      body(job, options);
    } catch (const Failure& failure) {
      fmt::print(stderr, "amem: {}\n", failure.what());
      exit_code = failure.exit_code;
    }
  }
  return exit_code;
}

}  // namespace

int pause_jobs(const RemoteOptions& options) { return for_each_job(options, pause_job); }

int resume_jobs(const RemoteOptions& options) { return for_each_job(options, resume_job); }

}  // namespace amem
