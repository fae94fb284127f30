// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Ranks on a driver of which a library wraps some functions for dlsym() only, as vGPU layers do.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class WrappedDriverOfRanks : public JobTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (real_gpu()) GTEST_SKIP() << "needs 2 GPUs, simulated ones: its library wraps their driver";
    setup_.environment["LD_PRELOAD"] = AMEM_DLSYM_WRAPPER;
    setup_.environment["AMEM_TEST_WRAPPED"] = GetParam();
  }
};

// Ranks exchange the driver's own descriptors. Memory with a tag stays too: NCCL may have
// registered it with the driver's handle.
TEST_P(WrappedDriverOfRanks, JobWorksAndPausesOfAllTagsAreRefused) {
  auto job = pair();
  job->all("tag_malloc weights keep 4194304");
  for (const char* const pause : {"pause", "tag_pause weights"}) {
    const std::string text = (*job)[0].ask_failing(pause);
    EXPECT_TRUE(has(text, std::string("a look-up of ") + std::string(GetParam()).substr(0, 8)))
        << text;
    EXPECT_TRUE(has(text, "returned a function that this version of amem does not know")) << text;
  }
  EXPECT_EQ((*job)[0].ask("state"), "0");
  job->all("check world" + counts());
}

INSTANTIATE_TEST_SUITE_P(Functions, WrappedDriverOfRanks,
                         testing::Values("cuMemCreate", "cuMemImportFromShareableHandle",
                                         "cuMemExportToShareableHandle",
                                         "cuMemRetainAllocationHandle", "cuMemRelease"),
                         [](const auto& function) { return std::string(function.param); });

}  // namespace
}  // namespace amem
