// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "memory/virtual_memory.h"

#include <gtest/gtest.h>

#include "base/exit_flag.h"

namespace amem {
namespace {

/// A driver that keeps no record. NCCL's calls on a driver that does are in clients/nccl.
class VirtualMemoryTest : public testing::Test {
 protected:
  VirtualMemoryTest() {
    driver_.cuMemCreate = [](DriverHandle* handle, size_t, const AllocationProperties*,
                             unsigned long long) { return *handle = 7, driver_result::kSuccess; };
    driver_.cuMemMap = [](DeviceAddress, size_t, size_t, DriverHandle, unsigned long long) {
      return driver_result::kSuccess;
    };
    driver_.cuMemUnmap = [](DeviceAddress, size_t) { return driver_result::kSuccess; };
    driver_.cuMemRelease = [](DriverHandle) { return driver_result::kSuccess; };
    properties_.location = {kLocationDevice, 0};
  }
  Allocation& add_import() {
    MutexLock lock(registry_.mutex);
    return registry_.add_import({owner_, 1, 2, 3, 0, 0, kBytes, 4711, "weights"});
  }
  AMEM_NOT_ANALYSED std::vector<AllocationId> take_unused() {
    MutexLock lock(registry_.mutex);
    return memory_.take_unused_imports();
  }

  static constexpr size_t kBytes = size_t{2} << 20;
  static constexpr DeviceAddress kAddress = 0x10000000;
  Driver driver_{};
  Registry registry_;
  ExitFlag exiting_;
  DeviceThreads devices_{driver_, exiting_};
  VirtualMemory memory_{driver_, registry_, devices_, {}};
  const InstanceId owner_ = random_instance_id();
  AllocationProperties properties_{};
};

TEST_F(VirtualMemoryTest, MemoryHasItsOrigin) {
  DriverHandle handle = 0;
  ASSERT_EQ(memory_.create(&handle, kBytes, &properties_, 0,
                           {.tag = "weights", .kind = Kind::discard, .is_buffer = true}),
            driver_result::kSuccess);
  DriverHandle staying = 0;
  ASSERT_EQ(memory_.create(&staying, kBytes, &properties_, 0,
                           {.tag = "weights", .persistent_because = "not exportable"}),
            driver_result::kSuccess);

  MutexLock lock(registry_.mutex);
  const Allocation& allocation = *registry_.find_handle(handle);
  EXPECT_EQ(allocation.kind, Kind::discard);
  EXPECT_TRUE(allocation.is_buffer);
  EXPECT_EQ(registry_.backing_of(allocation).tag, "weights");
  EXPECT_EQ(registry_.find_handle(staying)->kind, Kind::persistent);
  EXPECT_STREQ(registry_.find_handle(staying)->persistent_because, "not exportable");
}

TEST_F(VirtualMemoryTest, HostMemoryKeepsTheDriversHandle) {
  properties_.location.type = kLocationDevice + 1;
  DriverHandle handle = 0;
  ASSERT_EQ(memory_.create(&handle, kBytes, &properties_, 0, {.tag = "weights"}),
            driver_result::kSuccess);
  EXPECT_EQ(handle, 7u);
}

TEST_F(VirtualMemoryTest, ImportIsUnusedWhenItsLastHandleAndMappingAreGone) {
  const DriverHandle handle = handle_of(add_import().id);
  ASSERT_EQ(memory_.map(kAddress, kBytes, 0, handle, 0), driver_result::kSuccess);
  EXPECT_EQ(memory_.release(handle), driver_result::kSuccess);
  EXPECT_FALSE(memory_.has_unused_imports()) << "it is still mapped";

  EXPECT_EQ(memory_.unmap(kAddress, kBytes), driver_result::kSuccess);

  EXPECT_TRUE(memory_.has_unused_imports());
  EXPECT_EQ(take_unused(), std::vector{allocation_of(handle)});
  EXPECT_FALSE(memory_.has_unused_imports());
}

// Its owner keeps the importer: it must not be told that the import has ended.
TEST_F(VirtualMemoryTest, ImportThatIsImportedAgainMeanwhileIsUsed) {
  const AllocationId id = add_import().id;
  EXPECT_EQ(memory_.release(handle_of(id)), driver_result::kSuccess);
  EXPECT_EQ(add_import().id, id);

  EXPECT_TRUE(take_unused().empty());

  for (int released = 0; released < 2; ++released) {
    EXPECT_EQ(memory_.release(handle_of(id)), driver_result::kSuccess);
    if (released == 0) add_import();
  }
  EXPECT_EQ(take_unused(), std::vector{id}) << "once";
}

}  // namespace
}  // namespace amem
