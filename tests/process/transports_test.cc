// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Every way that two ranks are connected, every protocol, and nothing that grows.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class Transports : public JobTest {
 protected:
  void expect_cycles_work(const std::map<std::string, std::string>& environment) {
    jobs::Job job(setup_, 3, environment);
    job.use_devices({0, 1, 2});
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
  expect_cycles_work({{"NCCL_P2P_DISABLE", "1"}, {"NCCL_SHM_DISABLE", "1"}});
}

TEST_F(Transports, ProtocolLl) { expect_cycles_work({{"NCCL_PROTO", "LL"}}); }
TEST_F(Transports, ProtocolLl128) { expect_cycles_work({{"NCCL_PROTO", "LL128"}}); }
TEST_F(Transports, ProtocolSimple) { expect_cycles_work({{"NCCL_PROTO", "Simple"}}); }

TEST_F(Transports, TenCyclesLeaveNothingBehind) {
  struct Resources {
    size_t fds = 0, maps = 0, resident_bytes = 0, threads = 0;
  };
  const auto read = [](jobs::RankProcess& rank) {
    Resources r;
    sscanf(rank.ask("resources").c_str(), "%zu %zu %zu %zu", &r.fds, &r.maps, &r.resident_bytes,
           &r.threads);
    return r;
  };
  jobs::Job job(setup_, 2);
  job.use_devices({0, 1});
  job.make("world");
  job.all("check world" + counts());
  std::vector<Resources> second(2);
  for (int cycle = 1; cycle <= 10; ++cycle) {
    job.all("pause");
    job.all("resume");
    job.all("check world" + counts());
    for (int rank : {0, 1}) {
      const Resources now = read(job[rank]);
      ASSERT_GT(now.fds, 0u);
      Resources& then = second[static_cast<size_t>(rank)];
      if (cycle == 2) then = now;
      if (cycle <= 2) continue;
      EXPECT_LE(now.fds, then.fds) << "cycle " << cycle;
      EXPECT_LE(now.maps, then.maps) << "cycle " << cycle;
      EXPECT_LE(now.threads, then.threads) << "cycle " << cycle;
    }
  }
}

}  // namespace
}  // namespace amem
