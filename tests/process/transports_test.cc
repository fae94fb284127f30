// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Every way that ranks of one host are connected, and every protocol.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class Transports : public JobTest {
 protected:
  void SetUp() override { AMEM_NEEDS_GPUS(2); }

  void expect_cycles_work(const std::map<std::string, std::string>& environment) {
    const int ranks = gpus_for(3);
    jobs::Job job(setup_, ranks, environment);
    job.use_devices(first_devices(ranks));
    job.make("world");
    job.all("check world" + counts());
    for (int cycle = 0; cycle < 2; ++cycle) {
      job.all("pause");
      for (int rank = 0; rank < job.size(); ++rank) EXPECT_EQ(totals(job[rank]).resident, 0u);
      job.all("resume");
      job.all("check world" + counts());
    }
    job[1].ask("pause");
    job[1].ask("resume");
    job.all("check world" + counts());
  }
};

TEST_F(Transports, SharedMemory) { expect_cycles_work({{"NCCL_P2P_DISABLE", "1"}}); }

TEST_F(Transports, Sockets) {
  for (int rank = 0; rank < 3; ++rank)
    setup_.environment_of_rank[rank]["NCCL_HOSTID"] = "node" + std::to_string(rank);
  expect_cycles_work({{"NCCL_NET", "Socket"}, {"NCCL_SOCKET_IFNAME", "lo"}});
}

TEST_F(Transports, ProtocolLl) { expect_cycles_work({{"NCCL_PROTO", "LL"}}); }
TEST_F(Transports, ProtocolLl128) { expect_cycles_work({{"NCCL_PROTO", "LL128"}}); }
TEST_F(Transports, ProtocolSimple) { expect_cycles_work({{"NCCL_PROTO", "Simple"}}); }

}  // namespace
}  // namespace amem
