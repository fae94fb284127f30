// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Where bytes are when a move has ended or has failed.
#include <algorithm>

#include "memory/backing_steps.h"
#include "tests/support/executor_fixture.h"
#include "tests/support/file_size_limit.h"

namespace amem {
namespace {

constexpr DriverResult kNotPermitted = 800;

// --- A way out and back
// --------------------------------------------------------------------------------------------------------

TEST_F(ExecutorTest, EveryByteComesBack) {
  for (int cycle = 0; cycle < 3; ++cycle) {
    if (cycle < 2) add();
    ASSERT_TRUE(move_out().ok());
    const BackingId last = begun().own.back();
    for (BackingId id = 1; id <= last; ++id) EXPECT_EQ(state(id), BackingState::released);
    ASSERT_TRUE(resume().ok());
    for (BackingId id = 1; id <= last; ++id) EXPECT_TRUE(is_intact(id)) << id;
  }
  MutexLock lock(gpus_.mutex);
  EXPECT_EQ(gpus_.pinned, 1u) << "host memory is made once";
  EXPECT_EQ(pool_.free_bytes(), pool_.capacity_bytes());
}

TEST_F(ExecutorTest, CopiesOfADeviceAreMadeInItsContext) {
  for (const int device : {0, 1, 0, 1}) add(FakeGpus::kFirstDevice + device);

  ASSERT_TRUE(move_out().ok());
  ASSERT_TRUE(resume().ok());

  for (const BackingId id : {1, 2, 3, 4}) EXPECT_TRUE(is_intact(id));
  MutexLock lock(gpus_.mutex);
  EXPECT_EQ(gpus_.copies, 8u);
  EXPECT_FALSE(gpus_.in_wrong_context);
}

TEST_F(ExecutorTest, ContentsOfKindZeroAreNotCopiedButZeroed) {
  const BackingId id = add(FakeGpus::kFirstDevice, Kind::zero);
  ASSERT_TRUE(move_out().ok());
  ASSERT_TRUE(resume().ok());

  EXPECT_EQ(report_.copied_bytes, 0u);
  EXPECT_TRUE(gpus_.is_zero(backing(id).placement_for_copies()->address));
}

TEST_F(ExecutorTest, DiscardedContentsAreNeitherCopiedNorZeroed) {
  const BackingId id = add(FakeGpus::kFirstDevice, Kind::discard);
  ASSERT_TRUE(move_out().ok());
  EXPECT_EQ(report_.copied_bytes, 0u);
  ASSERT_TRUE(resume().ok());

  EXPECT_EQ(state(id), BackingState::resident);
  EXPECT_TRUE(backing(id).placements.front().mapped);
  MutexLock lock(gpus_.mutex);
  EXPECT_EQ(gpus_.copies, 0u);
}

// The client has unmapped it and holds its handle, or only importers have mapped it.
TEST_F(ExecutorTest, ContentsOfMemoryThatIsNotMappedComeBack) {
  static DeviceAddress mapped_at;
  [[maybe_unused]] static DeviceAddress freed;  // Clang does not see the use in the lambda
  mapped_at = gpus_.add(FakeGpus::kFirstDevice, 1);
  freed = 0;
  driver_.cuMemAddressReserve = [](DeviceAddress* address, size_t, size_t, DeviceAddress,
                                   unsigned long long) {
    return *address = mapped_at, driver_result::kSuccess;
  };
  driver_.cuMemSetAccess = [](DeviceAddress, size_t, const Access* access, size_t count) {
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(access->location, (Location{kLocationDevice, FakeGpus::kFirstDevice}));
    return driver_result::kSuccess;
  };
  driver_.cuMemAddressFree = [](DeviceAddress address, size_t) {
    return freed = address, driver_result::kSuccess;
  };
  AllocationId id = 0;
  {
    MutexLock lock(registry_.mutex);
    AllocationProperties properties{};
    properties.location = {kLocationDevice, FakeGpus::kFirstDevice};
    id = registry_.add_local(FakeGpus::kBytes, properties, 7, FakeGpus::kBytes).id;
  }
  for (int cycle = 0; cycle < 2; ++cycle) {
    ASSERT_TRUE(move_out().ok());
    EXPECT_EQ(report_.copied_bytes, FakeGpus::kBytes);
    EXPECT_EQ(state(1), BackingState::released);
    ASSERT_TRUE(resume().ok());
    EXPECT_TRUE(is_intact(1));
    EXPECT_EQ(backing(1).placements.size(), 1u);
    report_ = {};
  }
  MutexLock lock(registry_.mutex);
  erase_unused(driver_, registry_, *registry_.find(id));
  EXPECT_EQ(freed, mapped_at) << "the addresses are amem's";
}

TEST_F(ExecutorTest, MemoryThatCannotBeMappedForItsCopyStays) {
  driver_.cuMemAddressReserve = [](DeviceAddress*, size_t, size_t, DeviceAddress,
                                   unsigned long long) { return driver_result::kOutOfMemory; };
  {
    MutexLock lock(registry_.mutex);
    AllocationProperties properties{};
    properties.location = {kLocationDevice, FakeGpus::kFirstDevice};
    registry_.add_local(FakeGpus::kBytes, properties, 7, FakeGpus::kBytes);
  }
  EXPECT_EQ(move_out().error().code, driver_result::kOutOfMemory);
  EXPECT_EQ(state(1), BackingState::resident);
  EXPECT_TRUE(backing(1).is_here());
}

// --- Contents on disk
// --------------------------------------------------------------------------------------------------------

class OnDisk : public ExecutorTest {
 protected:
  OnDisk() {
    EXPECT_TRUE(directory_.set(testing::TempDir()).ok());
    for (const Kind kind : {Kind::disk, Kind::keep, Kind::disk, Kind::disk})
      add(FakeGpus::kFirstDevice, kind);
  }
};

TEST_F(OnDisk, EveryByteComesBackAndHostMemoryIsBounded) {
  for (int cycle = 0; cycle < 3; ++cycle) {
    ASSERT_TRUE(move_out().ok());
    EXPECT_EQ(backing(1).saved, backing(4).saved);
    EXPECT_EQ(backing(1).saved_file.file, backing(3).saved_file.file);
    EXPECT_EQ(backing(2).saved_file.file, nullptr);
    ASSERT_TRUE(resume().ok());
    for (const BackingId id : {1, 2, 3, 4}) EXPECT_TRUE(is_intact(id));
    EXPECT_EQ(pool_.free_bytes(), pool_.capacity_bytes());
  }
  EXPECT_LE(pool_.capacity_bytes(), 2 * HostPool::block_bytes(Copier::kStagingBytes));
}

TEST_F(OnDisk, WithoutRoomNothingIsReleased) {
  {
    const FileSizeLimit small(FakeGpus::kBytes);
    EXPECT_EQ(move_out().error().code, EFBIG);
  }
  for (const BackingId id : {1, 2, 3, 4}) EXPECT_TRUE(is_intact(id));
  MutexLock lock(gpus_.mutex);
  EXPECT_TRUE(gpus_.unmapped.empty());
}

TEST_F(OnDisk, ReadThatFailsCanBeMadeAgain) {
  ASSERT_TRUE(move_out().ok());
  const auto file = backing(3).saved_file;
  {
    MutexLock lock(registry_.mutex);
    registry_.find_backing(3)->saved_file.offset_bytes += size_t{1} << 40;
  }
  EXPECT_EQ(resume().error().kind, ErrorKind::os);
  settle();
  {
    MutexLock lock(registry_.mutex);
    registry_.find_backing(3)->saved_file = file;
  }
  ASSERT_TRUE(resume().ok());
  for (const BackingId id : {1, 2, 3, 4}) EXPECT_TRUE(is_intact(id));
}

// --- Failures
// --------------------------------------------------------------------------------------------------------

TEST_F(ExecutorTest, NothingIsReleasedBeforeAllHaveRoomOnTheHost) {
  for (int i = 0; i < 2; ++i) add();

  EXPECT_FALSE(move_out(limited_).ok());

  for (const BackingId id : {1, 2}) EXPECT_TRUE(is_intact(id));
  MutexLock lock(gpus_.mutex);
  EXPECT_TRUE(gpus_.unmapped.empty());
  EXPECT_EQ(gpus_.copies, 0u);
}

TEST_F(ExecutorTest, OneIsReleasedOnlyAfterItsOwnCopy) {
  for (int i = 0; i < 4; ++i) add();
  {
    MutexLock lock(gpus_.mutex);
    gpus_.failing_copy = 3;
  }
  EXPECT_FALSE(move_out().ok());

  EXPECT_TRUE(is_intact(3));
  EXPECT_TRUE(is_intact(4));
  ASSERT_TRUE(resume().ok());
  for (const BackingId id : {1, 2, 3, 4}) EXPECT_TRUE(is_intact(id)) << id;
  EXPECT_EQ(pool_.free_bytes(), pool_.capacity_bytes());
}

// Others have taken the room: the way back fails, and both a pause and a resume go on from there.
TEST_F(ExecutorTest, FailedMoveWithoutAWayBackGoesOnLater) {
  for (int i = 0; i < 4; ++i) add();
  {
    MutexLock lock(gpus_.mutex);
    gpus_.failing_copy = 4;
  }
  ASSERT_FALSE(move_out().ok());
  const std::vector<BackingId> released = begun().own;
  ASSERT_FALSE(released.empty());
  {
    MutexLock lock(gpus_.mutex);
    gpus_.room = released.size() - 1;
  }
  EXPECT_EQ(resume().error().code, driver_result::kOutOfMemory);
  for (const BackingId id : released) EXPECT_EQ(state(id), BackingState::released);
  EXPECT_TRUE(is_intact(4));

  ASSERT_TRUE(move_out().ok());
  for (const BackingId id : {1, 2, 3, 4}) EXPECT_EQ(state(id), BackingState::released);
  {
    MutexLock lock(gpus_.mutex);
    gpus_.room = 100;
  }
  ASSERT_TRUE(resume().ok());
  for (const BackingId id : {1, 2, 3, 4}) EXPECT_TRUE(is_intact(id)) << id;
}

// The first are filled already when the last finds no room.
TEST_F(ExecutorTest, ResumeWithoutRoomGivesBackWhatItHasMadeAndLosesNothing) {
  for (int i = 0; i < 3; ++i) add();
  ASSERT_TRUE(move_out().ok());
  for (const size_t room : {0, 1, 2}) {
    {
      MutexLock lock(gpus_.mutex);
      gpus_.room = room;
    }
    EXPECT_FALSE(resume().ok());
    for (const BackingId id : {1, 2, 3}) EXPECT_EQ(state(id), BackingState::released);
    MutexLock lock(gpus_.mutex);
    EXPECT_EQ(gpus_.room, room);
    gpus_.room = 3;
  }
  ASSERT_TRUE(resume().ok());
  for (const BackingId id : {1, 2, 3}) EXPECT_TRUE(is_intact(id)) << id;
}

TEST_F(ExecutorTest, FillThatFailsCanBeMadeAgain) {
  for (int i = 0; i < 3; ++i) add();
  ASSERT_TRUE(move_out().ok());
  {
    MutexLock lock(gpus_.mutex);
    gpus_.failing_copy = gpus_.copies + 2;
  }
  EXPECT_FALSE(resume().ok());

  ASSERT_TRUE(resume().ok());
  for (const BackingId id : {1, 2, 3}) EXPECT_TRUE(is_intact(id)) << id;
}

// Whoever frees it would wait for a copy that nobody makes.
TEST_F(ExecutorTest, MoveThatFailsLeavesNoCopyUnderWay) {
  const BackingId id = add();
  gpus_.on_stream = [] { return kNotPermitted; };

  EXPECT_FALSE(move_out().ok());

  EXPECT_TRUE(is_intact(id));
}

TEST_F(ExecutorTest, MoveWhoseJobsDoNotRunLeavesNoCopyUnderWay) {
  const BackingId id = add();
  driver_.cuCtxSetCurrent = [](DriverContext) { return kNotPermitted; };

  EXPECT_FALSE(move_out().ok());

  EXPECT_TRUE(is_intact(id));
}

// --- Room on the host
// --------------------------------------------------------------------------------------------------------

TEST_F(ExecutorTest, RoomIsMadeForWhatIsNotZeroAndThenThereIsEnough) {
  add();
  ASSERT_TRUE(executor_.make_room(plan_pause(registry_, {""}), patience()).ok());
  EXPECT_GE(pool_.free_bytes(), FakeGpus::kBytes);

  ASSERT_TRUE(move_out().ok());
  ASSERT_TRUE(resume().ok());
  ASSERT_TRUE(executor_.make_room(plan_pause(registry_, {""}), patience()).ok());
  MutexLock lock(gpus_.mutex);
  EXPECT_EQ(gpus_.pinned, 1u);
}

TEST_F(ExecutorTest, MoreThanTheLimitIsRefusedBeforeAnyIsMade) {
  for (int i = 0; i < 2; ++i) add();

  const Status refused = limited_.make_room(plan_pause(registry_, {""}), patience());

  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("AMEM_HOST_LIMIT"), std::string::npos);
  MutexLock lock(gpus_.mutex);
  EXPECT_EQ(gpus_.pinned, 0u);
}

TEST_F(ExecutorTest, NothingToMoveTakesNoRoom) {
  ASSERT_TRUE(executor_.make_room({}, patience()).ok());

  EXPECT_EQ(pool_.capacity_bytes(), 0u);
}

// --- Meanwhile
// --------------------------------------------------------------------------------------------------------

// The GPU's part begins by making its stream; both ends of the meeting wait for the other, so that
// neither order of one after the other passes.
TEST_F(ExecutorTest, ImportsAreDroppedWhileContentsAreLookedFor) {
  static Meeting* meeting = nullptr;
  static bool unmap_met = false;
  Meeting here;
  meeting = &here;
  bool gpu_met = false;
  gpus_.on_stream = [&] {
    gpu_met = here.come();
    return kNotPermitted;
  };
  driver_.cuMemUnmap = [](DeviceAddress, size_t) {
    unmap_met = meeting->come();
    return driver_result::kSuccess;
  };
  add();
  {
    MutexLock lock(registry_.mutex);
    Allocation& import =
        registry_.add_import({random_instance_id(), 1, 2, 8, 0, 0, FakeGpus::kBytes, 3});
    Backing& backing = registry_.backing_of(import);
    backing.state = BackingState::mapped;
    registry_.add_placement(backing, 0x10000000, FakeGpus::kBytes).mapped = true;
  }
  (void)move_out();
  EXPECT_TRUE(gpu_met && unmap_met);
}

TEST_F(ExecutorTest, ExportsAreMadeWhileContentsComeBack) {
  add();
  ASSERT_TRUE(move_out().ok());
  Meeting meeting;
  bool copy_met = false, exports_met = false;
  Executor fresh(context_, pool_, directory_);
  gpus_.on_stream = [&] {
    copy_met = meeting.come();
    return driver_result::kSuccess;
  };
  EXPECT_TRUE(fresh
                  .move_in(
                      begun(), no_wait, [&] { exports_met = meeting.come(); }, patience(), &report_)
                  .ok());
  EXPECT_TRUE(copy_met && exports_met);
}

}  // namespace
}  // namespace amem
