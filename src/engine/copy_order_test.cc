// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What goes on while copies run: which backings are released and created, and when.
#include "tests/support/executor_fixture.h"

namespace amem {
namespace {

// The third copy ends when the first backing has been unmapped, or never.
TEST_F(ExecutorTest, OneIsReleasedWhileOthersAreCopied) {
  for (int i = 0; i < 3; ++i) add();
  {
    MutexLock lock(gpus_.mutex);
    gpus_.ending_copies = 2;
  }
  ASSERT_TRUE(move_out().ok());

  MutexLock lock(gpus_.mutex);
  EXPECT_FALSE(gpus_.waited_in_vain);
}

// No copy ends before a backing has been unmapped, or never.
TEST_F(ExecutorTest, OneWithoutContentsIsReleasedBeforeTheFirstCopyEnds) {
  add();
  const BackingId without = add(FakeGpus::kFirstDevice, Kind::discard);
  {
    MutexLock lock(gpus_.mutex);
    gpus_.ending_copies = 0;
  }
  ASSERT_TRUE(move_out().ok());

  const DeviceAddress address = backing(without).placement_for_copies()->address;
  MutexLock lock(gpus_.mutex);
  EXPECT_FALSE(gpus_.waited_in_vain);
  EXPECT_EQ(gpus_.unmapped.front(), address);
}

/// The third is made when one that was made before is being filled, or never.
class ThirdWaits : public ExecutorTest {
 protected:
  void expect_resume() {
    ASSERT_TRUE(move_out().ok());
    {
      MutexLock lock(gpus_.mutex);
      gpus_.copies = 0;
      gpus_.third_waits_for_copy = true;
    }
    ASSERT_TRUE(resume().ok());

    MutexLock lock(gpus_.mutex);
    EXPECT_FALSE(gpus_.waited_in_vain);
  }
};

TEST_F(ThirdWaits, OneWithContentsIsMadeBeforeThoseWithout) {
  for (int i = 0; i < 3; ++i) add(FakeGpus::kFirstDevice, Kind::discard);
  add();
  expect_resume();
}

TEST_F(ThirdWaits, OneIsMadeWhileOthersAreFilled) {
  for (int i = 0; i < 3; ++i) add();
  expect_resume();
}

}  // namespace
}  // namespace amem
