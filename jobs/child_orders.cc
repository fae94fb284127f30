// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/child_orders.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "amem.h"
#include "jobs/order_loop.h"
#include "nccl.h"

namespace jobs {

namespace {

pid_t g_child = -1;
int g_childs_input = -1;  ///< the child ends when it is closed

/// How many of amem's functions say anything but that they do not work here.
int wrong_answers_of_child() {
  amemTotals_t totals{};
  amemTimes_t times{};
  int group = 0;
  return (ncclPause(NULL) != ncclInvalidUsage) + (ncclResume(NULL) != ncclInvalidUsage) +
         (ncclMemStats() != ncclInvalidUsage) + (ncclSetGroupID(1) != ncclInvalidUsage) +
         (ncclGetGroupID(&group) != ncclInvalidUsage) + (amemGetState() != amemOff) +
         (amemGetTotals(-1, -1, &totals) == 0) + (amemGetImports(&totals) == 0) +
         (amemGetTimes(&times) == 0) + (amemGetLastError()[0] == '\0');
}

/// Starts a child that runs `live` with the input that it has to wait for. Returns when the child
/// has closed `running` or runs another program: the fork handlers have run then.
std::string start_child(void (*live)(int input, int running)) {
  int ends[2], running[2];
  if (g_child != -1 || pipe2(ends, O_CLOEXEC) != 0 || pipe2(running, O_CLOEXEC) != 0)
    throw std::runtime_error("no child now");
  const pid_t child = fork();
  if (child == -1) throw std::runtime_error("fork failed");
  if (child == 0) {
    close(ends[1]);
    live(ends[0], running[1]);
    _exit(127);
  }
  close(ends[0]);
  close(running[1]);
  char byte = 0;
  while (read(running[0], &byte, 1) > 0) {
  }
  close(running[0]);
  g_child = child;
  g_childs_input = ends[1];
  return std::to_string(child);
}

std::string fork_child(Words&) {
  return start_child([](int input, int running) {
    close(running);
    const int wrong = wrong_answers_of_child();
    char byte = 0;
    while (read(input, &byte, 1) > 0) {
    }
    exit(wrong);
  });
}

/// cat(1), which waits for its input.
std::string exec_child(Words&) {
  return start_child([](int input, int) {
    dup2(input, STDIN_FILENO);
    execl("/bin/cat", "cat", static_cast<char*>(nullptr));
  });
}

/// The same by another function, with the input of the child.
std::string exec_child_by(pid_t (*start)(int input)) {
  int ends[2];
  if (g_child != -1 || pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no child now");
  g_child = start(ends[0]);
  close(ends[0]);
  g_childs_input = ends[1];
  if (g_child <= 0) throw std::runtime_error("no child was started");
  return std::to_string(g_child);
}

std::string spawn_child(Words&) {
  return exec_child_by([](int input) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    std::string name = "cat";
    char* arguments[] = {name.data(), nullptr};
    pid_t child = -1;
    const int failed = posix_spawn(&child, "/bin/cat", &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return failed != 0 ? pid_t{-1} : child;
  });
}

std::string vfork_child(Words&) {
  return exec_child_by([](int input) {
    const pid_t child = vfork();
    if (child != 0) return child;
    dup2(input, STDIN_FILENO);
    execl("/bin/cat", "cat", static_cast<char*>(nullptr));
    _exit(127);
  });
}

/// Runs in the place of this program.
[[noreturn]] void become(const char* program, const char* name) {
  dup2(answers_descriptor(), STDOUT_FILENO);
  execl(program, name, static_cast<char*>(nullptr));
  _exit(127);
}

std::string exec(Words&) { become("/bin/cat", "cat"); }

std::string exec_rank(Words&) { become("/proc/self/exe", "rank_again"); }

std::string end_child(Words&) {
  if (g_child == -1) throw std::runtime_error("no child");
  close(g_childs_input);
  int status = 0;
  if (waitpid(g_child, &status, 0) != g_child) throw std::runtime_error("waitpid failed");
  g_child = -1;
  return std::to_string(status);
}

}  // namespace

Orders child_orders() {
  return {{"fork_child", fork_child},   {"exec_child", exec_child}, {"spawn_child", spawn_child},
          {"vfork_child", vfork_child}, {"end_child", end_child},   {"exec", exec},
          {"exec_rank", exec_rank}};
}

}  // namespace jobs
