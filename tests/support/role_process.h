// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/identity.h"
#include "base/unique_fd.h"

namespace amem {

inline InstanceId id_from_hex(const std::string& hex) {
  return InstanceId{
      {std::stoull(hex.substr(0, 16), nullptr, 16), std::stoull(hex.substr(16), nullptr, 16)}};
}

/// Another process in the role that its arguments name. Its first line of output is what it has to
/// say; it ends when its input does.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    int in[2], out[2];
    EXPECT_EQ(pipe2(in, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    std::vector<char*> argv;
    std::string self = "/proc/self/exe";
    argv.push_back(self.data());
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      execv(self.c_str(), argv.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    input_.reset(in[1]);
    output_.reset(out[0]);
    line_ = read_line();
  }
  ~Process() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    wait();
  }

  pid_t pid() const { return pid_; }
  const std::string& line() const { return line_; }
  InstanceId instance() const { return id_from_hex(line_); }
  /// The next line of its output.
  std::string read_line() {
    std::string line;
    char c;
    while (read(output_.get(), &c, 1) == 1 && c != '\n') line += c;
    return line;
  }
  void kill_with(int signal) { EXPECT_EQ(kill(pid_, signal), 0); }
  /// Returns when every thread of it stands still.
  void stop() {
    kill_with(SIGSTOP);
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  void tell() { EXPECT_EQ(write(input_.get(), "\n", 1), 1); }
  /// Ends its input and returns its exit status.
  int wait() {
    input_.reset();
    if (pid_ > 0) waitpid(pid_, &status_, 0);
    pid_ = -1;
    return status_;
  }
  /// True when everything that this process started has ended too.
  bool output_ended() {
    pollfd ended{output_.get(), POLLIN, 0};
    return poll(&ended, 1, 0) == 1;
  }

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  UniqueFd input_, output_;
  std::string line_;
};

}  // namespace amem
