// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Resumes that miss their deadline, one after another, until one ends.
#include "memory/backing_steps.h"
#include "tests/support/executor_fixture.h"

namespace amem {
namespace {

/// With memory of this kind.
class RepeatedResume : public ExecutorTest, public testing::WithParamInterface<Kind> {
 protected:
  static constexpr size_t kBackings = 5;

  RepeatedResume() {
    EXPECT_TRUE(directory_.set(testing::TempDir()).ok());
    for (size_t i = 0; i < kBackings; ++i) add(FakeGpus::kFirstDevice, GetParam());
    EXPECT_TRUE(move_out().ok());
    MutexLock lock(gpus_.mutex);
    gpus_.copies = 0;
  }
  /// Resumes whose deadline passes before the device begins with the first; the last one's error.
  Status late_resume(int calls = 1) {
    Mutex mutex;
    Condition changed;
    bool ends = false;
    const auto held =
        context_.fill_threads.start({{FakeGpus::kFirstDevice, [&] {
                                        MutexLock lock(mutex);
                                        changed.wait_until(mutex, patience(), [&] { return ends; });
                                        return ok_status();
                                      }}});
    Status late = ok_status();
    for (int call = 0; call < calls; ++call)
      late = executor_.move_in(
          begun(), no_wait, [] {}, Deadline::after_ms(0), &report_);
    {
      MutexLock lock(mutex);
      ends = true;
      changed.notify_all();
    }
    EXPECT_TRUE(DeviceThreads::wait(held, "the test", patience()).ok());
    settle();
    return late;
  }
  size_t copies() {
    MutexLock lock(gpus_.mutex);
    return gpus_.copies;
  }
};

TEST_P(RepeatedResume, GoesOnWhereTheLastOneEnded) {
  for (size_t call = 1; call <= kBackings; ++call) {
    const Status late = late_resume();
    ASSERT_FALSE(late.ok());
    EXPECT_EQ(late.error().kind, ErrorKind::timeout);
    EXPECT_EQ(copies(), call) << "each call restores one more";
    const std::string source = GetParam() == Kind::disk ? testing::TempDir() : "host memory";
    for (const std::string& part :
         {std::to_string((call - 1) * FakeGpus::kBytes) + " of " +
              std::to_string(kBackings * FakeGpus::kBytes) + " bytes are restored from " + source,
          std::string("MiB/s"), std::string("AMEM_TIMEOUT_MS")})
      EXPECT_NE(late.error().message.find(part), std::string::npos)
          << part << ": " << late.error().message;
  }
  ASSERT_TRUE(resume().ok());
  EXPECT_EQ(copies(), kBackings);
  for (BackingId id = 1; id <= kBackings; ++id) EXPECT_TRUE(is_intact(id)) << id;
  EXPECT_EQ(pool_.free_bytes(), pool_.capacity_bytes());
}

// A disk that hangs for long is asked by a loop of resumes.
TEST_P(RepeatedResume, WhileTheLastOneStillCopiesQueuesNothing) {
  EXPECT_FALSE(late_resume(100).ok());
  EXPECT_EQ(copies(), 1u);
  ASSERT_TRUE(resume().ok());
  EXPECT_EQ(copies(), kBackings);
}

TEST_P(RepeatedResume, PauseInBetweenLosesNothing) {
  for (int cycle = 0; cycle < 3; ++cycle) {
    ASSERT_FALSE(late_resume().ok());
    ASSERT_FALSE(late_resume().ok());
    ASSERT_TRUE(move_out().ok());
    for (BackingId id = 1; id <= kBackings; ++id) EXPECT_EQ(state(id), BackingState::released);
  }
  ASSERT_TRUE(resume().ok());
  for (BackingId id = 1; id <= kBackings; ++id) EXPECT_TRUE(is_intact(id)) << id;
}

TEST_P(RepeatedResume, OfMemoryThatIsFreedInBetweenRestoresTheRest) {
  driver_.cuMemAddressFree = [](DeviceAddress, size_t) { return driver_result::kSuccess; };
  ASSERT_FALSE(late_resume().ok());
  {
    MutexLock lock(registry_.mutex);
    for (const BackingId id : {1, 4}) {
      Backing& backing = *registry_.find_backing(id);
      const Allocation& allocation = *registry_.find(backing.allocations.begin()->second);
      registry_.remove_mapping(*registry_.find_mapping(allocation.mappings.front()));
      erase_unused(driver_, registry_, allocation);
    }
  }
  ASSERT_TRUE(resume().ok());
  for (const BackingId id : {2, 3, 5}) EXPECT_TRUE(is_intact(id)) << id;
}

INSTANTIATE_TEST_SUITE_P(Kinds, RepeatedResume, testing::Values(Kind::keep, Kind::disk),
                         [](const auto& test) {
                           return test.param == Kind::disk ? "disk" : "memory";
                         });

}  // namespace
}  // namespace amem
