// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/remote_control.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/deadline.h"
#include "cli/failure.h"
#include "cli/process_status.h"
#include "transport/socket_address.h"

namespace amem {
namespace {

using Action = Control::Action;
using State = ControlReply::State;

constexpr long kAnswerMs = 2000;
constexpr int kIntervalMs = 50;
/// A hold is renewed each kIntervalMs, and ends without this command.
constexpr uint32_t kHoldMs = 3000;
/// Of a pause of the memory of NCCL: calls of the job wait meanwhile.
constexpr uint32_t kNcclPauseMs = 1000;
const std::vector<Tag> kNccl = {"nccl"};

struct Process {
  InstanceId instance;
  long pid = 0;
  ControlReply reply;
};
using Job = std::vector<Process>;

std::string name_of(const Process& process) { return fmt::format("process {}", process.pid); }

Process process_of(const Answer& answer) {
  const auto* const reply = std::get_if<ControlReply>(&answer.message);
  if (reply == nullptr)
    throw Failure(kNoReply, fmt::format("process {}: {}", answer.pid, answer.silence));
  return {answer.instance, answer.pid, *reply};
}

/// Of this command.
const uint64_t g_command = random_instance_id().bits[0];

/// Sends a request to all processes and stores their replies. Throws Failure if one does not answer
/// or has ended; with `may_end`, leaves those out.
void request(Job& job, Control control, bool may_end = false) {
  control.command = g_command;
  std::map<InstanceId, Message> requests;
  for (const Process& process : job) requests[process.instance] = control;
  const std::vector<Answer> answers = ask(requests, kAnswerMs);
  for (auto process = job.begin(); process != job.end();) {
    const auto found = std::find_if(answers.begin(), answers.end(), [&](const Answer& answer) {
      return answer.instance == process->instance;
    });
    if (found == answers.end() && !may_end)
      throw Failure(kFailed, name_of(*process) + " has ended");
    if (found == answers.end())
      process = job.erase(process);
    else
      *process++ = process_of(*found);
  }
}

void check_done(const Job& job) {
  for (const Process& process : job)
    if (!process.reply.ok) throw Failure(kFailed, name_of(process) + ": " + process.reply.text);
}

/// Waits until their pauses or resumes have ended, each with a deadline of its own.
void settle(Job& job, bool may_end = false) {
  const auto moves = [](const Process& process) {
    return process.reply.state == State::pausing || process.reply.state == State::resuming;
  };
  while (std::any_of(job.begin(), job.end(), moves)) {
    (void)poll(nullptr, 0, kIntervalMs);
    request(job, {}, may_end);
  }
}

[[noreturn]] void throw_late(uint64_t target, double wait_s, const std::string& late) {
  throw Failure(
      kFailed,
      fmt::format("not all processes of the job have reached safe point {} within {} s: {}. A "
                  "program has safe points if it calls amem.safe_point() or is started with amem "
                  "run --safe-point optimizer; the memory of NCCL (--tag nccl) needs none",
                  target, wait_s, late));
}

/// Holds all processes at the same safe point (api/remote_control.h), and returns its number.
uint64_t hold(Job& job, double wait_s) {
  const Deadline deadline = Deadline::after_ms(static_cast<long>(wait_s * 1000));
  request(job, {Action::hold, 0, 0, kHoldMs});
  check_done(job);
  uint64_t target = 0;
  for (const Process& process : job) target = std::max(target, process.reply.safe_points + 1);
  for (;;) {
    request(job, {Action::hold, 0, target, kHoldMs});
    check_done(job);
    std::string late;
    for (const Process& process : job)
      if (process.reply.state != State::held || process.reply.safe_points != target)
        late += fmt::format("{}{} has reached {}", late.empty() ? "" : ", ", name_of(process),
                            process.reply.safe_points);
    if (late.empty()) return target;
    if (deadline.passed()) throw_late(target, wait_s, late);
    (void)poll(nullptr, 0, kIntervalMs);
  }
}

/// Undoes a part of a pause: the job goes on.
void let_run(Job& job, double wait_s) {
  Job paused;
  for (Process& process : job) {
    Job one = {process};
    try {
      request(one, {Action::release});
      settle(one);
      const ControlReply& reply = one.front().reply;
      if (reply.state == State::paused && reply.command == g_command) paused.push_back(one.front());
    } catch (const Failure&) {  // it has ended, or does not answer: the first error says so
    }
  }
  request(paused, {Action::resume, 0, 0, static_cast<uint32_t>(wait_s * 1000)});
  settle(paused);
  check_done(paused);
}

/// False if work of the job has not ended in time: nothing is paused then.
bool try_to_pause(Job& job, const RemoteOptions& options, const Deadline& deadline) {
  const std::vector<Tag> tags(options.tags.begin(), options.tags.end());
  try {
    const bool is_nccl = tags == kNccl;
    const uint64_t safe_point = is_nccl ? 0 : hold(job, options.wait_s);
    request(job, {Action::pause, 0, safe_point, is_nccl ? kNcclPauseMs : 0, tags});
    settle(job);
    check_done(job);
    return true;
  } catch (const Failure& failure) {
    const bool was_late = std::any_of(
        job.begin(), job.end(), [](const Process& process) { return process.reply.was_late; });
    try {
      let_run(job, options.wait_s);
    } catch (const Failure& second) {
      throw Failure(kFailed, fmt::format("{}; and {}: amem resume tries again", failure.what(),
                                         second.what()));
    }
    if (tags == kNccl && was_late && !deadline.passed()) return false;
    throw Failure(failure.exit_code, fmt::format("no process is paused: {}", failure.what()));
  }
}

/// While ranks call collectives of NCCL at different times, one may be in flight that waits for a
/// call which waits for the pause.
void pause_job(Job& job, const RemoteOptions& options) {
  const Deadline deadline = Deadline::after_ms(static_cast<long>(options.wait_s * 1000));
  for (const Process& process : job)
    if (process.reply.state != State::running)
      throw Failure(kFailed, name_of(process) + " is already held or paused: amem resume");
  while (!try_to_pause(job, options, deadline)) (void)poll(nullptr, 0, kIntervalMs);
  for (const Process& process : job) fmt::print("{}: {}\n", name_of(process), process.reply.text);
}

/// The selected processes, by job.
std::map<std::string, Job> jobs_of(const RemoteOptions& options) {
  const Result<std::set<InstanceId>> instances = instances_of_this_user();
  if (!instances.ok()) throw Failure(kFailed, instances.error().message);
  std::map<InstanceId, Message> queries;
  for (const InstanceId& instance : instances.value()) queries[instance] = Control{};
  std::map<std::string, Job> jobs;
  std::string chosen = "group " + options.group;
  for (const Answer& answer : ask(queries, kAnswerMs)) {
    if (!answer.silence.empty() && (options.all || answer.pid != options.pid)) {
      fmt::print(stderr, "amem: process {} is left out: {}\n", answer.pid, answer.silence);
      continue;
    }
    const Process process = process_of(answer);
    if (process.pid == options.pid) chosen = process.reply.job;
    jobs[process.reply.job].push_back(process);
  }
  if (!options.all) std::erase_if(jobs, [&](const auto& job) { return job.first != chosen; });
  if (!jobs.empty()) return jobs;
  throw Failure(kFailed, options.all ? "no process of this user runs amem"
                         : options.pid > 0
                             ? fmt::format("process {} does not run amem, or is "
                                           "another user's",
                                           options.pid)
                             : fmt::format("there is no process of group {}", options.group));
}

/// A job that fails does not keep the others from their turn.
template <typename Body>
void for_each_job(const RemoteOptions& options, Body body) {
  std::optional<Failure> first;
  for (auto& [name, job] : jobs_of(options)) {
    try {
      body(job);
    } catch (const Failure& failure) {
      if (first) fmt::print(stderr, "amem: {}\n", failure.what());
      if (!first) first.emplace(failure);
    }
  }
  if (first) throw Failure(*first);
}

}  // namespace

void pause_jobs(const RemoteOptions& options) {
  const bool is_nccl = options.tags == std::vector<std::string>(kNccl.begin(), kNccl.end());
  for_each_job(options, [&](Job& job) {
    if (is_nccl && options.pid > 0)
      std::erase_if(job, [&](const Process& process) { return process.pid != options.pid; });
    pause_job(job, options);
  });
}

void resume_jobs(const RemoteOptions& options) {
  for_each_job(options, [&](Job& job) {
    std::erase_if(job, [](const Process& each) { return each.reply.state != State::paused; });
    request(job, {Action::resume, 0, 0, static_cast<uint32_t>(options.wait_s * 1000)}, true);
    settle(job, true);
    for (const Process& process : job)
      if (process.reply.ok) fmt::print("{}: {}\n", name_of(process), process.reply.text);
    check_done(job);
  });
}

}  // namespace amem
