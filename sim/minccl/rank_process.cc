// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/rank_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/deadline.h"

namespace amem::minccl {
namespace {

std::map<std::string, Scenario>& scenarios() {
  static std::map<std::string, Scenario> all;
  return all;
}

bool read_all(int fd, void* data, size_t bytes) {
  for (auto* next = static_cast<char*>(data); bytes > 0;) {
    ssize_t got = read(fd, next, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    next += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int fd, const void* data, size_t bytes) {
  for (auto* next = static_cast<const char*>(data); bytes > 0;) {
    ssize_t put = send(fd, next, bytes, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    next += put;
    bytes -= static_cast<size_t>(put);
  }
  return true;
}

struct RankProcess {
  pid_t pid = -1;
  UniqueFd control;
  UniqueFd output;
  std::vector<char> message;  ///< what it has given to the exchange that is going on
  bool waiting = false;
  bool ended = false;
};

/// One run: starts the ranks, serves their exchanges, gathers what they print.
class Run {
 public:
  Run(const char* scenario, const RankOptions& options);
  ~Run();

  RankOutcome wait();

 private:
  void start(int rank);
  [[noreturn]] void become_rank(int rank, int control, int output);
  void serve();
  void receive(RankProcess& process);
  void finish_exchange();
  void append_output(RankProcess& process);
  void reap();
  bool all_ended() const;

  const char* scenario_;
  RankOptions options_;
  std::string machine_;
  std::vector<RankProcess> processes_;
  std::string text_;
  bool failed_ = false;
};

Run::Run(const char* scenario, const RankOptions& options)
    : scenario_(scenario), options_(options) {
  char folder[] = "/dev/shm/minccl-test-XXXXXX";
  machine_ = mkdtemp(folder);
  processes_.resize(options.ranks);
  for (int rank = 0; rank < options.ranks; ++rank) start(rank);
}

Run::~Run() {
  for (RankProcess& process : processes_) {
    if (process.ended) continue;
    kill(process.pid, SIGKILL);
    waitpid(process.pid, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(machine_, ignored);
}

void Run::start(int rank) {
  int control[2];
  int output[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) != 0 ||
      pipe2(output, O_CLOEXEC) != 0)
    abort();
  pid_t pid = fork();
  if (pid == 0) become_rank(rank, control[1], output[1]);
  close(control[1]);
  close(output[1]);
  fcntl(output[0], F_SETFL, O_NONBLOCK);
  processes_[rank].pid = pid;
  processes_[rank].control.reset(control[0]);
  processes_[rank].output.reset(output[0]);
}

void Run::become_rank(int rank, int control, int output) {
  // A rank may hang by design; it must not outlive the test that would have killed it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setenv("AMEM_SIM_LOCAL_MB", "0", 1);  // what NCCL leaves in use is counted
  for (const auto& [name, value] : options_.environment) setenv(name.c_str(), value.c_str(), 1);
  setenv("AMEM_SIM_DIR", machine_.c_str(), 1);
  // Behind what the caller has set, so that these tests can be run with another library in front.
  const char* before = getenv("LD_LIBRARY_PATH");
  std::string path = (before == nullptr ? "" : std::string(before) + ":") + AMEM_SIM_LIBRARIES;
  setenv("LD_LIBRARY_PATH", path.c_str(), 1);
  dup2(output, STDERR_FILENO);
  int inherited = fcntl(control, F_DUPFD, 3);
  execl("/proc/self/exe", "minccl_rank", "--rank", scenario_, std::to_string(rank).c_str(),
        std::to_string(options_.ranks).c_str(), std::to_string(inherited).c_str(), nullptr);
  _exit(127);
}

void Run::append_output(RankProcess& process) {
  char buffer[4096];
  for (ssize_t got; (got = read(process.output.get(), buffer, sizeof buffer)) > 0;)
    text_.append(buffer, static_cast<size_t>(got));
}

void Run::receive(RankProcess& process) {
  uint64_t bytes = 0;
  if (!read_all(process.control.get(), &bytes, sizeof bytes)) {
    process.control.reset();
    return;
  }
  process.message.resize(bytes);
  process.waiting = read_all(process.control.get(), process.message.data(), bytes);
}

void Run::finish_exchange() {
  for (const RankProcess& process : processes_)
    if (!process.waiting) return;
  std::vector<char> all;
  for (const RankProcess& process : processes_)
    all.insert(all.end(), process.message.begin(), process.message.end());
  for (RankProcess& process : processes_) {
    process.waiting = false;
    write_all(process.control.get(), all.data(), all.size());
  }
}

void Run::serve() {
  std::vector<pollfd> entries;
  for (RankProcess& process : processes_) {
    // A negative descriptor is one that poll(2) leaves out.
    entries.push_back({process.waiting ? -1 : process.control.get(), POLLIN, 0});
    entries.push_back({process.output.get(), POLLIN, 0});
  }
  poll(entries.data(), entries.size(), 10);
  for (size_t rank = 0; rank < processes_.size(); ++rank) {
    if (entries[2 * rank].revents != 0) receive(processes_[rank]);
    append_output(processes_[rank]);
  }
  finish_exchange();
  reap();
}

void Run::reap() {
  for (size_t rank = 0; rank < processes_.size(); ++rank) {
    RankProcess& process = processes_[rank];
    int status = 0;
    if (process.ended || waitpid(process.pid, &status, WNOHANG) != process.pid) continue;
    process.ended = true;
    append_output(process);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    failed_ = true;
    text_ +=
        "rank " + std::to_string(rank) + " ended with wait status " + std::to_string(status) + "\n";
  }
}

bool Run::all_ended() const {
  for (const RankProcess& process : processes_)
    if (!process.ended) return false;
  return true;
}

RankOutcome Run::wait() {
  Deadline deadline = Deadline::after_ms(options_.timeout_ms);
  while (!all_ended() && !failed_ && !deadline.passed()) serve();
  if (!all_ended() && !failed_) text_ += "ranks were still running at the deadline\n";
  return {all_ended() && !failed_, text_};
}

int run_as_rank(char** arguments) {
  auto scenario = scenarios().find(arguments[0]);
  if (scenario == scenarios().end()) fail_rank("no scenario %s", arguments[0]);
  RankContext context(atoi(arguments[1]), atoi(arguments[2]), atoi(arguments[3]));
  scenario->second(context);
  return 0;
}

}  // namespace

RegisterScenario::RegisterScenario(const char* name, Scenario scenario) {
  scenarios().emplace(name, std::move(scenario));
}

std::vector<char> RankContext::exchange(const void* data, size_t bytes) {
  uint64_t size = bytes;
  std::vector<char> all(bytes * ranks_);
  if (!write_all(control_.get(), &size, sizeof size) || !write_all(control_.get(), data, bytes) ||
      !read_all(control_.get(), all.data(), all.size()))
    fail_rank("the test process is gone");
  return all;
}

void fail_rank(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  _exit(1);
}

RankOutcome run_ranks(const char* scenario, const RankOptions& options) {
  return Run(scenario, options).wait();
}

}  // namespace amem::minccl

int main(int count, char** arguments) {
  if (count == 6 && strcmp(arguments[1], "--rank") == 0)
    return amem::minccl::run_as_rank(arguments + 2);
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
