// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "memory/registry.h"

#include <gtest/gtest.h>

namespace amem {
namespace {

class RegistryTest : public testing::Test {
 protected:
  Registry registry_;
};

TEST_F(RegistryTest, HandleFindsItsAllocationAndForeignOnesFindNothing) {
  MutexLock lock(registry_.mutex);
  Allocation& made = registry_.add_local(2 << 20, {}, 0x1234, 2 << 20);

  EXPECT_EQ(registry_.find_handle(handle_of(made.id)), &made);
  EXPECT_EQ(registry_.find_handle(0x1234), nullptr);
  EXPECT_EQ(registry_.find_handle(handle_of(99)), nullptr);
  EXPECT_TRUE(is_our_handle(handle_of(made.id)));
  EXPECT_FALSE(is_our_handle(0x00007f0000001000));
}

TEST_F(RegistryTest, MappingIsFoundByInteriorAddressOnly) {
  MutexLock lock(registry_.mutex);
  Allocation& made = registry_.add_local(0x1000, {}, 1, 0x1000);
  registry_.add_mapping(made, 0x10000, 0x1000);

  EXPECT_EQ(registry_.mapping_at(0x0ffff), nullptr);
  ASSERT_NE(registry_.mapping_at(0x10000), nullptr);
  EXPECT_EQ(registry_.mapping_at(0x10fff)->allocation, made.id);
  EXPECT_EQ(registry_.mapping_at(0x11000), nullptr);
}

TEST_F(RegistryTest, RangeFindsEveryOverlappingMappingInOrder) {
  MutexLock lock(registry_.mutex);
  Allocation& made = registry_.add_local(0x1000, {}, 1, 0x1000);
  for (DeviceAddress at : {0x30000, 0x10000, 0x20000}) registry_.add_mapping(made, at, 0x1000);

  const auto found = registry_.mappings_in(0x10800, 0x1f801);

  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0]->address, 0x10000u);
  EXPECT_EQ(found[2]->address, 0x30000u);
  EXPECT_EQ(registry_.mappings_in(0x11000, 0xf000).size(), 0u);
}

TEST_F(RegistryTest, SecondImportOfTheSameMemoryIsTheSameAllocation) {
  MutexLock lock(registry_.mutex);
  const RemoteAllocation origin{random_instance_id(), 5, 77, 8};

  Allocation& first = registry_.add_import(origin);
  Allocation& second = registry_.add_import(origin);

  EXPECT_EQ(&first, &second);
  EXPECT_EQ(first.handle_references, 2);
  EXPECT_EQ(registry_.find_import(origin.owner, 8), &registry_.backing_of(first));
  EXPECT_EQ(registry_.find_import(random_instance_id(), 8), nullptr);
}

TEST_F(RegistryTest, AllocationLivesUntilHandleAndMappingsAreGone) {
  MutexLock lock(registry_.mutex);
  Allocation& made = registry_.add_local(0x1000, {}, 1, 0x1000);
  Mapping& mapping = registry_.add_mapping(made, 0x10000, 0x1000);
  made.handle_references = 0;
  EXPECT_FALSE(registry_.is_unused(made));

  registry_.remove_mapping(mapping);
  EXPECT_TRUE(registry_.is_unused(made));

  const AllocationId id = made.id;
  registry_.erase(id);
  EXPECT_EQ(registry_.find(id), nullptr);
}

TEST_F(RegistryTest, WaitCopiedGivesUpAtItsDeadline) {
  MutexLock lock(registry_.mutex);
  Allocation& made = registry_.add_local(0x1000, {}, 1, 0x1000);
  EXPECT_TRUE(registry_.wait_copied(made.id, Deadline::after_ms(0)));

  registry_.backing_of(made).copying = true;
  EXPECT_FALSE(registry_.wait_copied(made.id, Deadline::after_ms(1)));
}

TEST_F(RegistryTest, ImportsOfOneSlabShareItsImport) {
  MutexLock lock(registry_.mutex);
  RemoteAllocation origin{random_instance_id(), 5, 77, 8, 4 << 20, 0, kSlotBytes};
  Allocation& first = registry_.add_import(origin);
  origin.allocation = 6;
  origin.offset_bytes = kSlotBytes;
  Allocation& second = registry_.add_import(origin);

  EXPECT_NE(first.id, second.id);
  EXPECT_EQ(first.backing, second.backing);
  EXPECT_TRUE(registry_.backing_of(first).is_slab);
  EXPECT_EQ(registry_.backing_of(first).size_bytes, size_t{4} << 20);
}

TEST_F(RegistryTest, PlaceInASlabIsInUseUntilItsLastImporterIsGone) {
  MutexLock lock(registry_.mutex);
  Backing& slab = registry_.add_slab(4 << 20, {}, 1);
  Allocation& made = registry_.add_to_slab(slab, 0, kSlotBytes);
  const InstanceId importer = random_instance_id();
  made.importers.insert(importer);
  made.handle_references = 0;
  EXPECT_FALSE(registry_.is_unused(made));

  made.importers.clear();
  EXPECT_TRUE(registry_.is_unused(made));
}

TEST_F(RegistryTest, SlabIsFoundByEveryAddressOfItsPlacements) {
  MutexLock lock(registry_.mutex);
  Backing& slab = registry_.add_slab(0x200000, {}, 1);
  registry_.add_placement(slab, 0x10000000, 0x200000);
  registry_.add_placement(slab, 0x20000000, 0x200000);

  EXPECT_EQ(registry_.slab_at(0x0fffffff), nullptr);
  EXPECT_EQ(registry_.slab_at(0x10000000), &slab);
  EXPECT_EQ(registry_.slab_at(0x201fffff), &slab);
  EXPECT_EQ(registry_.slab_at(0x20200000), nullptr);
  registry_.remove_placement(slab, 0x10000000);
  EXPECT_EQ(registry_.slab_at(0x10000000), nullptr);
}

TEST_F(RegistryTest, ReservationsAreCountedAddressByAddress) {
  MutexLock lock(registry_.mutex);
  Backing& slab = registry_.add_slab(0x200000, {}, 1);
  registry_.add_placement(slab, 0x10000000, 0x200000);
  const DeviceAddress first = 0x10000000, second = first + kSlotBytes;
  for (const DeviceAddress address : {first, first, second}) registry_.add_reservation(address);
  EXPECT_EQ(registry_.reservations_of(first), 2);
  EXPECT_EQ(registry_.reservations_of(second), 1);
  EXPECT_EQ(registry_.reservations_of(second + kSlotBytes), 0);
  EXPECT_EQ(registry_.reservations_of(0x20000000), 0) << "no address of a slab";

  EXPECT_TRUE(registry_.erase_backing(slab.id).empty());

  AddressRange unused;
  for (const DeviceAddress address : {second, second, second + kSlotBytes, first}) {
    EXPECT_TRUE(registry_.remove_reservation(address, &unused));
    EXPECT_EQ(unused.size_bytes, 0u) << "NCCL has the first address still";
  }
  EXPECT_TRUE(registry_.remove_reservation(first, &unused));
  EXPECT_EQ(unused.address, first);
  EXPECT_EQ(unused.size_bytes, 0x200000u);
  EXPECT_FALSE(registry_.remove_reservation(first, &unused));
}

TEST(Grant, LastFlagsForALocationWin) {
  std::vector<Access> list;
  grant(list, {{kLocationDevice, 0}, 3}, false);
  grant(list, {{kLocationDevice, 1}, 1}, false);
  grant(list, {{kLocationDevice, 0}, 1}, false);

  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].flags, 1);
}

TEST(Grant, ThatWidensTakesNothingAway) {
  std::vector<Access> list;
  EXPECT_TRUE(grant(list, {{kLocationDevice, 0}, 1}, true));
  EXPECT_TRUE(grant(list, {{kLocationDevice, 0}, 3}, true));
  EXPECT_FALSE(grant(list, {{kLocationDevice, 0}, 1}, true));

  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].flags, 3);
}

}  // namespace
}  // namespace amem
