// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// cudaDeviceReset() beside memory with tags: memory of cuMemCreate() and its mappings outlive the
// context, streams, events, modules and pinned host memory do not.
#include <sstream>

#include "tests/process/simulated_job.h"

namespace amem {
namespace {

constexpr size_t kBytes = size_t{8} << 20;

class DeviceReset : public JobTest {
 protected:
  void SetUp() override {
    AMEM_NEEDS_GPUS(1);
    job_ = std::make_unique<jobs::Job>(setup_, 1);
    job_->use_devices({0});
    rank().ask("tag_malloc weights keep " + std::to_string(kBytes));
    rank().ask("tag_write weights");
  }
  jobs::RankProcess& rank() { return (*job_)[0]; }
  void cycle() {
    rank().ask("tag_pause weights");
    rank().ask("tag_resume weights");
  }
  void expect_right_contents() {
    EXPECT_EQ(rank().ask("tag_check weights"), std::to_string(kBytes));
  }

  std::unique_ptr<jobs::Job> job_;
};

TEST_F(DeviceReset, WhilePausedLosesNothing) {
  rank().ask("tag_pause weights");
  rank().ask("reset_device 0");
  rank().ask("device 0");

  rank().ask("tag_resume weights");

  expect_right_contents();
  cycle();
  expect_right_contents();
}

TEST_F(DeviceReset, BetweenTwoPausesLosesNothing) {
  cycle();
  rank().ask("reset_device 0");
  rank().ask("device 0");

  cycle();

  expect_right_contents();
}

TEST_F(DeviceReset, WithoutAContextAfterItRefusesTheResumeUntilThereIsOne) {
  rank().ask("tag_pause weights");
  rank().ask("reset_device 0");

  const std::string text = rank().ask_failing("tag_resume weights");

  EXPECT_TRUE(has(text, "device 0 has no active primary context")) << text;
  rank().ask("device 0");
  rank().ask("tag_resume weights");
  expect_right_contents();
}

}  // namespace
}  // namespace amem
