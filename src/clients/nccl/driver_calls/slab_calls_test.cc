// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// NCCL's buffers in slabs, call by call as NCCL makes them, on a driver that only counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>

#include "clients/nccl/driver_calls/entry_points.h"
#include "clients/nccl/driver_calls/testdata/slab_fixture.h"
#include "memory/slabs.h"

namespace amem {
namespace {

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

// What is freed is gone and the others are there as before, whoever of them goes first; and a
// handle may be released before its mapping goes, or after its address is free.
TEST_F(SlabCalls, BuffersAreFreedInEveryOrder) {
  enum Call { kUnmap, kRelease, kFreeAddress };
  constexpr Call kLegal[][3] = {{kUnmap, kRelease, kFreeAddress},
                                {kUnmap, kFreeAddress, kRelease},
                                {kRelease, kUnmap, kFreeAddress}};
  constexpr size_t kSizes[] = {1000, kMiB, 3 * kSlotBytes, 5 * kSlotBytes};
  for (const auto& calls : kLegal) {
    std::array<size_t, std::size(kSizes)> order = {0, 1, 2, 3};
    do {
      SCOPED_TRACE(testing::PrintToString(order) + testing::PrintToString(calls));
      std::vector<Buffer> buffers;
      for (const size_t size_bytes : kSizes) buffers.push_back(allocate(size_bytes));
      ASSERT_EQ(g_fake.objects.size(), 1u) << "all of them are in one slab";
      ASSERT_EQ(g_fake.objects.begin()->second, kSmallestSlab);
      std::set<size_t> left(order.begin(), order.end());
      for (const size_t one : order) {
        const Buffer& gone = buffers[one];
        for (const Call call : calls)
          EXPECT_EQ(call == kUnmap     ? hooked_cuMemUnmap(gone.address, gone.size_bytes)
                    : call == kRelease ? hooked_cuMemRelease(gone.handle)
                                       : hooked_cuMemAddressFree(gone.address, gone.size_bytes),
                    driver_result::kSuccess);
        left.erase(one);
        for (size_t i = 0; i < buffers.size(); ++i) {
          DeviceAddress base = 0;
          size_t size_bytes = 0;
          const DeviceAddress last = buffers[i].address + buffers[i].size_bytes - 1;
          const DriverResult found = hooked_cuMemGetAddressRange_v2(&base, &size_bytes, last);
          if (!left.contains(i)) {
            EXPECT_EQ(found, driver_result::kNotFound);
            continue;
          }
          EXPECT_EQ(found, driver_result::kSuccess);
          EXPECT_EQ(base, buffers[i].address);
          EXPECT_EQ(size_bytes, buffers[i].size_bytes);
        }
      }
      expect_nothing_left();
      if (HasFailure()) return;
    } while (std::next_permutation(order.begin(), order.end()));
  }
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

  t_in_mem_alloc = true;
  EXPECT_EQ(ask_granularity(), kDriverUnit);
  t_in_mem_alloc = false;
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
  rebuild({.slabs = false});
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
  const Buffer other = allocate(1000);
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
  free(other);
  expect_nothing_left();
}

TEST_F(SlabCalls, UsedPlaceIsZeroedBeforeItIsGivenOutAgain) {
  const Buffer first = allocate(kHalfSlab), second = allocate(kHalfSlab);
  free(first);
  EXPECT_TRUE(g_fake.zeroed.empty());
  const Buffer again = allocate(kHalfSlab);
  EXPECT_EQ(again.address, first.address);
  EXPECT_EQ(g_fake.zeroed, std::vector{first.address});

  free(again);
  g_fake.zero_result = driver_result::kNotReady;
  const Buffer own = allocate(kHalfSlab);
  EXPECT_EQ(g_fake.mapped.count(own.address), 1u) << "what cannot be zeroed is not given out";
  free(own);
  free(second);
  expect_nothing_left();
}

TEST_F(SlabCalls, PlaceOfAnExportedBufferWaitsForItsImporters) {
  const Buffer shared = allocate(kHalfSlab), other = allocate(kHalfSlab);
  const InstanceId importer = random_instance_id();
  {
    MutexLock lock(registry_.mutex);
    registry_.find_handle(shared.handle)->importers.insert(importer);
  }
  free(shared);
  const Buffer next = allocate(kHalfSlab);
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

TEST_F(SlabCalls, LaterBuffersOfARegisteredSizeKeepNoSlabOnTheGpu) {
  constexpr size_t kOfNetwork = 9 * kMiB + 3 * kSlotBytes;
  const Buffer first = allocate(kOfNetwork), small = allocate(kSlotBytes);
  for (const Buffer& buffer : {first, small})
    RegisteredRange(&objects_->memory, buffer.address, kSlotBytes).keep("registered with a NIC");

  const Buffer second = allocate(kOfNetwork);

  EXPECT_EQ(g_fake.objects.at(g_fake.mapped.at(second.address)), 10 * kMiB);
  for (const size_t size_bytes : {kSlotBytes, 2 * kMiB, 9 * kMiB}) {
    const int creates = g_fake.creates;
    for (int i = 0; i < 8; ++i) allocate(size_bytes);
    EXPECT_LT(g_fake.creates, creates + 8) << "buffers of other sizes are in slabs";
  }
}

// Linear searches would make it a hundred times as long.
TEST_F(SlabCalls, OneOfAHundredThousandBuffersTakesAsLongAsOneOfAThousand) {
  const auto microseconds_each = [this](int count) {
    std::vector<Buffer> buffers;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) buffers.push_back(allocate(kSlotBytes));
    for (const Buffer& buffer : buffers) free(buffer);
    const std::chrono::duration<double, std::micro> passed =
        std::chrono::steady_clock::now() - begin;
    expect_nothing_left();
    return passed.count() / count;
  };
  const double few = microseconds_each(1000);
  EXPECT_LT(microseconds_each(100000), 10 * few);
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
