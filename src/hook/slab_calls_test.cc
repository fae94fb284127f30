// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// NCCL's buffers in slabs, call by call as NCCL makes them, on a driver that only counts.
#include "hook/slab_calls.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "hook/entry_points.h"
#include "registry/slab.h"

namespace amem {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kDriverUnit = 2 * kMiB;

/// A driver that refuses what the real one refuses: an unknown handle, a part of an object, an
/// address that is not reserved.
struct FakeDriver {
  std::map<DriverHandle, size_t> objects;
  std::map<DeviceAddress, size_t> reserved;
  std::map<DeviceAddress, DriverHandle> mapped;
  int creates = 0, maps = 0, grants = 0;
  std::vector<Access> granted;  ///< by the last call
  DriverResult create_result = driver_result::kSuccess;
  DriverResult access_result = driver_result::kSuccess;
  DriverHandle next_handle = 0x7f0000001000;
  DeviceAddress next_address = 0x300000000;
} g_fake;

class NoNeighbours final : public Exchange {
 public:
  Result<int> make_token(Allocation& allocation) override {
    allocation.nonce = 1;
    return 77;
  }
  bool import_token(int, DriverHandle*, DriverResult*) override { return false; }
  void forget(const Allocation&) override {}
};

Driver fake_driver() {
  Driver driver{};
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
    if (g_fake.objects[handle] != size_bytes || g_fake.reserved[address] < size_bytes)
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
  return driver;
}

class SlabCalls : public testing::Test {
 protected:
  SlabCalls() {
    g_fake = {};
    properties_.requested_handle_types = kHandleTypeFd;
    properties_.location = {kLocationDevice, 0};
    context_.driver = &driver_;
    context_.registry = &registry_;
    context_.exchange = &exchange_;
    context_.slabs = true;
    context_.zero = [this](int, DeviceAddress address, size_t) {
      zeroed_.push_back(address);
      return zero_works_ ? ok_status() : Status(make_error(ErrorKind::timeout, 0, "busy"));
    };
    install_hooks(&context_);
  }
  ~SlabCalls() override { install_hooks(nullptr); }

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
  NoNeighbours exchange_;
  HookContext context_;
  AllocationProperties properties_{};
  std::vector<DeviceAddress> zeroed_;
  bool zero_works_ = true;
};

TEST_F(SlabCalls, ManyBuffersAreOneObjectAtAddressesOfTheirOwn) {
  std::set<DeviceAddress> addresses;
  std::vector<Buffer> buffers;
  for (int i = 0; i < 32; ++i) {
    buffers.push_back(allocate(1000));
    EXPECT_EQ(buffers.back().size_bytes, kSlotBytes);
    addresses.insert(buffers.back().address);
  }
  EXPECT_EQ(addresses.size(), 32u);
  EXPECT_EQ(g_fake.creates, 1);
  EXPECT_EQ(g_fake.maps, 1);
  EXPECT_EQ(g_fake.grants, 1);

  for (const Buffer& buffer : buffers) free(buffer);
  expect_nothing_left();
}

TEST_F(SlabCalls, SlabsGrowWithUseAndLeaveLittleUnused) {
  size_t used_bytes = 0, had_bytes = 0;
  for (int i = 0; i < 2000; ++i) {
    used_bytes += allocate(i % 4 == 0 ? 9 * kMiB : 1000).size_bytes;
    size_t have_bytes = 0;
    for (const auto& [handle, size_bytes] : g_fake.objects) have_bytes += size_bytes;
    EXPECT_LE(have_bytes, used_bytes + used_bytes / 2 + 24 * kMiB) << i;
    had_bytes = have_bytes;
  }
  EXPECT_LE(g_fake.creates, 40) << had_bytes;
}

TEST_F(SlabCalls, WhoeverAsksForTheRecommendedUnitGetsTheDriversOwn) {
  EXPECT_EQ(ask_granularity(1), kDriverUnit);
  Buffer buffer{create(kDriverUnit), reserve(kDriverUnit), kDriverUnit};
  EXPECT_EQ(map(buffer), 0);
  EXPECT_EQ(g_fake.mapped.count(buffer.address), 1u);

  const UserAllocationScope users_own;
  EXPECT_EQ(ask_granularity(), kDriverUnit);
}

// The question was for an import, or for a second mapping; what is made later asked nothing.
TEST_F(SlabCalls, QuestionIsForOneThingOnly) {
  ask_granularity();
  DriverHandle imported = 0;
  driver_.cuMemImportFromShareableHandle = [](DriverHandle* handle, void*, int) {
    return *handle = 5, 0;
  };
  EXPECT_EQ(hooked_cuMemImportFromShareableHandle(&imported, nullptr, kHandleTypeFd), 0);
  Buffer buffer{create(kDriverUnit), reserve(kDriverUnit), kDriverUnit};
  EXPECT_EQ(map(buffer), 0);
  EXPECT_EQ(g_fake.mapped.count(buffer.address), 1u);

  ask_granularity();
  reserve(kDriverUnit);
  buffer = {create(kDriverUnit), reserve(kDriverUnit), kDriverUnit};
  EXPECT_EQ(map(buffer), 0);
  EXPECT_EQ(g_fake.mapped.count(buffer.address), 1u);
}

TEST_F(SlabCalls, WithoutSlabsNothingIsDifferent) {
  context_.slabs = false;
  EXPECT_EQ(ask_granularity(), kDriverUnit);
  const Buffer buffer = allocate(1000);
  EXPECT_EQ(g_fake.mapped.count(buffer.address), 1u);
  free(buffer);
  expect_nothing_left();
}

// A surprise: the buffer goes to another address than the one that was offered.
TEST_F(SlabCalls, MapElsewhereGetsABackingOfItsOwn) {
  const Buffer other = allocate(1000);
  ask_granularity();
  Buffer buffer{create(kSlotBytes), 0, kSlotBytes};
  const DeviceAddress offered = reserve(kSlotBytes);
  buffer.address = reserve(kSlotBytes);
  EXPECT_EQ(map(buffer), 0);
  EXPECT_EQ(hooked_cuMemAddressFree(offered, kSlotBytes), 0);
  EXPECT_EQ(g_fake.mapped.count(buffer.address), 1u);
  EXPECT_EQ(g_fake.objects.at(g_fake.mapped[buffer.address]), kDriverUnit);

  free(buffer);
  free(other);
  expect_nothing_left();
}

TEST_F(SlabCalls, MapElsewhereIsRefusedOnceItsContentsMayMatter) {
  Buffer buffer = allocate(1000);
  EXPECT_EQ(hooked_cuMemUnmap(buffer.address, buffer.size_bytes), 0);
  buffer.address = reserve(kSlotBytes);
  EXPECT_EQ(map(buffer), driver_result::kNotSupported);
}

// A second device of the process maps the buffer of the first (p2p.cc:345@v2.30.7-1): properties,
// granularity, reserve, map.
TEST_F(SlabCalls, SecondMappingIsAnotherPlacementOfTheSlab) {
  const Buffer buffer = allocate(1000);
  const Buffer neighbour = allocate(1000);
  Buffer alias = buffer;
  AllocationProperties properties{};
  EXPECT_EQ(hooked_cuMemGetAllocationPropertiesFromHandle(&properties, buffer.handle), 0);
  ask_granularity();
  alias.address = reserve(kSlotBytes);
  EXPECT_NE(alias.address, buffer.address);
  EXPECT_EQ(map(alias), 0);
  EXPECT_EQ(g_fake.creates, 1);
  EXPECT_EQ(g_fake.maps, 2);

  EXPECT_EQ(hooked_cuMemUnmap(alias.address, alias.size_bytes), 0);
  EXPECT_EQ(hooked_cuMemAddressFree(alias.address, alias.size_bytes), 0);
  free(buffer);
  free(neighbour);
  expect_nothing_left();
}

TEST_F(SlabCalls, UsedPlaceIsZeroedBeforeItIsGivenOutAgain) {
  const Buffer first = allocate(kMiB), second = allocate(kMiB);
  free(first);
  EXPECT_TRUE(zeroed_.empty());
  const Buffer again = allocate(kMiB);
  EXPECT_EQ(again.address, first.address);
  EXPECT_EQ(zeroed_, std::vector{first.address});

  free(again);
  zero_works_ = false;
  const Buffer own = allocate(kMiB);
  EXPECT_EQ(g_fake.mapped.count(own.address), 1u) << "what cannot be zeroed is not given out";
  free(own);
  free(second);
  expect_nothing_left();
}

TEST_F(SlabCalls, PlaceOfAnExportedBufferWaitsForItsImporters) {
  const Buffer shared = allocate(kMiB), other = allocate(kMiB);
  const InstanceId importer = random_instance_id();
  {
    MutexLock lock(registry_.mutex);
    registry_.find_handle(shared.handle)->importers.insert(importer);
  }
  free(shared);
  const Buffer next = allocate(kMiB);
  EXPECT_NE(next.address, shared.address);
  free(next);
  free(other);
  MutexLock lock(registry_.mutex);
  EXPECT_EQ(registry_.allocations().size(), 1u);
}

TEST_F(SlabCalls, NoRoomForASlabIsNoRoomForABuffer) {
  ask_granularity();
  g_fake.create_result = driver_result::kOutOfMemory;
  DriverHandle handle = 0;
  EXPECT_EQ(hooked_cuMemCreate(&handle, kSlotBytes, &properties_, 0), driver_result::kOutOfMemory);
  expect_nothing_left();
}

TEST_F(SlabCalls, AddressesInASlabBelongToWhatIsMappedThere) {
  const Buffer buffer = allocate(1000);
  DeviceAddress base = 0;
  EXPECT_EQ(hooked_cuMemGetAddressRange_v2(&base, nullptr, buffer.address + 5), 0);
  EXPECT_EQ(base, buffer.address);
  EXPECT_EQ(hooked_cuMemGetAddressRange_v2(&base, nullptr, buffer.address + kSlotBytes),
            driver_result::kNotFound);
  EXPECT_EQ(hooked_cuMemUnmap(buffer.address + kSlotBytes, kSlotBytes),
            driver_result::kInvalidValue);
  DriverHandle retained = 0;
  EXPECT_EQ(
      hooked_cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(buffer.address + 4097)),
      0);
  EXPECT_EQ(retained, buffer.handle);
  EXPECT_EQ(hooked_cuMemRetainAllocationHandle(
                &retained, reinterpret_cast<void*>(buffer.address + kSlotBytes)),
            driver_result::kInvalidValue);
}

// The driver knows no smaller unit: access to one buffer is access to its slab, once for each
// device. What is refused, for lack of peer access say, is not asked for again with the next one.
TEST_F(SlabCalls, AccessOfAnotherDeviceToOneBufferIsGrantedForTheSlab) {
  const Access other_device{{kLocationDevice, 1}, 3};
  const Buffer first = allocate(kSlotBytes);
  g_fake.access_result = driver_result::kInvalidValue;
  EXPECT_NE(hooked_cuMemSetAccess(first.address, first.size_bytes, &other_device, 1), 0);
  g_fake.access_result = driver_result::kSuccess;
  const int grants = g_fake.grants;
  const Buffer second = allocate(kSlotBytes);
  EXPECT_EQ(g_fake.grants, grants);
  for (const Buffer& buffer : {first, second, first})
    EXPECT_EQ(hooked_cuMemSetAccess(buffer.address, buffer.size_bytes, &other_device, 1), 0);
  EXPECT_EQ(g_fake.grants, grants + 1);
  EXPECT_EQ(g_fake.granted.size(), 2u) << "the first device has lost its access";
  for (const Buffer& buffer : {first, second}) free(buffer);
  expect_nothing_left();
}

// As of the driver: whole ones, holes between them, never a part (contract tests,
// AdjacentMappings).
TEST_F(SlabCalls, SeveralAreUnmappedByOneCall) {
  const Buffer first = allocate(kSlotBytes), hole = allocate(kSlotBytes),
               last = allocate(2 * kSlotBytes);
  ASSERT_EQ(hole.address, first.address + kSlotBytes);
  ASSERT_EQ(last.address, hole.address + kSlotBytes);
  free(hole);
  EXPECT_EQ(hooked_cuMemUnmap(first.address, 3 * kSlotBytes), driver_result::kInvalidValue);

  EXPECT_EQ(hooked_cuMemUnmap(first.address, 4 * kSlotBytes), 0);

  DeviceAddress base = 0;
  for (const Buffer& buffer : {first, last}) {
    EXPECT_EQ(hooked_cuMemGetAddressRange_v2(&base, nullptr, buffer.address),
              driver_result::kNotFound);
    EXPECT_EQ(hooked_cuMemAddressFree(buffer.address, buffer.size_bytes), 0);
  }
  for (const Buffer& buffer : {first, last}) EXPECT_EQ(hooked_cuMemRelease(buffer.handle), 0);
  expect_nothing_left();
}

}  // namespace
}  // namespace amem
