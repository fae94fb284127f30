// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Who may talk to a job: processes of its user, and of them only who shows a token's nonce gets
// memory. (That nobody else may connect: src/transport/socket_address_test.cc.)
#include <sys/stat.h>

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

/// A process of this user that has said Hello to a rank.
std::unique_ptr<RawPeer> peer_of(jobs::RankProcess& rank) {
  const std::set<InstanceId> instances = instances_of_this_user().value();
  for (const InstanceId& instance : instances) {
    auto peer = RawPeer::dial_to(instance);
    if (peer == nullptr || pid_of_peer(peer->fd()).value() != rank.pid()) continue;
    peer->greet(random_instance_id());
    return peer;
  }
  throw std::runtime_error("no socket of rank " + std::to_string(rank.pid()));
}

/// The communicators of a rank: what it tells a peer that revokes memory.
std::vector<ScopeId> communicators_of(jobs::RankProcess& rank) {
  auto peer = peer_of(rank);
  peer->send(1, Revoke{1000, {"nccl"}, {}});
  const auto answer = next_of<Revoked>(*peer);
  peer->send(2, Restore{"nccl", {}, true});
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
    members.back()->send(1, PauseNotice{"nccl", communicators});
    EXPECT_TRUE(next_of<PauseNoticeReply>(*members.back()));
  }

  for (int rank : {0, 1}) job[rank].order("all_reduce world 17");
  for (int rank : {0, 1}) {
    const std::string text = job[rank].failure();
    EXPECT_NE(text.find("process " + std::to_string(getpid()) + " is paused"), text.npos) << text;
  }
  for (const auto& member : members) {
    member->send(2, Restore{"nccl", {}, true});
    EXPECT_TRUE(next_of<Restored>(*member));
  }
  job.all("check world" + counts());
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
