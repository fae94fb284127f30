// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// A hooked function arrives in an unknown form when hooks have given out handles already: to
// another NCCL library, or to PyTorch.
#include "clients/nccl/driver_calls/testdata/slab_fixture.h"
#include "memory/backing_steps.h"

namespace amem {
namespace {

class UnknownForms : public SlabCalls {
 protected:
  UnknownForms() {
    driver_.cuMemRetainAllocationHandle = [](DriverHandle* handle, void* address) {
      const auto found = g_fake.mapped.find(reinterpret_cast<DeviceAddress>(address));
      if (found == g_fake.mapped.end()) return driver_result::kInvalidValue;
      return *handle = found->second, driver_result::kSuccess;
    };
  }
  DriverHandle retain(DeviceAddress address) {
    DriverHandle handle = 0;
    EXPECT_EQ(hooked_cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address)), 0);
    return handle;
  }
};

TEST_F(UnknownForms, LaterMemoryIsTheDrivers) {
  forward_unknown_form("a look-up");

  EXPECT_EQ(ask_granularity(), kDriverUnit);
  const Buffer buffer = allocate(1000);

  EXPECT_EQ(buffer.size_bytes, kDriverUnit);
  EXPECT_TRUE(g_fake.objects.contains(buffer.handle)) << "the driver's own handle";
  EXPECT_EQ(retain(buffer.address), buffer.handle);
  EXPECT_EQ(hooked_cuMemUnmap(buffer.address, buffer.size_bytes), 0);
  EXPECT_EQ(hooked_cuMemRelease(buffer.handle), 0);
  EXPECT_EQ(hooked_cuMemAddressFree(buffer.address, buffer.size_bytes), 0);
  expect_nothing_left();
  MutexLock lock(registry_.mutex);
  EXPECT_NE(registry_.refusal.find("a look-up returned a function that this version of amem"),
            std::string::npos)
      << registry_.refusal;
}

TEST_F(UnknownForms, HandlesFromBeforeAreAnsweredToTheirEnd) {
  const Buffer small = allocate(1000), large = allocate(kLargestSlot + 1);
  forward_unknown_form("a look-up");
  const Buffer later = allocate(1000);

  for (const Buffer& buffer : {small, large}) {
    EXPECT_EQ(retain(buffer.address), buffer.handle);
    EXPECT_EQ(hooked_cuMemRelease(buffer.handle), 0);
    free(buffer);
  }
  EXPECT_EQ(g_fake.objects.size(), 1u) << "that of the later one";
  EXPECT_TRUE(g_fake.objects.contains(later.handle));
}

// Whoever gets the handle may pass it to the unknown form.
TEST_F(UnknownForms, MemoryOfTheApplicationHasTheDriversHandle) {
  DriverHandle real = 0;
  ASSERT_EQ(driver_.cuMemCreate(&real, kDriverUnit, &properties_, 0), 0);
  DeviceAddress address = 0;
  {
    MutexLock lock(registry_.mutex);
    Allocation& weights =
        registry_.add_local(kDriverUnit, properties_, real, kDriverUnit, "weights");
    Result<DeviceAddress> placed = place_backing(driver_, registry_, registry_.backing_of(weights));
    ASSERT_TRUE(placed.ok());
    address = placed.value();
    registry_.add_mapping(weights, address, kDriverUnit);
  }
  EXPECT_TRUE(is_our_handle(retain(address)));
  forward_unknown_form("a look-up");
  EXPECT_EQ(retain(address), real);
}

}  // namespace
}  // namespace amem
