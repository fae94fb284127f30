// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "memory/slabs.h"

#include <gtest/gtest.h>

#include <string>

namespace amem {
namespace {

constexpr char kTag[] = "nccl";

AllocationProperties properties_of_slab() {
  AllocationProperties properties{};
  properties.type = kAllocationPinned;
  properties.requested_handle_types = kHandleTypeFd;
  properties.location = {kLocationDevice, 1};
  properties.gpu_direct_rdma_capable = 1;
  return properties;
}

TEST(FindSlot, IsInASlabWithTheSameTagAndProperties) {
  Registry registry;
  MutexLock lock(registry.mutex);
  const Backing& slab = registry.add_slab(kSmallestSlab, properties_of_slab(), 1, kTag);

  const auto found = find_slot(registry, kTag, kSlotBytes, properties_of_slab());

  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->slab, slab.id);
  EXPECT_FALSE(find_slot(registry, "weights", kSlotBytes, properties_of_slab()).has_value());
}

/// A property of the memory, set to another value than that of the slab.
struct Other {
  const char* name;
  void (*set)(AllocationProperties&);
};
class OtherMemory : public testing::TestWithParam<Other> {};

TEST_P(OtherMemory, IsNotInTheSlab) {
  Registry registry;
  MutexLock lock(registry.mutex);
  registry.add_slab(kSmallestSlab, properties_of_slab(), 1, kTag);
  AllocationProperties other = properties_of_slab();
  GetParam().set(other);

  EXPECT_FALSE(find_slot(registry, kTag, kSlotBytes, other).has_value());
}

INSTANTIATE_TEST_SUITE_P(
    Properties, OtherMemory,
    testing::Values(
        Other{"type", [](AllocationProperties& memory) { memory.type = 2; }},
        Other{"handle", [](AllocationProperties& memory) { memory.requested_handle_types = 8; }},
        Other{"location", [](AllocationProperties& memory) { memory.location.type = 2; }},
        Other{"device", [](AllocationProperties& memory) { memory.location.id = 0; }},
        Other{"compression", [](AllocationProperties& memory) { memory.compression_type = 1; }},
        Other{"rdma", [](AllocationProperties& memory) { memory.gpu_direct_rdma_capable = 0; }},
        Other{"usage", [](AllocationProperties& memory) { memory.usage = 1; }}),
    [](const auto& other) { return std::string(other.param.name); });

TEST(FindSlot, IsNotInASlabThatIsSavedReleasedOrImported) {
  Registry registry;
  MutexLock lock(registry.mutex);
  Backing& slab = registry.add_slab(kSmallestSlab, properties_of_slab(), 1, kTag);
  for (const BackingState state :
       {BackingState::saving, BackingState::released, BackingState::restoring}) {
    slab.state = state;
    EXPECT_FALSE(find_slot(registry, kTag, kSlotBytes, properties_of_slab()).has_value());
  }
  slab.state = BackingState::resident;
  slab.is_import = true;
  EXPECT_FALSE(find_slot(registry, kTag, kSlotBytes, properties_of_slab()).has_value());
}

}  // namespace
}  // namespace amem
