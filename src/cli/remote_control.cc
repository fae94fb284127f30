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
/// Of the first try to pause the memory of NCCL, as calls of the job wait meanwhile.
constexpr uint32_t kFirstTryMs = 1000;

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

/// Holds all processes at the same safe point (api/remote_control.h), and returns its number.
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
    for (const auto& [instance, pid, reply] : job) {
      is_past = is_past || reply.safe_points > target;
      if (reply.state != State::held || reply.safe_points != target)
        others += fmt::format("; process {} has reached {}{}", pid, reply.safe_points,
                              reply.safe_points == target ? " and does not wait there" : "");
    }
    if (others.empty()) return target;
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

/// Undoes a part of a pause: the job goes on. Returns why a process may be paused, or "".
std::string release_and_resume(Job& job, uint32_t wait_ms) {
  std::string problems;
  for (Process& process : job) {
    Job one = {process};
    try {
      request(one, {Action::release}, true);
      settle(one, true);
      if (one.empty() || one.front().reply.state != State::paused ||
          one.front().reply.command != g_command)
        continue;
      request(one, {Action::resume, 0, 0, wait_ms}, true);
      settle(one, true);
      check_done(one);
    } catch (const Failure& failure) {
      problems += fmt::format("; {}: it may be paused: amem resume", failure.what());
    }
  }
  return problems;
}

/// False if work of the job has not ended in time: nothing is paused then.
bool try_to_pause(Job& job, const RemoteOptions& options, const Deadline& deadline,
                  uint32_t try_ms) {
  const bool is_nccl = options.is_nccl();
  try {
    const uint64_t safe_point = is_nccl ? 0 : hold(job, deadline);
    const std::vector<Tag> tags(options.tags.begin(), options.tags.end());
    request(job, {Action::pause, 0, safe_point, try_ms, tags});
    check_done(job);
    settle(job);
    check_done(job);
    return true;
  } catch (const Failure& failure) {
    const bool was_late = std::any_of(
        job.begin(), job.end(), [](const Process& process) { return process.reply.was_late; });
    const std::string problems = release_and_resume(job, options.wait_ms());
    if (is_nccl && was_late && problems.empty() && !deadline.passed()) return false;
    throw Failure(failure.exit_code,
                  fmt::format("the job is not paused: {}{}", failure.what(), problems));
  }
}

/// While ranks call collectives of NCCL at different times, one may be in flight that waits for a
/// call which waits for the pause.
void pause_job(Job& job, const RemoteOptions& options) {
  const Deadline deadline = Deadline::after_ms(options.wait_ms());
  uint32_t try_ms =
      options.is_nccl() ? std::min(kFirstTryMs, options.wait_ms()) : options.wait_ms();
  while (!try_to_pause(job, options, deadline, try_ms)) {
    try_ms = std::min(2 * try_ms, options.wait_ms());
    (void)poll(nullptr, 0, kIntervalMs);
  }
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
    const bool is_chosen = options.pid > 0 && answer.pid == options.pid;
    if (!answer.silence.empty() && !is_chosen) {
      fmt::print(stderr, "amem: process {} is left out: {}\n", answer.pid, answer.silence);
      continue;
    }
    const Process process = process_of(answer);
    if (is_chosen) chosen = process.reply.job;
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
  for_each_job(options, [&](Job& job) {
    if (options.is_nccl() && options.pid > 0)
      std::erase_if(job, [&](const Process& process) { return process.pid != options.pid; });
    pause_job(job, options);
  });
}

void resume_jobs(const RemoteOptions& options) {
  for_each_job(options, [&](Job& job) {
    for (const Process& process : job)
      if (process.reply.state != State::paused)
        fmt::print("{}: not paused by amem pause\n", name_of(process));
    std::erase_if(job, [](const Process& each) { return each.reply.state != State::paused; });
    request(job, {Action::resume, 0, 0, options.wait_ms()}, true);
    settle(job, true);
    for (const Process& process : job)
      if (process.reply.ok) fmt::print("{}: {}\n", name_of(process), process.reply.text);
    check_done(job);
  });
}

}  // namespace amem
