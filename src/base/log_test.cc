// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Where lines of the log go when a program closes or redirects standard error.
#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace amem {
namespace {

/// Children with files that they open as standard error. Each child has a standard error of its own
/// at first.
class LogTest : public testing::Test {
 protected:
  LogTest() { std::filesystem::create_directories(folder_); }
  ~LogTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const char* name) const { return (folder_ / name).string(); }
  int open_file(const char* name, int flags) const {
    return open(path(name).c_str(), flags | O_CREAT, 0600);
  }
  /// Runs `body` in a child. Its first standard error is the file "first".
  template <typename Body>
  void in_child(Body body) {
    const pid_t child = fork();
    if (child == 0) {
      const int first = open_file("first", O_WRONLY | O_TRUNC);
      dup2(first, STDERR_FILENO);
      close(first);
      note_standard_error();
      body();
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  static void log(const char* text) { log_line(LogLevel::error, -1, "%s", text); }
  /// The number of lines of the log in the file.
  int lines(const char* name) const {
    std::ifstream file(path(name));
    int count = 0;
    for (std::string line; std::getline(file, line);) count += line.find("AMEM") != line.npos;
    return count;
  }

  const std::filesystem::path folder_ = testing::TempDir() + "amem_log_" + std::to_string(getpid());
};

TEST_F(LogTest, GoesToTheFirstStandardError) {
  in_child([] { log("one"); });
  EXPECT_EQ(lines("first"), 1);
}

// open(2) takes the lowest free number.
TEST_F(LogTest, IsNotWrittenIntoAFileThatHasTakenTheNumber) {
  struct Case {
    const char* name;
    int flags;
  };
  for (const Case& of : {Case{"data", O_RDWR}, Case{"written", O_WRONLY | O_TRUNC},
                         Case{"closed_on_exec", O_WRONLY | O_APPEND | O_CLOEXEC}})
    for (const bool logs_while_closed : {false, true}) {
      in_child([&] {
        log("one");
        close(STDERR_FILENO);
        if (logs_while_closed) log("lost");
        if (open_file(of.name, of.flags) != STDERR_FILENO) _exit(1);
        log("two");
      });
      EXPECT_EQ(lines("first"), 1);
      EXPECT_EQ(std::filesystem::file_size(path(of.name)), 0u) << of.name;
    }
}

TEST_F(LogTest, IsNotWrittenIntoAConnectionThatHasTakenTheNumber) {
  in_child([] {
    close(STDERR_FILENO);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || ends[0] != STDERR_FILENO) _exit(1);
    log("one");
    char byte = 0;
    if (recv(ends[1], &byte, 1, MSG_DONTWAIT) != -1) _exit(2);
  });
}

TEST_F(LogTest, IsNotWrittenWhereAProgramWasStartedWithoutStandardError) {
  const pid_t child = fork();
  if (child == 0) {
    close(STDERR_FILENO);
    note_standard_error();
    if (open_file("data", O_RDWR) != STDERR_FILENO) _exit(1);
    log("one");
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::filesystem::file_size(path("data")), 0u);
}

// A reader that has stopped, such as a terminal's or a launcher's, does not stop the application.
TEST_F(LogTest, IsLostWhereAPipeIsFull) {
  in_child([] {
    alarm(30);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0 || dup2(ends[1], STDERR_FILENO) != STDERR_FILENO) _exit(2);
    note_standard_error();
    log("one");
    char line[2000] = "";
    if (::read(ends[0], line, sizeof line - 1) <= 0 || strstr(line, "one") == nullptr) _exit(3);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], "x", 1) == 1) {
    }
    fcntl(ends[1], F_SETFL, 0);
    log("lost");
  });
}

TEST_F(LogTest, FollowsARedirection) {
  in_child([&] {
    const int held = open_file("held", O_WRONLY | O_TRUNC);
    dup2(held, STDERR_FILENO);
    log("one");
    close(held);
    log("two");
    const int appended = open_file("appended", O_WRONLY | O_APPEND);
    dup2(appended, STDERR_FILENO);
    close(appended);
    log("three");
    const int both = open_file("both", O_RDWR);
    dup2(both, STDOUT_FILENO);
    dup2(both, STDERR_FILENO);
    close(both);
    log("four");
  });
  EXPECT_EQ(lines("held"), 2);
  EXPECT_EQ(lines("appended"), 1);
  EXPECT_EQ(lines("both"), 1);
}

TEST_F(LogTest, ReturnsToTheFirstStandardError) {
  in_child([&] {
    const int saved = dup(STDERR_FILENO);
    const int other = open_file("other", O_RDWR);
    dup2(other, STDERR_FILENO);
    close(other);
    log("one");
    dup2(saved, STDERR_FILENO);
    close(saved);
    log("two");
  });
  EXPECT_EQ(lines("other"), 1);
  EXPECT_EQ(lines("first"), 1);
}

}  // namespace
}  // namespace amem
