// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <vector>

#include "clients/nccl/driver_calls/testdata/hooked_calls.h"
#include "memory/registered_range.h"
#include "memory/slabs.h"
#include "tests/support/nccl_objects.h"
#include "tests/support/no_exchange.h"

namespace amem {

inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr size_t kDriverUnit = 2 * kMiB;
inline constexpr size_t kHalfSlab = kSmallestSlab / 2;  ///< two fill the first slab

/// A driver that refuses what the real one refuses: an unknown handle, a part of an object, an
/// address that is not reserved.
struct FakeDriver {
  std::map<DriverHandle, size_t> objects;
  std::map<DeviceAddress, size_t> reserved;
  std::map<DeviceAddress, DriverHandle> mapped;
  int creates = 0, maps = 0, grants = 0;
  std::vector<Access> granted;  ///< by the last call
  std::vector<DeviceAddress> zeroed;
  DriverResult zero_result = driver_result::kSuccess;
  DriverResult create_result = driver_result::kSuccess;
  DriverResult access_result = driver_result::kSuccess;
  DriverHandle next_handle = 0x7f0000001000;
  DeviceAddress next_address = 0x300000000;
};
inline FakeDriver g_fake;

inline void add_contexts_and_streams(Driver& driver) {
  driver.cuDevicePrimaryCtxGetState = [](int, unsigned*, int* active) { return *active = 1, 0; };
  driver.cuDevicePrimaryCtxRetain = [](DriverContext* context, int) {
    return *context = nullptr, driver_result::kSuccess;
  };
  driver.cuCtxGetId = [](DriverContext, unsigned long long* id) { return *id = 1, 0; };
  driver.cuCtxSetCurrent = [](DriverContext) { return driver_result::kSuccess; };
  driver.cuThreadExchangeStreamCaptureMode = [](int*) { return driver_result::kSuccess; };
  driver.cuStreamCreate = [](DriverStream*, unsigned) { return driver_result::kSuccess; };
  driver.cuStreamDestroy_v2 = [](DriverStream) { return driver_result::kSuccess; };
  driver.cuStreamSynchronize = [](DriverStream) { return driver_result::kSuccess; };
  driver.cuMemsetD8Async = [](DeviceAddress address, unsigned char value, size_t, DriverStream) {
    EXPECT_EQ(value, 0);
    g_fake.zeroed.push_back(address);
    return g_fake.zero_result;
  };
}

inline Driver fake_driver() {
  Driver driver{};
  add_contexts_and_streams(driver);
  driver.cuMemGetAllocationGranularity = [](size_t* bytes, const AllocationProperties*, int) {
    *bytes = kDriverUnit;
    return 0;
  };
  driver.cuMemCreate = [](DriverHandle* handle, size_t size_bytes, const AllocationProperties*,
                          unsigned long long) {
    if (g_fake.create_result != 0) return g_fake.create_result;
    if (size_bytes % kDriverUnit != 0) return driver_result::kInvalidValue;
    ++g_fake.creates;
    g_fake.objects[*handle = g_fake.next_handle++] = size_bytes;
    return 0;
  };
  driver.cuMemRelease = [](DriverHandle handle) {
    return g_fake.objects.erase(handle) == 1 ? 0 : driver_result::kInvalidValue;
  };
  driver.cuMemAddressReserve = [](DeviceAddress* address, size_t size_bytes, size_t, DeviceAddress,
                                  unsigned long long) {
    if (size_bytes % kDriverUnit != 0) return driver_result::kInvalidValue;
    *address = g_fake.next_address;
    g_fake.next_address += 1 << 30;
    g_fake.reserved[*address] = size_bytes;
    return 0;
  };
  driver.cuMemAddressFree = [](DeviceAddress address, size_t size_bytes) {
    const auto found = g_fake.reserved.find(address);
    if (found == g_fake.reserved.end() || found->second != size_bytes)
      return driver_result::kInvalidValue;
    g_fake.reserved.erase(found);
    return 0;
  };
  driver.cuMemMap = [](DeviceAddress address, size_t size_bytes, size_t, DriverHandle handle,
                       unsigned long long) {
    const auto reserved = g_fake.reserved.find(address);
    if (g_fake.objects[handle] != size_bytes || reserved == g_fake.reserved.end() ||
        reserved->second < size_bytes)
      return driver_result::kInvalidValue;
    ++g_fake.maps;
    g_fake.mapped[address] = handle;
    return 0;
  };
  driver.cuMemUnmap = [](DeviceAddress address, size_t) {
    return g_fake.mapped.erase(address) == 1 ? 0 : driver_result::kInvalidValue;
  };
  driver.cuMemSetAccess = [](DeviceAddress, size_t, const Access* access, size_t count) {
    if (g_fake.access_result != driver_result::kSuccess) return g_fake.access_result;
    g_fake.granted.assign(access, access + count);
    return ++g_fake.grants, driver_result::kSuccess;
  };
  driver.cuMemGetAddressRange_v2 = [](DeviceAddress*, size_t*, DeviceAddress) {
    return driver_result::kNotFound;
  };
  driver.cuMemGetAllocationPropertiesFromHandle = [](AllocationProperties*, DriverHandle) {
    return 0;
  };
  driver.cuGetErrorName = [](DriverResult, const char** name) { return *name = "busy", 0; };
  return driver;
}

/// NCCL at work on the driver above, its buffers in slabs.
class SlabCalls : public testing::Test {
 protected:
  explicit SlabCalls(const VirtualMemory::Settings& settings = {.slabs = true}) {
    g_fake = {};
    properties_.requested_handle_types = kHandleTypeFd;
    properties_.location = {kLocationDevice, 0};
    rebuild(settings);
  }

  void rebuild(const VirtualMemory::Settings& settings) {
    objects_.emplace(driver_, registry_, exchange_, peers_, settings);
    objects_->activate();
  }

  struct Buffer {
    DriverHandle handle = 0;
    DeviceAddress address = 0;
    size_t size_bytes = 0;
  };
  size_t ask_granularity(int option = kGranularityMinimum) {
    size_t unit = 0;
    EXPECT_EQ(hooked_cuMemGetAllocationGranularity(&unit, &properties_, option), 0);
    return unit;
  }
  DriverHandle create(size_t size_bytes) {
    DriverHandle handle = 0;
    EXPECT_EQ(hooked_cuMemCreate(&handle, size_bytes, &properties_, 0), 0);
    return handle;
  }
  DeviceAddress reserve(size_t size_bytes) {
    DeviceAddress address = 0;
    EXPECT_EQ(hooked_cuMemAddressReserve(&address, size_bytes, kSlotBytes, 0, 0), 0);
    return address;
  }
  DriverResult map(const Buffer& buffer) {
    return hooked_cuMemMap(buffer.address, buffer.size_bytes, 0, buffer.handle, 0);
  }
  /// ncclCuMemAlloc.
  Buffer allocate(size_t wanted_bytes) {
    const size_t unit = ask_granularity();
    Buffer buffer;
    buffer.size_bytes = (wanted_bytes + unit - 1) / unit * unit;
    buffer.handle = create(buffer.size_bytes);
    buffer.address = reserve(buffer.size_bytes);
    EXPECT_EQ(map(buffer), 0);
    const Access access{{kLocationDevice, 0}, 3};
    EXPECT_EQ(hooked_cuMemSetAccess(buffer.address, buffer.size_bytes, &access, 1), 0);
    return buffer;
  }
  /// ncclCuMemFree.
  void free(const Buffer& buffer) {
    size_t size_bytes = 0;
    EXPECT_EQ(hooked_cuMemGetAddressRange_v2(nullptr, &size_bytes, buffer.address), 0);
    EXPECT_EQ(size_bytes, buffer.size_bytes);
    EXPECT_EQ(hooked_cuMemUnmap(buffer.address, size_bytes), 0);
    EXPECT_EQ(hooked_cuMemRelease(buffer.handle), 0);
    EXPECT_EQ(hooked_cuMemAddressFree(buffer.address, size_bytes), 0);
  }
  /// A handle of memory in the slab of another process.
  DriverHandle import(size_t offset_bytes) {
    MutexLock lock(registry_.mutex);
    const Allocation& allocation =
        registry_.add_import({owner_, 1, 2, 3, kSmallestSlab, offset_bytes, kSlotBytes});
    Backing& slab = registry_.backing_of(allocation);
    if (!slab.is_here()) {
      EXPECT_EQ(driver_.cuMemCreate(&slab.handle, kSmallestSlab, &properties_, 0), 0);
      slab.state = BackingState::mapped;
    }
    t_call_sequence.mapping_expected = allocation.id;
    return handle_of(allocation.id);
  }
  Buffer import_and_map(size_t offset_bytes) {
    Buffer buffer{import(offset_bytes), 0, kSlotBytes};
    buffer.address = reserve(kSlotBytes);
    EXPECT_EQ(map(buffer), 0);
    return buffer;
  }
  void expect_nothing_left() {
    EXPECT_TRUE(g_fake.objects.empty());
    EXPECT_TRUE(g_fake.reserved.empty());
    EXPECT_TRUE(g_fake.mapped.empty());
    MutexLock lock(registry_.mutex);
    EXPECT_TRUE(registry_.backings().empty());
    EXPECT_TRUE(registry_.allocations().empty());
  }

  Driver driver_ = fake_driver();
  Registry registry_;
  NoExchange exchange_;
  const InstanceId owner_ = random_instance_id();
  PeerTable peers_;
  std::optional<NcclObjects> objects_;
  AllocationProperties properties_{};
};

}  // namespace amem
