// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What becomes of memory when others stop using it, and how often it is exported.
#include "sharing/exports.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "memory/backing_steps.h"
#include "memory/slabs.h"
#include "tests/support/sharing_fixture.h"

namespace amem {
namespace {

constexpr DeviceAddress kAddress = 0x10000000;
constexpr size_t kSlabBytes = 2 * kSlotBytes;

struct {
  int exports, unmaps, releases;
  DriverResult export_result;
} g_calls;

class ExportsTest : public SharingTest {
 protected:
  ExportsTest() {
    g_calls = {};
    driver_.cuMemExportToShareableHandle = [](void* fd, DriverHandle, int, unsigned long long) {
      ++g_calls.exports;
      *static_cast<int*>(fd) = open("/dev/null", O_RDONLY | O_CLOEXEC);
      return g_calls.export_result;
    };
    driver_.cuMemUnmap = [](DeviceAddress, size_t) { return ++g_calls.unmaps, 0; };
    driver_.cuMemRelease = [](DriverHandle) { return ++g_calls.releases, 0; };
    driver_.cuMemAddressFree = [](DeviceAddress, size_t) { return 0; };
    MutexLock lock(registry_.mutex);
    Backing& slab = registry_.add_slab(kSlabBytes, {}, 1);
    registry_.add_placement(slab, kAddress, kSlabBytes).mapped = true;
    slab_ = slab.id;
    for (AllocationId* place : {&first_, &second_}) {
      Allocation& allocation = registry_.add_to_slab(slab, slab.used_end_bytes, kSlotBytes);
      ++allocation.handle_references;
      *place = allocation.id;
    }
  }

  /// A token of a peer of the allocation was read.
  void import(AllocationId id, const InstanceId& importer) {
    MutexLock lock(registry_.mutex);
    registry_.find(id)->importers.insert(importer);
  }
  /// NCCL is through with it.
  void free(AllocationId id) {
    MutexLock lock(registry_.mutex);
    Allocation& allocation = *registry_.find(id);
    allocation.handle_references = 0;
    if (registry_.is_unused(allocation)) erase_unused(driver_, registry_, allocation);
  }
  void drop(AllocationId id, const InstanceId& importer) {
    exports_.forget_imports(importer, Drop{{id}});
  }
  bool has(AllocationId id) {
    MutexLock lock(registry_.mutex);
    return registry_.find(id) != nullptr;
  }
  bool slab_is_there() {
    MutexLock lock(registry_.mutex);
    return registry_.find_backing(slab_) != nullptr;
  }
  /// Where the next allocation of that size would lie.
  size_t next_offset_bytes() {
    MutexLock lock(registry_.mutex);
    return find_slot(registry_, "", kSlotBytes, {}).value_or(SlabSlot{0, 99, false}).offset_bytes;
  }
  void copying(bool now) {
    MutexLock lock(registry_.mutex);
    registry_.find_backing(slab_)->copying = now;
  }

  Exports exports_{context_};
  const InstanceId a_ = random_instance_id(), b_ = random_instance_id();
  BackingId slab_ = 0;
  AllocationId first_ = 0, second_ = 0;
  const Tags tags_{""};  // of the slab
};

TEST_F(ExportsTest, PlaceIsGivenOutAgainWhenTheLastImporterHasDroppedIt) {
  import(second_, a_);
  import(second_, b_);
  free(second_);
  EXPECT_TRUE(has(second_)) << "a late write of an importer would hit its successor";
  EXPECT_EQ(next_offset_bytes(), 99u);

  drop(second_, a_);
  EXPECT_TRUE(has(second_));
  drop(second_, b_);

  EXPECT_FALSE(has(second_));
  EXPECT_EQ(next_offset_bytes(), kSlotBytes);
  EXPECT_TRUE(slab_is_there());
}

TEST_F(ExportsTest, PlaceOfAnImporterThatEndedIsGivenOutAgain) {
  import(second_, a_);
  free(second_);

  exports_.forget_importer(a_);

  EXPECT_FALSE(has(second_));
}

TEST_F(ExportsTest, ImporterMayDropBeforeNcclFrees) {
  import(second_, a_);
  drop(second_, a_);
  EXPECT_TRUE(has(second_));

  free(second_);

  EXPECT_FALSE(has(second_));
}

TEST_F(ExportsTest, SlabGoesWithItsLastPlace) {
  import(second_, a_);
  free(first_);
  free(second_);
  EXPECT_EQ(g_calls.releases, 0);

  drop(second_, a_);

  EXPECT_FALSE(slab_is_there());
  EXPECT_EQ(g_calls.unmaps, 1);
  EXPECT_EQ(g_calls.releases, 1);
}

// The last one drops it while a pause or a resume copies: the memory must not vanish under the
// copy.
TEST_F(ExportsTest, SlabThatIsBeingCopiedStaysUntilTheCopyHasEnded) {
  import(second_, a_);
  free(first_);
  free(second_);
  copying(true);

  drop(second_, a_);

  EXPECT_TRUE(slab_is_there());
  EXPECT_EQ(g_calls.unmaps, 0);
  EXPECT_EQ(g_calls.releases, 0);
}

TEST_F(ExportsTest, NothingIsReleasedOnceExitHasBegun) {
  import(second_, a_);
  free(first_);
  free(second_);
  exiting_.raise();

  drop(second_, a_);
  exports_.forget_importer(a_);

  EXPECT_EQ(g_calls.unmaps, 0);
  EXPECT_EQ(g_calls.releases, 0);
}

TEST_F(ExportsTest, WhatSomebodyImportsIsExportedAheadOfNeed) {
  std::vector<std::shared_ptr<const void>> exported{exports_.export_imported(tags_)};
  EXPECT_EQ(g_calls.exports, 0);
  import(second_, a_);

  for (int i = 0; i < 2; ++i) exported.push_back(exports_.export_imported(tags_));
  EXPECT_EQ(g_calls.exports, 1);

  exported.clear();
  exported.push_back(exports_.export_imported({"another"}));
  EXPECT_EQ(g_calls.exports, 1) << "a pause beside may release it";
  exported.push_back(exports_.export_imported(tags_));
  EXPECT_EQ(g_calls.exports, 2) << "of another resume: the memory is not the same";
}

TEST_F(ExportsTest, OneExportServesAllImporters) {
  Nobody nobody;
  start_service(nobody);
  Fetch fetch;
  {
    MutexLock lock(registry_.mutex);
    for (AllocationId id : {first_, second_})
      fetch.items.push_back({.allocation = id, .nonce = registry_.find(id)->nonce = 7});
  }
  const auto exported = exports_.export_imported(tags_);
  for (const InstanceId& importer : {a_, b_})
    exports_.answer_fetch({.instance = importer}, 1, fetch);
  const auto again = exports_.export_imported(tags_);

  EXPECT_EQ(g_calls.exports, 1);
  end_service();
}

TEST_F(ExportsTest, ExportThatFailedIsTriedAgain) {
  import(second_, a_);
  g_calls.export_result = driver_result::kUnknown;
  const auto exported = exports_.export_imported(tags_);
  g_calls.export_result = driver_result::kSuccess;

  const auto again = exports_.export_imported(tags_);

  EXPECT_EQ(g_calls.exports, 2);
}

}  // namespace
}  // namespace amem
