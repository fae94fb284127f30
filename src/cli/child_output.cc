// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/child_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"

namespace amem {
namespace {

/// A child that writes into a pipe; killed and reaped at the end of its life here.
class Child {
 public:
  Child(const std::string& program, std::vector<std::string> arguments,
        const Variables& variables) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    output_ = UniqueFd(ends[0]);
    const UniqueFd input(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, input.get(), STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    arguments.insert(arguments.begin(), program);
    std::vector<std::string> block = variables.block();
    if (posix_spawn(&pid_, program.c_str(), &actions, nullptr, pointers_to(arguments).data(),
                    pointers_to(block).data()) != 0)
      pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Child() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;

  bool started() const { return pid_ >= 0; }
  int output() const { return output_.get(); }

 private:
  pid_t pid_ = -1;
  UniqueFd output_;
};

}  // namespace

std::optional<std::string> first_line_of(const std::string& program,
                                         std::vector<std::string> arguments,
                                         const Variables& variables, Deadline deadline) {
  const Child child(program, std::move(arguments), variables);
  if (!child.started()) return std::nullopt;
  std::string text;
  while (!deadline.passed()) {
    pollfd ready{child.output(), POLLIN, 0};
    if (poll(&ready, 1, deadline.left_ms()) <= 0) continue;
    char bytes[4096];
    const ssize_t got = read(child.output(), bytes, sizeof bytes);
    if (got <= 0) return std::nullopt;
    text.append(bytes, static_cast<size_t>(got));
    if (const size_t end = text.find('\n'); end != text.npos) return text.substr(0, end);
  }
  return std::nullopt;
}

}  // namespace amem
