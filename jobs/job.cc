// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>
#include <stdexcept>

namespace jobs {

namespace {

/// Those that a test waits for at the same time, in the order in which they were started.
std::vector<const RankProcess*> g_ranks;

std::vector<std::string> merged_environment(const Setup& setup,
                                            const std::map<std::string, std::string>& more) {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const size_t equals = text.find('=');
    if (equals != text.npos) all[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : setup.environment) all[name] = value;
  for (const auto& [name, value] : more) all[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : all) entries.push_back(name + "=" + value);
  return entries;
}

}  // namespace

RankProcess::RankProcess(const Setup& setup, const std::map<std::string, std::string>& environment)
    : deadline_ms_(setup.deadline_ms) {
  int to_rank[2], from_rank[2];
  if (pipe2(to_rank, O_CLOEXEC) != 0 || pipe2(from_rank, O_CLOEXEC) != 0)
    throw std::runtime_error("pipe failed");
  log_ = memfd_create("rank log", MFD_CLOEXEC);

  step_ = memfd_create("rank step", MFD_CLOEXEC);
  std::map<std::string, std::string> variables = environment;
  variables["AMEM_TEST_STEP_FILE"] =
      "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(step_);

  std::vector<std::string> entries = merged_environment(setup, variables);
  std::vector<char*> block;
  for (std::string& entry : entries) block.push_back(entry.data());
  block.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_rank[0], 0);
  posix_spawn_file_actions_adddup2(&actions, from_rank[1], 1);
  posix_spawn_file_actions_adddup2(&actions, log_, 2);
  std::string program = setup.rank_program;
  char* arguments[] = {program.data(), nullptr};
  const int failed =
      posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, block.data());
  posix_spawn_file_actions_destroy(&actions);
  close(to_rank[0]);
  close(from_rank[1]);
  in_ = to_rank[1];
  out_ = from_rank[0];
  if (failed != 0) throw std::runtime_error("cannot start " + program);
  signal(SIGPIPE, SIG_IGN);
  g_ranks.push_back(this);
}

RankProcess::~RankProcess() {
  std::erase(g_ranks, this);
  close(in_);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > give_up) {
      ::kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
      break;
    }
    usleep(1000);
  }
  close(out_);
  close(log_);
  close(step_);
}

void RankProcess::order(const std::string& line) {
  last_order_ = line.substr(0, 60);
  waits_ = true;
  const std::string text = line + "\n";
  if (write(in_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw std::runtime_error("rank " + std::to_string(pid_) + " has ended before '" + last_order_ +
                             "': " + log());
}

bool RankProcess::replies_within(int limit_ms) const {
  pollfd poll_out{out_, POLLIN, 0};
  return !buffer_.empty() || poll(&poll_out, 1, limit_ms) != 0;
}

std::string RankProcess::read_line() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(deadline_ms_);
  for (;;) {
    const size_t end = buffer_.find('\n');
    if (end != buffer_.npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      waits_ = false;
      return line;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd poll_out{out_, POLLIN, 0};
    if (left.count() <= 0 || poll(&poll_out, 1, static_cast<int>(left.count())) == 0)
      give_up("did not answer '" + last_order_ + "'");
    char piece[4096];
    const ssize_t got = read(out_, piece, sizeof piece);
    if (got <= 0)
      throw std::runtime_error("rank " + std::to_string(pid_) + " died during '" + last_order_ +
                               "': " + log());
    buffer_.append(piece, static_cast<size_t>(got));
  }
}

RankProcess::Outcome RankProcess::outcome() {
  const std::string line = read_line();
  const bool ok = line.rfind("ok", 0) == 0;
  const size_t word = ok ? 3 : sizeof "error";
  return {ok, line.size() > word ? line.substr(word) : ""};
}

std::string RankProcess::answer() {
  Outcome said = outcome();
  if (said.ok) return std::move(said.text);
  const std::string log_text = log();
  throw std::runtime_error("rank " + std::to_string(pid_) + " at '" + last_order_ +
                           "': " + said.text + (log_text.empty() ? "" : "\n" + log_text));
}

std::string RankProcess::ask_failing(const std::string& line) {
  order(line);
  return failure();
}

std::string RankProcess::failure() {
  Outcome said = outcome();
  if (said.ok) throw std::runtime_error("'" + last_order_ + "' succeeded: " + said.text);
  return std::move(said.text);
}

void RankProcess::kill(int signal) { ::kill(pid_, signal); }

int RankProcess::wait_until_ended() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(deadline_ms_);
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) give_up("has not ended");
    usleep(1000);
  }
  pid_ = -1;
  return status;
}

std::string RankProcess::log(off_t most_bytes) const {
  const off_t size = lseek(log_, 0, SEEK_END);
  const off_t from = size > most_bytes ? size - most_bytes : 0;
  std::string text(static_cast<size_t>(size - from), '\0');
  const ssize_t got = pread(log_, text.data(), text.size(), from);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

std::string RankProcess::where() const {
  char step[64] = "";
  const ssize_t got = pread(step_, step, sizeof step - 1, 0);
  return "rank " + std::to_string(pid_) + (waits_ ? ": waits at '" : ": answered '") + last_order_ +
         "', last step " + (got > 0 ? step : "unknown");
}

void RankProcess::give_up(const std::string& what) const {
  std::string text = "rank " + std::to_string(pid_) + " " + what + " in " +
                     std::to_string(deadline_ms_) + " ms: " + log();
  for (const RankProcess* rank : g_ranks) text += "\n  " + rank->where();
  throw std::runtime_error(text);
}

Job::Job(const Setup& setup, int ranks, const std::map<std::string, std::string>& environment)
    : shared_gpus_(setup.shared_gpus) {
  for (int i = 0; i < ranks; ++i) {
    std::map<std::string, std::string> of_rank = environment;
    if (const auto more = setup.environment_of_rank.find(i);
        more != setup.environment_of_rank.end())
      of_rank.insert(more->second.begin(), more->second.end());
    ranks_.push_back(std::make_unique<RankProcess>(setup, of_rank));
  }
}

void Job::use_devices(const std::vector<int>& devices) {
  for (int i = 0; i < size(); ++i) {
    const int device = devices[static_cast<size_t>(i)];
    (*this)[i].order("device " + std::to_string(shared_gpus_ > 0 ? device % shared_gpus_ : device));
  }
  for (int i = 0; i < size(); ++i) (*this)[i].answer();
}

void Job::make(const std::string& name, std::vector<int> members) {
  if (members.empty()) {
    members.resize(ranks_.size());
    std::iota(members.begin(), members.end(), 0);
  }
  const std::string id = (*this)[members[0]].ask("unique");
  for (size_t i = 0; i < members.size(); ++i)
    (*this)[members[i]].order("make " + name + " " + std::to_string(members.size()) + " " +
                              std::to_string(i) + " " + id);
  for (int member : members) (*this)[member].answer();
}

std::vector<std::string> Job::some(const std::vector<int>& members, const std::string& order) {
  for (int member : members) (*this)[member].order(order);
  std::vector<std::string> answers;
  std::string failures;
  for (int member : members) {
    try {
      answers.push_back((*this)[member].answer());
    } catch (const std::exception& error) {
      failures += std::string(failures.empty() ? "" : "; ") + error.what();
    }
  }
  if (!failures.empty()) throw std::runtime_error(failures);
  return answers;
}

std::vector<std::string> Job::all(const std::string& order) {
  std::vector<int> members(ranks_.size());
  std::iota(members.begin(), members.end(), 0);
  return some(members, order);
}

}  // namespace jobs
