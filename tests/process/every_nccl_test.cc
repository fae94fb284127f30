// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What every version of NCCL must do under amem: collectives with each protocol, communicators that
// were split with and without shared resources, and a captured graph, over many pauses. `./dev gpu
// --nccl DIR` runs it with each NCCL in a directory.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

enum class Link { p2p, sockets };
using Way = std::tuple<Link, const char*, bool>;  ///< link, protocol, shared resources

class EveryNccl : public JobTest, public testing::WithParamInterface<Way> {
 protected:
  static constexpr int kRanks = 2;

  void SetUp() override {
    const auto& [link, protocol, shared] = GetParam();
    setup_.environment["NCCL_PROTO"] = protocol;
    setup_.environment["NCCL_COMM_SPLIT_SHARE_RESOURCES"] = shared ? "1" : "0";
    if (link == Link::p2p) {
      AMEM_NEEDS_GPUS(kRanks);
      return;
    }
    // Ranks that NCCL takes for other nodes may use one GPU in all versions (init.cc@v2.19.3-1).
    AMEM_NEEDS_OWN_GPUS(1);
    setup_.shared_gpus = own_gpus_for(kRanks);
    setup_.environment["NCCL_NET"] = "Socket";
    setup_.environment["NCCL_SOCKET_IFNAME"] = "lo";
    for (int rank = 0; rank < kRanks; ++rank)
      setup_.environment_of_rank[rank]["NCCL_HOSTID"] = "node" + std::to_string(rank);
  }
};

TEST_P(EveryNccl, KeepsItsMemoryOverPauses) {
  jobs::Job job(setup_, kRanks);
  job.use_devices(first_devices(kRanks));
  job.make("world");
  job.all("split world child 0 0");
  // Ranks that share a GPU wait for each other by its time slices, at every step of a FIFO.
  const bool takes_turns = own_gpus_for(kRanks) < kRanks;
  const std::string many = takes_turns ? " 17 16384" : counts();
  const std::string few = takes_turns ? " 17" : " 17 20000";
  for (const char* name : {"world", "child"}) job.all(std::string("check ") + name + many);
  job.all("capture world 16384");
  const int cycles = real_gpu() && !takes_turns ? 20 : 5;
  RecordProperty("cycles", cycles);
  for (int cycle = 0; cycle < cycles; ++cycle) {
    job.all("pause");
    for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(totals(job[rank]).resident, 0u);
    job.all("resume");
    job.all("replay world");
    job.all("check child" + few);
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    job[rank].ask("pause");
    job[rank].ask("resume");
    for (const char* name : {"child", "world"}) job.all(std::string("check ") + name + many);
  }
  for (const char* name : {"child", "world"}) job.all(std::string("destroy ") + name);
}

std::string name_of(const testing::TestParamInfo<Way>& way) {
  const auto& [link, protocol, shared] = way.param;
  return std::string(link == Link::p2p ? "P2p" : "Sockets") + protocol +
         (shared ? "SharedResources" : "");
}

INSTANTIATE_TEST_SUITE_P(Ways, EveryNccl,
                         testing::Combine(testing::Values(Link::p2p, Link::sockets),
                                          testing::Values("LL", "LL128", "Simple"),
                                          testing::Bool()),
                         name_of);

}  // namespace
}  // namespace amem
