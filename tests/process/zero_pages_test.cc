// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Kept memory that is all zero is not copied, and comes back as zero.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class ZeroMemory : public JobTest {
 protected:
  static int count_of(const std::string& text, const std::string& part) {
    int count = 0;
    for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
    return count;
  }
};

// Every byte is to be kept, but NCCL has written to few pages of its buffers.
TEST_F(ZeroMemory, IsNotCopiedAndResultsStayBitExact) {
  AMEM_NEEDS_GPUS(2);
  const auto job = pair();
  job->make("second");
  job->all("check second 17");

  for (int cycle = 0; cycle < 3; ++cycle) {
    const Totals before = totals((*job)[0]);
    job->all("pause");
    const Totals paused = totals((*job)[0]);
    const size_t kept = copied((*job)[0]).pause;
    EXPECT_GT(kept, 0u);
    EXPECT_LT(kept, before.allocated / 2);
    EXPECT_EQ(paused.saved, kept);
    EXPECT_EQ(paused.resident, 0u);
    RecordProperty("kept_mib",
                   std::to_string(kept >> 20) + " of " + std::to_string(before.allocated >> 20));
    job->all("resume");
    EXPECT_EQ(copied((*job)[0]).resume, kept);
    EXPECT_EQ(totals((*job)[0]).saved, 0u);
    for (const char* name : {"world", "second"}) job->all(std::string("check ") + name + counts());
  }
}

TEST_F(ZeroMemory, IsCopiedWhereItCannotBeFound) {
  if (real_gpu()) GTEST_SKIP() << "a real driver does not fail on request";
  setup_.environment["GMM_LOG"] = "3";
  const auto job = pair();
  const Totals before = totals((*job)[0]);
  for (const char* function :
       {"cuMemHostGetDevicePointer", "cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel"}) {
    (*job)[0].ask(std::string("driver_fault ") + function + ":1..=2");
    job->all("pause");
    EXPECT_EQ(copied((*job)[0]).pause, before.allocated) << function;
    EXPECT_EQ(totals((*job)[0]).saved, before.allocated) << function;
    (*job)[0].ask("driver_fault");
    job->all("resume");
    job->all("check world" + counts());
  }
  EXPECT_EQ(count_of((*job)[0].log(), "zero pages are copied too"), 1);

  job->all("pause");
  EXPECT_LT(copied((*job)[0]).pause, before.allocated / 2);
  job->all("resume");
  job->all("check world" + counts());
}

}  // namespace
}  // namespace amem
