// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "api/testdata/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "tests/slowdown.h"

namespace amem {
namespace {

constexpr long kChildLimitMs = 60000 * kSlowdown;

struct Pipe {
  UniqueFd read_end, write_end;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) abort();
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// Appends what can be read; false at the end of the stream.
bool drain(int fd, std::string& out) {
  char bytes[4096];
  const ssize_t got = read(fd, bytes, sizeof bytes);
  if (got > 0) out.append(bytes, static_cast<size_t>(got));
  return got > 0 || (got < 0 && errno == EINTR);
}

void collect(Pipe& output, Pipe& errors, pid_t child, Ended& ended) {
  const Deadline deadline = Deadline::after_ms(kChildLimitMs);
  bool output_open = true, errors_open = true;
  while (output_open || errors_open) {
    pollfd streams[2] = {{output_open ? output.read_end.get() : -1, POLLIN, 0},
                         {errors_open ? errors.read_end.get() : -1, POLLIN, 0}};
    if (poll(streams, 2, deadline.left_ms()) == 0) {
      kill(child, SIGKILL);
      ended.errors += "\n(killed: it took too long)\n";
      return;
    }
    if (streams[0].revents != 0) output_open = drain(streams[0].fd, ended.output);
    if (streams[1].revents != 0) errors_open = drain(streams[1].fd, ended.errors);
  }
}

}  // namespace

Ended run_in_child(const std::function<int()>& body) {
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  const pid_t child = fork();
  if (child < 0) abort();
  if (child == 0) {
    dup2(output.write_end.get(), STDOUT_FILENO);
    dup2(errors.write_end.get(), STDERR_FILENO);
    _exit(body());
  }
  output.write_end.reset();
  errors.write_end.reset();
  Ended ended{};
  collect(output, errors, child, ended);
  int status = 0;
  if (waitpid(child, &status, 0) != child) abort();
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return ended;
}

Ended run_program(const std::vector<std::string>& argv, const std::vector<std::string>& settings) {
  return run_in_child([&] {
    for (const std::string& setting : settings) {
      const size_t equals = setting.find('=');
      setenv(setting.substr(0, equals).c_str(), setting.substr(equals + 1).c_str(), 1);
    }
    std::vector<char*> arguments;
    for (const std::string& argument : argv)
      arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    return 127;
  });
}

int count_of(const std::string& word, const std::string& text) {
  int count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

}  // namespace amem
