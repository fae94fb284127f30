// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// NCCL with a network plugin that keeps the physical addresses of the memory that it registers.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class NetPlugin : public JobTest {
 protected:
  void SetUp() override {
    if (real_gpu()) GTEST_SKIP() << "the plugin knows where simulated memory is";
  }
};

TEST_F(NetPlugin, MemoryThatItRegistersStays) {
  setup_.environment["NCCL_NET_PLUGIN"] = AMEM_NET_PLUGIN;
  setup_.environment["AMEM_LOG"] = "3";
  auto job = pair();

  for (int cycle = 0; cycle < 2; ++cycle) {
    job->all("pause");
    for (int rank : {0, 1}) EXPECT_EQ((*job)[rank].ask("plugin_moved"), "0");
    EXPECT_GT(totals((*job)[0]).resident, 0u) << "of what the plugin has registered";
    for (const char* part : {"paused nccl in ", " s: ", " MiB released, ", " MiB saved, ",
                             " MiB stay on the GPU (", "registered with a NIC) ("})
      EXPECT_TRUE(has((*job)[0].log(), part)) << part << " is not in " << (*job)[0].log();
    job->all("resume");
    for (int rank : {0, 1}) EXPECT_EQ((*job)[rank].ask("plugin_moved"), "0");
    job->all("check world" + counts());
  }
}

// Registered buffers do not share slabs with others, except for the first buffer of each size.
TEST_F(NetPlugin, BuffersThatItDoesNotRegisterLeave) {
  constexpr size_t kSent = size_t{2} << 20, kReceived = size_t{4} << 20;  // of one connection
  constexpr size_t kCommunicators = 6;
  constexpr size_t kConnections = 4;  // of a communicator: a ring and a pair in two channels
  setup_.environment["NCCL_NET_PLUGIN"] = AMEM_NET_PLUGIN;
  setup_.environment["MINCCL_NET_PLUGIN_LEAST"] = std::to_string(kReceived);
  auto job = pair();
  for (size_t i = 1; i < kCommunicators; ++i) {
    job->make("more" + std::to_string(i));
    job->all("check more" + std::to_string(i) + counts());
  }

  job->all("pause");

  const Totals paused = totals((*job)[0]);
  EXPECT_LE(paused.resident, kCommunicators * kConnections * kReceived + kSent);
  EXPECT_GE(paused.released, (kCommunicators * kConnections - 1) * kSent);
  for (int rank : {0, 1}) EXPECT_EQ((*job)[rank].ask("plugin_moved"), "0");
  job->all("resume");
  job->all("check world" + counts());
}

// The negative control: a table that amem does not know by its name.
TEST_F(NetPlugin, NoticesMemoryThatMoved) {
  setup_.environment["NCCL_NET_PLUGIN"] = AMEM_NET_PLUGIN;
  setup_.environment["MINCCL_NET_PLUGIN_TABLE"] = "amem_test_table";
  auto job = pair();

  job->all("pause");

  for (int rank : {0, 1}) EXPECT_NE((*job)[rank].ask("plugin_moved"), "0");
  job->all("resume");
}

TEST_F(NetPlugin, OfAnUnknownVersionRefusesThePause) {
  setup_.environment["NCCL_NET_PLUGIN"] = AMEM_NEW_NET_PLUGIN;
  auto job = pair();

  const std::string text = (*job)[0].ask_failing("pause");

  EXPECT_TRUE(has(text, "a network plugin has a table ncclNetPlugin_v13")) << text;
  job->all("check world" + counts());
}

}  // namespace
}  // namespace amem
