// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Peers that are processes of their own: this program, started again in another role.
#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
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

void wait_for_end_of_input() {
  char c;
  while (read(STDIN_FILENO, &c, 1) > 0) {
  }
}

/// Answers StatusQuery, and no other request.
class ServingHandler : public PeerHandler {
 public:
  void on_message(const PeerInfo& from, uint64_t request_id, Received received) override {
    if (std::holds_alternative<StatusQuery>(received.message))
      service.load()->reply(from.instance, request_id, StatusReply{"{}"}, {});
  }
  void on_peer_gone(const PeerInfo&) override {}
  std::atomic<PeerService*> service = nullptr;
};

int serve() {
  ServingHandler handler;
  const InstanceId id = random_instance_id();
  auto service = PeerService::start(id, handler);
  if (!service.ok()) return 1;
  // Nobody knows the instance before the next line.
  handler.service = service.value().get();
  say(id.hex());
  wait_for_end_of_input();
  return 0;
}

/// Serves until it is told to close every descriptor of the service, and lives on.
int close_and_live() {
  ServingHandler handler;
  const InstanceId id = random_instance_id();
  auto service = PeerService::start(id, handler);
  handler.service = service.value().get();
  say(id.hex());
  char told;
  // Under a thread that polls them: not by close(), which ThreadSanitizer reports.
  if (read(STDIN_FILENO, &told, 1) == 1) syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0);
  wait_for_end_of_input();
  return 0;
}

/// Serves although its first thread has ended, which leaves a zombie in its place.
int serve_without_leader() {
  static ServingHandler handler;
  const InstanceId id = random_instance_id();
  auto service = PeerService::start(id, handler);
  handler.service = service.value().get();
  (void)service.value().release();
  std::thread([] {
    wait_for_end_of_input();
    _exit(0);
  }).detach();
  say(id.hex());
  syscall(SYS_exit, 0);
  return 1;
}

/// Tells `target` that it is `claimed`; succeeds when it is shown the door.
int claim_to_be(const InstanceId& target, const InstanceId& claimed) {
  const auto raw = RawPeer::dial_to(target);
  if (!raw) return 2;
  raw->greet(claimed);
  return raw->sees_the_end() ? 0 : 1;
}

/// Talks to `target`, forks, and is killed; the child lives on until the end of the input.
int fork_and_die(const InstanceId& target) {
  ServingHandler handler;
  auto service = PeerService::start(random_instance_id(), handler);
  handler.service = service.value().get();
  if (!call_and_wait(*service.value(), target, StatusQuery{}, {}, patience()).ok()) return 1;
  const pid_t child = fork();
  if (child == 0) {
    UniqueFd::close_all();
    say("forked");
    wait_for_end_of_input();
    _exit(0);
  }
  wait_for_end_of_input();
  return 0;
}

TEST(PeerProcess, AnswersFromItsOwnPid) {
  Process process({"--serve"});
  Node a;
  const Result<Received> reply = a.ask(process.instance(), StatusQuery{});
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply.value().pid, process.pid());
}

TEST(PeerProcess, ThatIsKilledCompletesPendingCallsAndIsReported) {
  Process process({"--serve"});
  Node a{PeerOptions()};
  ASSERT_TRUE(a.ask(process.instance(), StatusQuery{}).ok());
  const pid_t pid = process.pid();
  Result<Received> outcome = Error{};
  std::thread caller([&] { outcome = a.ask(process.instance(), Revoke{}); });

  process.kill_with(SIGKILL);

  caller.join();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::peer);
  ASSERT_TRUE(a.recorder.wait_gone(1));
  EXPECT_EQ(a.recorder.gone()[0].instance, process.instance());
  EXPECT_EQ(a.recorder.gone()[0].pid, pid);
  EXPECT_EQ(a.ask(process.instance(), StatusQuery{}).error().kind, ErrorKind::peer);
}

TEST(PeerProcess, ThatClosesItsSocketsAndLivesIsWaitedForUntilItEnds) {
  Process process({"--close"});
  Outcomes outcomes;
  Node a{PeerOptions()};
  ASSERT_TRUE(a.ask(process.instance(), StatusQuery{}).ok());
  const std::string pid = std::to_string(process.pid());
  process.tell();

  // Late enough for the process to have closed them.
  ASSERT_TRUE(eventually([&] {
    const Result<Received> refused = a.ask(process.instance(), Revoke{}, 50);
    return refused.error().message.find("pid " + pid) != std::string::npos &&
           refused.error().message.find("has closed its connection but lives") != std::string::npos;
  }));
  EXPECT_TRUE(a.recorder.gone().empty());
  EXPECT_EQ(a.ask(process.instance(), Restore{}).error().code, ECONNREFUSED) << "nobody can map it";

  a.service->call(process.instance(), Revoke{}, {}, patience(), outcomes.add());
  process.kill_with(SIGKILL);
  ASSERT_TRUE(outcomes.wait(1));
  EXPECT_EQ(outcomes.all[0].error().kind, ErrorKind::peer);
  EXPECT_TRUE(a.recorder.wait_gone(1));
}

TEST(PeerProcess, ThatIsStoppedIsSlowNotDead) {
  Process process({"--serve"});
  const pid_t pid = process.pid();
  Node a;
  process.stop();

  const Result<Received> outcome = a.ask(process.instance(), StatusQuery{}, 100);
  process.kill_with(SIGCONT);

  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::timeout);
  EXPECT_NE(outcome.error().message.find("pid " + std::to_string(pid)), std::string::npos);
  EXPECT_TRUE(a.ask(process.instance(), StatusQuery{}).ok());
  EXPECT_TRUE(a.recorder.gone().empty());
}

// pthread_exit(3) in main(): the process lives, and maps what it has imported.
TEST(PeerProcess, WhoseFirstThreadHasEndedLives) {
  Process process({"--leaderless"});
  const auto is_zombie = [&] {
    std::ifstream stat("/proc/" + std::to_string(process.pid()) + "/stat");
    std::string text;
    std::getline(stat, text);
    return text.substr(text.rfind(')') + 2, 1) == "Z";
  };
  for (const Deadline deadline = patience(); !is_zombie() && !deadline.passed();)
    std::this_thread::yield();
  ASSERT_TRUE(is_zombie());
  Node a{PeerOptions()};

  for (int i = 0; i < 3; ++i) EXPECT_TRUE(a.ask(process.instance(), StatusQuery{}).ok());

  EXPECT_TRUE(a.recorder.gone().empty());
  process.kill_with(SIGKILL);
  EXPECT_TRUE(a.recorder.wait_gone(1));
}

TEST(PeerProcess, CannotTakeTheNameOfAnother) {
  Process process({"--serve"});
  Node a;
  ASSERT_TRUE(a.ask(process.instance(), StatusQuery{}).ok());

  Process impostor({"--claim", a.id.hex(), process.line()});

  EXPECT_EQ(impostor.wait(), 0);
  EXPECT_TRUE(a.ask(process.instance(), StatusQuery{}).ok());
  EXPECT_TRUE(a.recorder.gone().empty());
}

TEST(PeerProcess, ForgottenInAChildEndsWithTheParent) {
  Answerer a;
  Process process({"--fork-and-die", a->id.hex()});
  ASSERT_EQ(process.line(), "forked");

  process.kill_with(SIGKILL);

  EXPECT_TRUE(a->recorder.wait_gone(1));
  EXPECT_FALSE(process.output_ended()) << "the child should have been alive all the time";
}

/// What the forked child of the next test finds; 0 when all is as it should be.
int look_around_after_fork(const std::vector<int>& ours) {
  UniqueFd::close_all();
  const std::vector<int> left = open_fds();
  for (const int fd : ours)
    if (std::find(left.begin(), left.end(), fd) != left.end()) return 1;
  return 0;
}

TEST(PeerProcess, ForgettingClosesEveryFdAndLeavesTheParentAlone) {
  Process process({"--serve"});
  // Greets, then reads nothing: what is sent to it stays queued, fds and all.
  const InstanceId slow_id = random_instance_id();
  const UniqueFd probe(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Node a;
  ASSERT_TRUE(a.ask(process.instance(), StatusQuery{}).ok());
  const auto slow = RawPeer::dial_to(a.id);
  slow->introduce_to(a, slow_id);
  const std::vector<int> idle = open_fds();
  for (uint64_t i = 1; i <= 600; ++i) {
    std::vector<UniqueFd> fds;
    fds.emplace_back(dup(probe.get()));
    a.service->reply(slow_id, i, HostMemoryOffer{1}, std::move(fds));
  }
  // The last order has been carried out when an answer to a later one is here.
  ASSERT_TRUE(a.ask(process.instance(), StatusQuery{}).ok());
  ASSERT_GT(open_fds().size(), idle.size()) << "nothing was left in the queue";

  std::vector<int> ours;
  for (int fd : idle) {
    int kind = 0;
    socklen_t size = sizeof kind;
    char link[64], target[64] = {};
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, target, sizeof target - 1) < 0) continue;
    const bool packet_socket =
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &size) == 0 && kind == SOCK_SEQPACKET;
    if ((packet_socket && fd != slow->fd()) || strstr(target, "eventpoll") != nullptr ||
        strstr(target, "eventfd") != nullptr)
      ours.push_back(fd);
  }
  ASSERT_EQ(ours.size(), 5U) << "epoll, eventfd, listener and two connections";
  const pid_t child = fork();
  if (child == 0) _exit(look_around_after_fork(ours));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);

  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(a.ask(process.instance(), StatusQuery{}).ok());
  EXPECT_TRUE(a.recorder.gone().empty());
}

TEST(PeerProcess, TheServiceThreadTakesNoSignals) {
  Node a;
  Answerer b;
  ASSERT_TRUE(a.ask(b->id, StatusQuery{}).ok());
  int threads = 0;
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* entry = readdir(tasks)) {
    const std::string folder = std::string("/proc/self/task/") + entry->d_name;
    std::string name, line;
    std::getline(std::ifstream(folder + "/comm"), name);
    if (name != "amem-peers") continue;
    ++threads;
    std::ifstream status(folder + "/status");
    while (std::getline(status, line) && !line.starts_with("SigBlk:")) {
    }
    const uint64_t blocked = std::stoull(line.substr(7), nullptr, 16);
    for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGPIPE, SIGALRM, SIGPROF})
      EXPECT_NE(blocked & (uint64_t{1} << (signal - 1)), 0u) << strsignal(signal);
  }
  closedir(tasks);
  EXPECT_EQ(threads, 2);
}

}  // namespace
}  // namespace amem

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == "--serve") return amem::serve();
  if (role == "--close") return amem::close_and_live();
  if (role == "--leaderless") return amem::serve_without_leader();
  if (role == "--claim" && argc == 4)
    return amem::claim_to_be(amem::id_from_hex(argv[2]), amem::id_from_hex(argv[3]));
  if (role == "--fork-and-die" && argc == 3) return amem::fork_and_die(amem::id_from_hex(argv[2]));
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
