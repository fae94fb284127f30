// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Another user of the same machine gets no descriptor of this user's memory, pauses no job of his
// and makes none wait.
#include "tests/process/stranger.h"

#include <dirent.h>
#include <signal.h>

#include <cstring>

#include "peers/message_samples.h"
#include "peers/peer_fixture.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

/// Skips where this process cannot become another user.
#define AMEM_NEEDS_ROOT() \
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user"

constexpr long kTimeoutMs = 10000;

size_t count_fds(pid_t pid) {
  size_t count = 0;
  if (DIR* folder = opendir(("/proc/" + std::to_string(pid) + "/fd").c_str())) {
    while (readdir(folder) != nullptr) ++count;
    closedir(folder);
  }
  return count;
}

class StrangerTest : public JobTest {
 protected:
  StrangerTest() { setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(kTimeoutMs); }

  static void connect(jobs::Job& job) {
    job.use_devices({0, 1});
    job.make("world");
    job.all("check world" + counts());
  }
  static SocketNames names_of(jobs::Job& job) {
    SocketNames names;
    for (int rank : {0, 1})
      for (std::string& name : sockets_of(job[rank].pid())) names.push_back(std::move(name));
    return names;
  }
  static std::vector<size_t> fds_of_ranks(jobs::Job& job) {
    return {count_fds(job[0].pid()), count_fds(job[1].pid())};
  }
  /// A cycle in which nobody waits for long.
  static void one_cycle(jobs::Job& job) {
    for (const char* order : {"pause", "resume"})
      for (const std::string& seconds : job.all(order))
        EXPECT_LT(std::stod(seconds) * 1000, kTimeoutMs * kSlowdown / 2.0) << order;
    job.all("check world" + counts());
  }
  static void expect_nothing(const Loot& loot) {
    EXPECT_EQ(loot.error, 0) << strerror(loot.error);
    EXPECT_EQ(loot.bytes, 0u);
    EXPECT_EQ(loot.fds, 0u);
    EXPECT_EQ(loot.left_open, 0u);
  }
};

// --- What strangers do to a job that pauses

struct NamedAttack {
  const char* name;
  Attack attack;
};
void PrintTo(const NamedAttack& one, std::ostream* out) { *out << one.name; }

class AttackTest : public StrangerTest, public testing::WithParamInterface<NamedAttack> {};

TEST_P(AttackTest, HoldsUpNoPauseAndLeavesNothingOpen) {
  AMEM_NEEDS_ROOT();
  jobs::Job job(setup_, 2);
  connect(job);
  const SocketNames names = names_of(job);
  ASSERT_EQ(names.size(), 2u);
  one_cycle(job);
  const std::vector<size_t> before = fds_of_ranks(job);
  {
    const Attacker stranger(kStrangersUser, names, GetParam().attack);
    ASSERT_TRUE(stranger.wait_for_rounds()) << strerror(stranger.loot().error);
    for (int cycle = 0; cycle < 3; ++cycle) one_cycle(job);
    EXPECT_TRUE(stranger.wait_for_rounds());
    expect_nothing(stranger.loot());
  }
  // Fewer when the last cycle was still closing its own before.
  EXPECT_TRUE(eventually([&] {
    const std::vector<size_t> now = fds_of_ranks(job);
    return now[0] <= before[0] && now[1] <= before[1];
  })) << testing::PrintToString(fds_of_ranks(job))
      << " fds, before " << testing::PrintToString(before);
  // Processes that do not know each other yet find each other as ever.
  job.make("second");
  job.all("check second" + counts());
}

std::vector<Words> all_samples() {
  std::vector<Words> words;
  for (const MessageSample& sample : message_samples())
    for (const size_t fds : {fds_of(sample.message), size_t{3}})
      words.push_back({from_hex(sample.golden), fds});
  return words;
}

INSTANTIATE_TEST_SUITE_P(
    Stranger, AttackTest,
    testing::Values(NamedAttack{"WhoConnectsAndStays", hold_connections(500)},
                    NamedAttack{"WhoConnectsAndGoes", flood(500)},
                    NamedAttack{"WhoSpeaks",
                                say(from_hex(message_samples()[0].golden), all_samples())},
                    NamedAttack{"WhoSaysHalves", say_cut(from_hex(message_samples()[0].golden))},
                    NamedAttack{"WhoLeavesSocketsToClose", send_lingering_sockets(8)},
                    NamedAttack{"WhoForgesNames", forge_names(geteuid(), 9000)}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_F(StrangerTest, WhoTakesTheNameOfTheDeadHoldsUpNobody) {
  AMEM_NEEDS_ROOT();
  jobs::Job job(setup_, 2);
  connect(job);
  const Attacker stranger(kStrangersUser, sockets_of(job[1].pid()), take_names());
  job[1].kill(SIGKILL);
  ASSERT_TRUE(stranger.wait_for_rounds()) << strerror(stranger.loot().error);

  for (const char* order : {"pause", "resume"})
    EXPECT_LT(std::stod(job[0].ask(order)) * 1000, kTimeoutMs * kSlowdown / 2.0) << order;
}

// --- What strangers say

/// Takes messages until one of type T comes.
template <typename T>
std::optional<T> next_of(RawPeer& peer) {
  while (auto envelope = peer.next_message())
    if (auto* wanted = std::get_if<T>(&envelope->message)) return std::move(*wanted);
  return std::nullopt;
}

/// A process of this user that has said Hello to a rank.
std::unique_ptr<RawPeer> neighbour_of(jobs::RankProcess& rank) {
  const auto instance = instance_of(sockets_of(rank.pid()).at(0));
  auto peer = RawPeer::dial_to(*instance);
  peer->greet(random_instance_id());
  return peer;
}

/// The communicators of a rank: what it tells to who wants its memory while it is paused.
std::vector<CommunicatorId> communicators_of(jobs::RankProcess& rank) {
  rank.ask("pause");
  auto peer = neighbour_of(rank);
  peer->send(1, Fetch{{{1, 1}}});
  const auto answer = next_of<Fetched>(*peer);
  peer.reset();  // or the resume would wait for what it says
  rank.ask("resume");
  return answer ? answer->away_communicators : std::vector<CommunicatorId>{};
}

/// Says all that could hold up or rob a rank, as `speaker`.
Attack say_harm(const InstanceId& speaker, const std::vector<CommunicatorId>& communicators) {
  std::vector<Words> words = {{encode(1, Away{communicators}).value()},
                              {encode(1, LetGo{60000, communicators}).value()},
                              {encode(1, StatusQuery{}).value()}};
  for (const uint64_t nonce : {0, 1}) {
    Fetch fetch;
    for (AllocationId id = 1; id <= kMaxFds; ++id) fetch.items.push_back({id, nonce});
    words.push_back({encode(1, std::move(fetch)).value()});
  }
  return say(encode(0, Hello{speaker, 0}).value(), std::move(words));
}

TEST_F(StrangerTest, IsNotHeardWhateverHeKnows) {
  AMEM_NEEDS_ROOT();
  jobs::Job job(setup_, 2);
  connect(job);
  const std::vector<CommunicatorId> communicators = communicators_of(job[0]);
  ASSERT_EQ(communicators.size(), 1u);
  // What one rank said to the other, once more: the two know each other by these names.
  const InstanceId rank_1 = *instance_of(sockets_of(job[1].pid()).at(0));
  for (const InstanceId& speaker : {random_instance_id(), rank_1}) {
    const Attacker stranger(kStrangersUser, names_of(job), say_harm(speaker, communicators));
    ASSERT_TRUE(stranger.wait_for_rounds(2)) << strerror(stranger.loot().error);
    job.all("check world" + counts());
    one_cycle(job);
    expect_nothing(stranger.loot());
  }
}

// The other side of the same coin: what is not heard from a stranger would have done harm.
TEST_F(StrangerTest, SaysWhatCountsWhenTheUserSaysIt) {
  setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(1000);
  jobs::Job job(setup_, 2);
  connect(job);
  const std::vector<CommunicatorId> communicators = communicators_of(job[0]);
  ASSERT_EQ(communicators.size(), 1u);
  std::vector<std::unique_ptr<RawPeer>> members;
  for (int rank : {0, 1}) {
    members.push_back(neighbour_of(job[rank]));
    members.back()->send(1, Away{communicators});
    EXPECT_TRUE(next_of<AwayHeard>(*members.back()));
  }

  for (int rank : {0, 1}) job[rank].order("all_reduce world 17");
  for (int rank : {0, 1}) {
    const std::string text = job[rank].failure();
    EXPECT_NE(text.find("process " + std::to_string(getpid()) + " is paused"), text.npos) << text;
  }
  for (const auto& member : members) {
    member->send(2, Back{{}, true});
    EXPECT_TRUE(next_of<BackDone>(*member));
  }
  job.all("check world" + counts());
}

TEST_F(StrangerTest, EvenTheUserGetsNoMemoryWithoutItsNonce) {
  jobs::Job job(setup_, 2);
  connect(job);
  const auto peer = neighbour_of(job[0]);
  Fetch fetch;
  for (AllocationId id = 1; id <= kMaxFds; ++id) fetch.items.push_back({id, id});
  peer->send(1, fetch);
  const auto answer = next_of<Fetched>(*peer);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->outcomes, std::vector(kMaxFds, Fetched::Outcome::unknown));
  one_cycle(job);
}

}  // namespace
}  // namespace amem
