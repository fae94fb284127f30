// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What is kept of communicators that have ended.
#include <gtest/gtest.h>

#include "clients/nccl/nccl_client.h"
#include "tests/support/nccl_objects.h"
#include "tests/support/no_exchange.h"

namespace amem {
namespace {

class EndedCommunicators : public testing::Test {
 protected:
  static CommunicatorId id_of(uint64_t number) { return {{number, 1}}; }
  ncclComm_t add(uint64_t number) {
    const auto comm = reinterpret_cast<ncclComm_t>(number * 0x1000);
    client_.gate.add_communicator(comm, id_of(number));
    peers_.members.add(id_of(number), 2);
    return comm;
  }
  void abort(ncclComm_t comm) {
    EXPECT_EQ(client_.abort_communicator(comm, [] { return ncclSuccess; }), ncclSuccess);
  }
  Driver driver_{};
  Registry registry_;
  NoExchange exchange_;
  PeerTable peers_;
  NcclObjects objects_{driver_, registry_, exchange_, peers_};
  NcclClient& client_ = objects_.client;
};

// The number of ranks of a communicator is kept as long as its abort is.
TEST_F(EndedCommunicators, AbortIsKeptWhileAnImportRuns) {
  exchange_.during_import = [this] {
    for (const uint64_t number : {uint64_t{1}, uint64_t{2}}) abort(add(number));
    EXPECT_EQ(peers_.members.members_of(id_of(1)), 2);
    EXPECT_EQ(peers_.members.members_of(id_of(2)), 2);
  };
  DriverHandle handle = 0;
  (void)objects_.handles.import_handle(&handle, nullptr, kHandleTypeFd);

  abort(add(3));
  EXPECT_EQ(peers_.members.members_of(id_of(1)), 0);
  EXPECT_EQ(peers_.members.members_of(id_of(2)), 0);
}

TEST_F(EndedCommunicators, OfThousandsOfAbortsTheLastIsKept) {
  constexpr uint64_t kAborts = 5000;
  for (uint64_t number = 1; number <= kAborts; ++number) abort(add(number));
  for (uint64_t number = 1; number < kAborts; ++number)
    ASSERT_EQ(peers_.members.members_of(id_of(number)), 0) << number;
}

TEST_F(EndedCommunicators, NumberOfRanksIsKeptUntilTheLastRankOfTheProcessEnds) {
  ncclComm_t const first = add(1);
  const auto second = reinterpret_cast<ncclComm_t>(0x9000);
  client_.gate.add_communicator(second, id_of(1));
  client_.communicator_ends(first);
  EXPECT_EQ(peers_.members.members_of(id_of(1)), 2);
  client_.communicator_ends(second);
  EXPECT_EQ(peers_.members.members_of(id_of(1)), 0);
}

}  // namespace
}  // namespace amem
