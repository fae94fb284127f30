// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Who may talk to a job: processes of its user, and of them only who shows a token's nonce gets
// memory. (That nobody else may connect: src/transport/socket_address_test.cc.)
#include <sys/stat.h>

#include <cstdio>
#include <fstream>

#include "tests/process/simulated_job.h"
#include "tests/support/peer_fixture.h"

namespace amem {
namespace {

class StrangerTest : public JobTest {
 protected:
  static void connect(jobs::Job& job) {
    job.use_devices({0, 1});
    job.make("world");
    job.all("check world" + counts());
  }
  static void one_cycle(jobs::Job& job) {
    job.all("pause");
    job.all("resume");
    job.all("check world" + counts());
  }
};

TEST_F(StrangerTest, OtherUsersMayNotEnterWhereAJobListens) {
  jobs::Job job(setup_, 2);
  connect(job);
  const std::string path = socket_path(random_instance_id());
  struct stat folder {};

  ASSERT_EQ(stat(path.substr(0, path.rfind('/')).c_str(), &folder), 0);

  EXPECT_EQ(folder.st_uid, geteuid());
  EXPECT_EQ(folder.st_mode & 07777, 0700u);
}

/// Takes messages until one of type T comes.
template <typename T>
std::optional<T> next_of(RawPeer& peer) {
  while (auto envelope = peer.next_message())
    if (auto* wanted = std::get_if<T>(&envelope->message)) return std::move(*wanted);
  return std::nullopt;
}

InstanceId instance_of(jobs::RankProcess& rank) {
  const std::set<InstanceId> instances = instances_of_this_user().value();
  for (const InstanceId& instance : instances) {
    const auto peer = RawPeer::dial_to(instance);
    if (peer != nullptr && pid_of_peer(peer->fd()).value() == rank.pid()) return instance;
  }
  throw std::runtime_error("no socket of rank " + std::to_string(rank.pid()));
}

/// A process of this user that has said Hello to a rank.
std::unique_ptr<RawPeer> peer_of(jobs::RankProcess& rank) {
  auto peer = RawPeer::dial_to(instance_of(rank));
  peer->greet(random_instance_id());
  return peer;
}

/// That has asked for the status.
std::unique_ptr<RawPeer> status_query(const InstanceId& of) {
  auto peer = RawPeer::dial_to(of);
  peer->greet(random_instance_id());
  peer->send(1, StatusQuery{});
  return peer;
}

/// The communicators of a rank: what it tells a peer that revokes memory.
std::vector<ScopeId> communicators_of(jobs::RankProcess& rank) {
  auto peer = peer_of(rank);
  peer->send(1, Revoke{1000, {"nccl"}, {}});
  const auto answer = next_of<Revoked>(*peer);
  peer->send(2, Restore{"nccl"});
  EXPECT_TRUE(next_of<Restored>(*peer));
  return answer ? answer->scope : std::vector<ScopeId>{};
}

TEST_F(StrangerTest, SaysWhatCountsWhenTheUserSaysIt) {
  setup_.environment["AMEM_GATE_TIMEOUT_MS"] = milliseconds(1000);
  jobs::Job job(setup_, 2);
  connect(job);
  const std::vector<ScopeId> communicators = communicators_of(job[0]);
  ASSERT_EQ(communicators.size(), 1u);
  std::vector<std::unique_ptr<RawPeer>> members;
  for (int rank : {0, 1}) {
    members.push_back(peer_of(job[rank]));
    members.back()->send(1, Revoke{0, {"nccl"}, communicators});
    EXPECT_TRUE(next_of<Revoked>(*members.back()));
  }

  for (int rank : {0, 1}) job[rank].order("all_reduce world 17");
  for (int rank : {0, 1}) {
    const std::string text = job[rank].failure();
    EXPECT_NE(text.find("process " + std::to_string(getpid()) + " is paused"), text.npos) << text;
  }
  for (const auto& member : members) {
    member->send(2, Restore{"nccl"});
    EXPECT_TRUE(next_of<Restored>(*member));
  }
  job.all("check world" + counts());
}

/// What a process holds for others.
struct Held {
  size_t files, threads, resident_kib;
};

Held held_by(pid_t pid) {
  const std::filesystem::path folder = "/proc/" + std::to_string(pid);
  const auto count = [&](const char* name) {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder / name),
                                             std::filesystem::directory_iterator()));
  };
  Held held{count("fd"), count("task"), 0};
  std::ifstream status(folder / "status");
  for (std::string line; std::getline(status, line);)
    sscanf(line.c_str(), "VmRSS: %zu", &held.resident_kib);
  return held;
}

/// One query of each kind: the complete one, those that break off or break rules, and requests for
/// what is not shared. All read nothing but the answer to the complete one.
void query_in_all_ways(const InstanceId& of, int round) {
  const std::vector<uint8_t> hello = encode(0, Hello{random_instance_id()}).value();
  const auto dialled = [&of] {
    std::unique_ptr<RawPeer> peer;
    EXPECT_TRUE(eventually([&] { return (peer = RawPeer::dial_to(of)) != nullptr; }));
    return peer;
  };
  const auto greeted = [&] {
    auto peer = dialled();
    peer->greet(random_instance_id());
    return peer;
  };
  EXPECT_TRUE(next_of<StatusReply>(*status_query(of)));
  (void)dialled();
  dialled()->send_bytes({hello.begin(), hello.begin() + 1 + round % 27});
  dialled()->send_bytes(std::vector<uint8_t>(1 + static_cast<size_t>(round) % 3000, 0xff));
  greeted()->send(1, StatusQuery{});
  greeted()->send_bytes({kWireVersion, 9, 0, 0, 1});
  greeted()->send_bytes(hello, 3);
  greeted()->send(1, Fetch{{{1, 2}}});
  greeted()->send(1, TokenQuery{1, 2});
  greeted()->send(0, Drop{{1}});
}

/// At most so much more. AddressSanitizer keeps freed memory for a while.
void expect_memory(const Held& before, const Held& after, size_t more_kib) {
  if (kSanitized) return;
  EXPECT_LE(after.resident_kib, before.resident_kib + more_kib);
}

TEST_F(StrangerTest, QueriesLeaveNothingInAJob) {
  jobs::Job job(setup_, 2);
  connect(job);
  const InstanceId rank = instance_of(job[0]);
  constexpr int kWays = 10;
  const int rounds = (is_long() || kSlowdown == 1 ? 10000 : 1000) / kWays;
  for (int round = 0; round < rounds / 10; ++round) query_in_all_ways(rank, round);
  const Held before = held_by(job[0].pid());

  for (int round = 0; round < rounds; ++round) query_in_all_ways(rank, round);

  // Those of the last round may not be closed yet.
  EXPECT_TRUE(eventually([&] { return held_by(job[0].pid()).files <= before.files; }))
      << held_by(job[0].pid()).files << " instead of " << before.files;
  const Held after = held_by(job[0].pid());
  EXPECT_LE(after.threads, before.threads);
  expect_memory(before, after, 4096);
  EXPECT_LT(job[0].log(1 << 20).size(), size_t{100} << 10);
  one_cycle(job);
}

TEST_F(StrangerTest, ThatNeitherSpeakNorReadTakeNoDescriptorsFromAJob) {
  jobs::Job job(setup_, 2);
  connect(job);
  one_cycle(job);  // which keeps host memory
  const InstanceId rank = instance_of(job[0]);
  const Held before = held_by(job[0].pid());
  std::vector<std::unique_ptr<RawPeer>> strangers;
  for (int i = 0; i < 600; ++i) {
    strangers.push_back(RawPeer::dial_to(rank));
    ASSERT_TRUE(strangers.back());
    if (i % 3 > 0) strangers.back()->greet(random_instance_id());
    if (i % 3 > 1)
      for (uint64_t query = 1; query < 100; ++query) strangers.back()->send(query, StatusQuery{});
  }

  one_cycle(job);

  EXPECT_TRUE(next_of<StatusReply>(*status_query(rank)));
  const Held after = held_by(job[0].pid());
  EXPECT_LE(after.files, before.files + 150);
  EXPECT_LE(after.threads, before.threads + 2);
  expect_memory(before, after, 8192);
}

TEST_F(StrangerTest, EvenTheUserGetsNoMemoryWithoutItsNonce) {
  jobs::Job job(setup_, 2);
  connect(job);
  const auto peer = peer_of(job[0]);
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
