// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// A peer whose process, or a child of it, runs another program. The peers are this program, started
// again.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/support/peer_fixture.h"
#include "tests/support/role_process.h"

namespace amem {
namespace {

void say(const std::string& line) {
  const std::string text = line + "\n";
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) _exit(3);
}

/// Answers StatusQuery, and Revoke never.
class ServingHandler : public PeerHandler {
 public:
  void on_message(const PeerInfo& from, uint64_t request_id, Received received) override {
    if (std::holds_alternative<StatusQuery>(received.message))
      service.load()->reply(from.instance, request_id, StatusReply{"{}"}, {});
  }
  void on_peer_gone(const PeerInfo&) override {}
  std::atomic<PeerService*> service = nullptr;
};

/// cat(1), which waits for the end of its input.
void run_another_program() {
  execl("/bin/cat", "cat", static_cast<char*>(nullptr));
  _exit(127);
}

/// Serves until it is told to run another program, or to have a child do so: `who` is "itself",
/// "thread", "spawned" or "vforked".
int run_another_program_in(const std::string& who) {
  ServingHandler handler;
  const InstanceId id = random_instance_id();
  auto service = PeerService::start(id, handler);
  handler.service = service.value().get();
  say(id.hex());
  char told;
  if (read(STDIN_FILENO, &told, 1) != 1) return 1;
  if (who == "itself") run_another_program();
  if (who == "thread") std::thread(run_another_program).join();
  std::string name = "cat";
  char* arguments[] = {name.data(), nullptr};
  pid_t child = -1;
  if (who == "spawned" &&
      posix_spawn(&child, "/bin/cat", nullptr, nullptr, arguments, environ) != 0)
    return 1;
  if (who == "vforked" && (child = vfork()) == 0) execv("/bin/cat", arguments);
  say("running");
  waitpid(child, nullptr, 0);
  return 0;
}

bool runs_cat(const Process& process) {
  char target[64] = {};
  const std::string link = "/proc/" + std::to_string(process.pid()) + "/exe";
  return readlink(link.c_str(), target, sizeof target - 1) > 0 &&
         std::string(target).ends_with("/cat");
}

class AnotherProgram : public testing::TestWithParam<const char*> {};

// Its sockets are closed at exec, and nothing is mapped: nobody waits for it, although it lives.
TEST_P(AnotherProgram, InTheProcessOfAPeerIsItsEnd) {
  Process process({"--run", GetParam()});
  Outcomes outcomes;
  Node a{PeerOptions()};
  ASSERT_TRUE(a.ask(process.instance(), StatusQuery{}).ok());
  a.service->call(process.instance(), Revoke{}, {}, patience(), outcomes.add());

  process.tell();

  ASSERT_TRUE(outcomes.wait(1));
  ASSERT_FALSE(outcomes.all[0].ok());
  EXPECT_EQ(outcomes.all[0].error().kind, ErrorKind::peer) << outcomes.all[0].error().message;
  ASSERT_TRUE(a.recorder.wait_gone(1));
  EXPECT_EQ(a.recorder.gone()[0].instance, process.instance());
  EXPECT_TRUE(runs_cat(process)) << "it should have been alive all the time";
  EXPECT_EQ(a.ask(process.instance(), StatusQuery{}).error().kind, ErrorKind::peer);
}

// Noticed without a call that waits for it.
TEST_P(AnotherProgram, InTheProcessOfAPeerIsNoticed) {
  Process process({"--run", GetParam()});
  Node a{PeerOptions()};
  ASSERT_TRUE(a.ask(process.instance(), StatusQuery{}).ok());

  process.tell();

  EXPECT_TRUE(a.recorder.wait_gone(1));
  EXPECT_TRUE(eventually([&] { return runs_cat(process); }));
}

INSTANTIATE_TEST_SUITE_P(RunBy, AnotherProgram, testing::Values("itself", "thread"),
                         [](const auto& who) { return std::string(who.param); });

class AnotherProgramOfAChild : public testing::TestWithParam<const char*> {};

TEST_P(AnotherProgramOfAChild, IsNoEndOfThePeer) {
  Process process({"--run", GetParam()});
  Node a{PeerOptions()};
  ASSERT_TRUE(a.ask(process.instance(), StatusQuery{}).ok());
  process.tell();
  ASSERT_EQ(process.read_line(), "running");

  EXPECT_TRUE(a.ask(process.instance(), StatusQuery{}).ok());
  EXPECT_EQ(a.ask(process.instance(), Revoke{}, 50).error().kind, ErrorKind::timeout);
  EXPECT_TRUE(a.recorder.gone().empty());
}

INSTANTIATE_TEST_SUITE_P(Is, AnotherProgramOfAChild, testing::Values("spawned", "vforked"),
                         [](const auto& who) { return std::string(who.param); });

// Without the table of its mappings, as that of a process which may not be read.
TEST(AnotherProgramUnseen, IsWaitedFor) {
  Process process({"--run", "itself"});
  PeerOptions options;
  options.process_at = [](int) { return UniqueFd(eventfd(0, EFD_CLOEXEC)); };
  Node a{options};
  ASSERT_TRUE(a.ask(process.instance(), StatusQuery{}).ok());

  process.tell();

  ASSERT_TRUE(eventually([&] { return runs_cat(process); }));
  EXPECT_EQ(a.ask(process.instance(), Revoke{}, 50).error().kind, ErrorKind::timeout);
  EXPECT_TRUE(a.recorder.gone().empty());
}

}  // namespace
}  // namespace amem

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--run") return amem::run_another_program_in(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
