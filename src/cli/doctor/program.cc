// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/doctor/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <sstream>

#include "base/deadline.h"
#include "base/unique_fd.h"

namespace amem {
namespace {

/// False at the deadline.
bool read_until_end(int fd, Deadline deadline, std::string* text) {
  char part[4096];
  for (pollfd readable{fd, POLLIN, 0}; poll(&readable, 1, deadline.left_ms()) > 0;) {
    const ssize_t count = read(fd, part, sizeof part);
    if (count <= 0) return true;
    text->append(part, static_cast<size_t>(count));
  }
  return false;
}

std::string failure_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  return {};
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != name.npos) return access(name.c_str(), X_OK) == 0 ? name : "";
  std::istringstream folders(value_of(variables_of_this_process(), "PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = (folder.empty() ? "." : folder) + "/" + name;
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

Outcome run_program(std::vector<std::string> command, const Variables& variables, int timeout_ms) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {"", std::string("cannot be run: ") + strerror(errno)};
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<std::string> block = block_of(variables);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, command.front().c_str(), &actions, nullptr,
                                pointers_to(command).data(), pointers_to(block).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return {"", std::string("cannot be run: ") + strerror(error)};
  write_end.reset();
  Outcome outcome;
  const bool ended =
      read_until_end(read_end.get(), Deadline::after_ms(timeout_ms), &outcome.output);
  if (!ended) kill(pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  outcome.failure = ended ? failure_of(status) : fmt::format("took more than {} ms", timeout_ms);
  return outcome;
}

}  // namespace amem
