// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Another program takes the memory that a pause has released, at each of its steps, and the pause
// fails afterwards; or has taken it when a resume is at any of its steps. Nothing is lost, and both
// calls go on from there.
#include "tests/faults/fault_test.h"
#include "tests/process/progress.h"

namespace amem {
namespace {

class RoomTaken : public FaultTest {
 protected:
  static constexpr const char* kPattern = "2779096485";

  RoomTaken() : job_(setup_, 2, {{"AMEM_SLAB", "0"}}), tenant_(setup_, 1) {
    job_.use_devices({0, 1});
    job_.make("world");
    job_.all("check world" + counts());
    tenant_.use_devices({0});
    before_ = totals(job_[0]);
  }

  long waits_for_copies() { return std::stol(job_[0].ask("calls_of cuEventSynchronize")); }
  /// Copies of a pause, one for each backing that is not zero, or more.
  long copies_of_a_pause() {
    const auto count = [&] { return std::stol(job_[0].ask("calls_of cuEventRecord")); };
    job_[0].ask("pause");
    job_[0].ask("resume");
    const long before = count();
    job_[0].ask("pause");
    const long copies = count() - before;
    job_[0].ask("resume");
    return copies;
  }
  /// A pause of rank 0 that fails when the n-th copy has to have ended; when the k-th backing has
  /// been released, the tenant takes all that is free.
  void pause_that_fails(long n, long k) {
    const long waits = waits_for_copies();
    job_[0].ask("driver_fault cuEventSynchronize:" + std::to_string(n) + "..=999");
    job_[0].ask("hold_at pause_half_released " + std::to_string(k));
    job_[0].ask("thread a pause");
    wait_for("a backing is released", [&] { return job_[0].ask("held") == "1"; });
    wait_for("a copy has failed", [&] { return waits_for_copies() >= waits + n; });
    job_[0].ask("driver_fault");
    tenant_.all(std::string("occupy 0 ") + kPattern);
    job_[0].ask("go_on");
    const std::string text = job_[0].ask_failing("wait a");
    EXPECT_TRUE(has(text, "its memory could not be restored")) << text;
    EXPECT_TRUE(has(text, "MiB still on the GPU")) << text;
  }
  void expect_as_before() {
    const Totals now = totals(job_[0]);
    EXPECT_EQ(state(job_[0]), kActive);
    EXPECT_EQ(now.resident, before_.resident);
    EXPECT_EQ(now.saved, 0u);
    EXPECT_EQ(now.mapped, before_.mapped);
    job_.all("check world" + counts());
  }

  jobs::Job job_, tenant_;
  Totals before_{};
};

TEST_F(RoomTaken, AtAnyStepOfAPauseThatFails) {
  const long copies = copies_of_a_pause();
  ASSERT_GT(copies, 8);
  const long stride = is_long() ? 1 : copies / 4;
  bool goes_on = false;
  for (long n = 4; n < copies; n += stride, goes_on = !goes_on) {
    SCOPED_TRACE("copy " + std::to_string(n) + " of " + std::to_string(copies));
    pause_that_fails(n, std::max(1L, n / 2));
    if (HasFailure()) return;

    const Totals paused = totals(job_[0]);
    EXPECT_EQ(state(job_[0]), kPaused);
    EXPECT_GT(paused.resident, 0u);
    EXPECT_LT(paused.resident, before_.resident);
    EXPECT_EQ(paused.resident + paused.released, before_.resident);
    // Neither way is there any room before the tenant has left; to go on takes none.
    EXPECT_TRUE(has(job_[0].ask_failing("resume"), "MiB are needed"));
    if (goes_on) {
      job_[0].ask("pause");
      EXPECT_EQ(totals(job_[0]).resident, 0u);
    }
    tenant_.all("drain");
    job_[0].ask("resume");
    expect_as_before();
    if (HasFailure()) return;
  }
}

TEST_F(RoomTaken, AtAnyStepOfAResume) {
  constexpr size_t kSteps = 5;
  for (size_t step = 0; step < kSteps; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    job_[0].ask("pause");
    const size_t spare_bytes = before_.driver_bytes / kSteps * step;
    tenant_.all("occupy " + std::to_string(spare_bytes) + " " + kPattern);

    EXPECT_TRUE(has(job_[0].ask_failing("resume"), "MiB are needed"));

    EXPECT_EQ(state(job_[0]), kPaused);
    EXPECT_EQ(totals(job_[0]).resident, 0u);
    job_[0].ask("pause");
    tenant_.all("drain");
    job_[0].ask("resume");
    expect_as_before();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace amem
