// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/statistics.h"

#include <gtest/gtest.h>

#include <limits>

namespace amem {
namespace {

const std::string kNoCounters =
    "\"counters\": {\"pauses\": 0, \"resumes\": 0, \"failed_pauses\": 0, \"failed_resumes\": 0, "
    "\"copied_bytes\": 0, \"last_pause_seconds\": 0e-6, \"last_resume_seconds\": 0e-6, "
    "\"last_pause_bytes\": 0, \"last_resume_bytes\": 0, \"last_pause_time\": 0, "
    "\"last_resume_time\": 0, \"last_error_time\": 0, \"last_error\": \"\"}, ";

constexpr size_t kMiB = size_t{1} << 20;

AllocationProperties on_device(int device) {
  AllocationProperties properties{};
  properties.location = {kLocationDevice, device};
  return properties;
}

/// One of each: 18 MiB of our own on two devices, 10 MiB of others.
class StatisticsTest : public testing::Test {
 protected:
  StatisticsTest() {
    MutexLock lock(registry_.mutex);
    registry_.add_local(4 * kMiB, on_device(0), 1, 4 * kMiB, "nccl");
    Allocation& shared = registry_.add_local(6 * kMiB, on_device(0), 2, 6 * kMiB, "nccl");
    shared.nonce = 77;
    shared_ = shared.id;
    Allocation& own = registry_.add_local(5 * kMiB, on_device(1), 3, 5 * kMiB, "nccl");
    own.is_application_own = true;
    own.make_persistent("the application's own (ncclMemAlloc)");
    registry_.add_local(3 * kMiB, on_device(1), 4, 3 * kMiB, "weights")
        .make_persistent("registered with a NIC");
    add_import(5, 8 * kMiB, BackingState::mapped, 5);
    add_import(6, 2 * kMiB, BackingState::dropped, 0);
  }
  void add_import(AllocationId remote, size_t size_bytes, BackingState state, DriverHandle backing)
      AMEM_REQUIRES(registry_.mutex) {
    const Allocation& import =
        registry_.add_import({InstanceId{{1, 2}}, remote, 7, remote, 0, 0, size_bytes});
    registry_.backing_of(import).state = state;
    registry_.backing_of(import).handle = backing;
  }
  void release_shared(std::vector<Piece> kept = {{0, 6 * kMiB}}) {
    MutexLock lock(registry_.mutex);
    Allocation& shared = *registry_.find(shared_);
    Backing& backing = registry_.backing_of(shared);
    backing.state = BackingState::released;
    backing.handle = 0;
    backing.saved = saved_;
    backing.saved_pieces = std::move(kept);
  }
  std::vector<std::string> lines() { return format_statistics(take_statistics(registry_), 3, 42); }

  Registry registry_;
  AllocationId shared_ = 0;
  const HostBlock saved_ = std::make_shared<std::vector<HostExtent>>();
};

TEST_F(StatisticsTest, LinesOfAProcessThatRuns) {
  const std::string us = "AMEM groupID:3 pid:42 ";
  const std::vector<std::string> expected{
      us + "caller_1 allocBytes:7340032",
      us + "caller_3 allocBytes:6291456",
      us + "caller_5 allocBytes:5242880",
      us + "caller_7 allocBytes:10485760",
      us + "total allocBytes:29360128 (28 MiB)",
      us + "device:0 tag:nccl kind:keep objects:2 residentBytes:10485760 releasedBytes:0 "
           "savedOnHostBytes:0 savedOnDiskBytes:0",
      us + "device:1 tag:nccl kind:persistent objects:1 residentBytes:5242880 releasedBytes:0 "
           "savedOnHostBytes:0 savedOnDiskBytes:0",
      us + "device:1 tag:weights kind:persistent objects:1 residentBytes:3145728 releasedBytes:0 "
           "savedOnHostBytes:0 savedOnDiskBytes:0",
      us + "imported objects:2 mappedBytes:8388608 unmappedBytes:2097152",
      us + "driver objects:4 bytes:18874368 imported:2",
      us + "neverReleasedBytes:3145728 because:registered with a NIC",
      us + "neverReleasedBytes:5242880 because:the application's own (ncclMemAlloc)",
  };

  EXPECT_EQ(lines(), expected);
}

TEST_F(StatisticsTest, ReleasedMemoryCountsWithWhatTheHostKeepsOfIt) {
  release_shared();
  const std::string device = "AMEM groupID:3 pid:42 device:0 ";

  const std::vector<std::string> kept = lines();
  EXPECT_EQ(kept.at(5),
            device +
                "tag:nccl kind:keep objects:2 residentBytes:4194304 releasedBytes:6291456 "
                "savedOnHostBytes:6291456 savedOnDiskBytes:0");
}

// Zero pages are not kept, and what is kept of adjacent allocations in a slab may be one piece.
TEST_F(StatisticsTest, OnlyWhatIsKeptOfAnAllocationIsCounted) {
  {
    MutexLock lock(registry_.mutex);
    Backing& slab = registry_.add_slab(8 * kSlotBytes, on_device(2), 9);
    registry_.add_to_slab(slab, 0, 3 * kSlotBytes);
    registry_.add_to_slab(slab, 3 * kSlotBytes, 4 * kSlotBytes)
        .make_persistent("to tell it from the other");
    slab.state = BackingState::released;
    slab.handle = 0;
    slab.saved = saved_;
    slab.saved_pieces = {{0, 4096}, {2 * kSlotBytes, 2 * kSlotBytes}, {6 * kSlotBytes, 100}};
  }

  const Statistics statistics = take_statistics(registry_);

  EXPECT_EQ(statistics.own.at({"", 2, Kind::keep}).saved_bytes, 4096 + kSlotBytes);
  EXPECT_EQ(statistics.own.at({"", 2, Kind::persistent}).saved_bytes, kSlotBytes + 100);
}

// The driver knows no smaller unit than the slab, and the figures must not promise more.
TEST_F(StatisticsTest, WhatIsInASlabWithPersistentMemoryStaysToo) {
  {
    MutexLock lock(registry_.mutex);
    Backing& slab = registry_.add_slab(8 * kSlotBytes, on_device(2), 9);
    registry_.add_to_slab(slab, 0, 3 * kSlotBytes);
    registry_.add_to_slab(slab, 3 * kSlotBytes, 4 * kSlotBytes)
        .make_persistent("registered with a NIC");
  }

  const Statistics statistics = take_statistics(registry_);

  EXPECT_EQ(statistics.own.at({"", 2, Kind::keep}).fixed_bytes, 3 * kSlotBytes);
  EXPECT_EQ(statistics.own.at({"", 2, Kind::persistent}).fixed_bytes, 4 * kSlotBytes);
  EXPECT_EQ(statistics.own.at({"nccl", 0, Kind::keep}).fixed_bytes, 0u);
  EXPECT_EQ(statistics.persistent.at({Tag(), "in a slab with persistent memory"}), 3 * kSlotBytes);
}

TEST_F(StatisticsTest, MemoryThatIsBeingRegisteredStays) {
  {
    MutexLock lock(registry_.mutex);
    registry_.add_local(kSlotBytes, on_device(2), 9, kSlotBytes, "weights").registering = 1;
  }

  EXPECT_EQ(take_statistics(registry_).persistent.at({"weights", "being registered"}), kSlotBytes);
}

// The host's copy is kept until the contents are back; it is not the memory's place any more.
TEST_F(StatisticsTest, MemoryOnItsWayBackCountsAsResident) {
  release_shared();
  {
    MutexLock lock(registry_.mutex);
    Backing& backing = registry_.backing_of(*registry_.find(shared_));
    backing.state = BackingState::restoring;
    backing.handle = 2;
  }

  EXPECT_EQ(lines().at(5),
            "AMEM groupID:3 pid:42 device:0 tag:nccl kind:keep objects:2 residentBytes:10485760 "
            "releasedBytes:0 savedOnHostBytes:0 savedOnDiskBytes:0");
}

TEST_F(StatisticsTest, JsonHasTheSameSums) {
  release_shared();

  EXPECT_EQ(
      statistics_json(take_statistics(registry_),
                      {42,
                       3,
                       {{"nccl", "paused"}, {"weights", "active"}},
                       77,
                       [](int device) { return "GPU-" + std::to_string(device); },
                       "train",
                       {.held_bytes = 5, .borrowed_bytes = 3, .idle_bytes = 2}}),
      "{\"pid\": 42, \"group\": 3, \"group_name\": \"train\", \"state\": \"mixed\", "
      "\"objects\": 4, "
      "\"allocated_bytes\": 18874368, \"resident_bytes\": 12582912, "
      "\"released_bytes\": 6291456, \"saved_bytes\": 6291456, "
      "\"fixed_bytes\": 8388608, \"disk_bytes\": 0, \"imported_objects\": 2, "
      "\"imported_bytes\": 10485760, \"driver_objects\": 6, "
      "\"driver_bytes\": 18874368, \"context_bytes\": 77, \"host_used_bytes\": 5, "
      "\"host_borrowed_bytes\": 3, \"host_idle_bytes\": 2, " +
          kNoCounters +
          "\"tags\": {"
          "\"nccl\": {\"state\": \"paused\", \"allocated_bytes\": 15728640, "
          "\"resident_bytes\": 9437184, \"released_bytes\": 6291456, \"saved_bytes\": 6291456, "
          "\"fixed_bytes\": 5242880, \"disk_bytes\": 0}, "
          "\"weights\": {\"state\": \"active\", \"allocated_bytes\": 3145728, "
          "\"resident_bytes\": 3145728, \"released_bytes\": 0, \"saved_bytes\": 0, "
          "\"fixed_bytes\": 3145728, \"disk_bytes\": 0}}, \"memory\": ["
          "{\"gpu\": \"GPU-0\", \"tag\": \"nccl\", \"allocated_bytes\": 10485760, "
          "\"resident_bytes\": 4194304, \"released_bytes\": 6291456, "
          "\"saved_bytes\": 6291456, \"fixed_bytes\": 0, \"disk_bytes\": 0}, "
          "{\"gpu\": \"GPU-1\", \"tag\": \"nccl\", \"allocated_bytes\": 5242880, "
          "\"resident_bytes\": 5242880, \"released_bytes\": 0, \"saved_bytes\": 0, "
          "\"fixed_bytes\": 5242880, \"disk_bytes\": 0}, "
          "{\"gpu\": \"GPU-1\", \"tag\": \"weights\", \"allocated_bytes\": 3145728, "
          "\"resident_bytes\": 3145728, \"released_bytes\": 0, \"saved_bytes\": 0, "
          "\"fixed_bytes\": 3145728, \"disk_bytes\": 0}], \"persistent\": {\"registered with a "
          "NIC\": 3145728, "
          "\"the application's own (ncclMemAlloc)\": 5242880}, \"remote\": {}}");
}

TEST_F(StatisticsTest, JsonWithDetailsHasAllFieldsByDeviceAndKind) {
  release_shared();
  ProcessFacts facts{42, 0, {}, 0, [](int) { return std::string("GPU-0"); }};
  facts.host_capacity_bytes = 9;
  facts.counters.last_pause = {
      .total_ms = 1.5,
      .wait_ms = 2,
      .peers_ms = 3,
      .move = {.copy_ms = 4, .memory_ms = 5, .copied_bytes = 6, .unchanged_bytes = 7},
      .context_bytes = 8};
  facts.counters.last_resume = {
      .total_ms = 10, .peers_ms = 11, .move = {.copy_ms = 12, .memory_ms = 13, .copied_bytes = 14}};

  const std::string json = statistics_json(take_statistics(registry_), facts);

  EXPECT_TRUE(json.ends_with(
      ", \"own\": ["
      "{\"tag\": \"nccl\", \"device\": 0, \"kind\": \"keep\", \"objects\": 2, \"allocated_bytes\": "
      "10485760, "
      "\"resident_bytes\": 4194304, \"released_bytes\": 6291456, \"saved_bytes\": 6291456, "
      "\"fixed_bytes\": 0, "
      "\"disk_bytes\": 0}, "
      "{\"tag\": \"nccl\", \"device\": 1, \"kind\": \"persistent\", \"objects\": 1, "
      "\"allocated_bytes\": 5242880, "
      "\"resident_bytes\": 5242880, \"released_bytes\": 0, \"saved_bytes\": 0, \"fixed_bytes\": "
      "5242880, "
      "\"disk_bytes\": 0}, "
      "{\"tag\": \"weights\", \"device\": 1, \"kind\": \"persistent\", \"objects\": 1, "
      "\"allocated_bytes\": 3145728, "
      "\"resident_bytes\": 3145728, \"released_bytes\": 0, \"saved_bytes\": 0, \"fixed_bytes\": "
      "3145728, "
      "\"disk_bytes\": 0}], "
      "\"imports\": {\"objects\": 2, \"allocated_bytes\": 10485760, \"resident_bytes\": 8388608, "
      "\"released_bytes\": 2097152, \"saved_bytes\": 0, \"fixed_bytes\": 0, \"disk_bytes\": 0}, "
      "\"driver\": {\"own\": 4, \"own_bytes\": 18874368, \"imported\": 2}, "
      "\"times\": {\"host_capacity_bytes\": 9, \"pause_ms\": 1500000e-6, \"pause_wait_ms\": "
      "2000000e-6, "
      "\"pause_peers_ms\": 3000000e-6, \"pause_copy_ms\": 4000000e-6, \"pause_memory_ms\": "
      "5000000e-6, "
      "\"resume_ms\": 10000000e-6, \"resume_memory_ms\": 13000000e-6, \"resume_copy_ms\": "
      "12000000e-6, "
      "\"resume_peers_ms\": 11000000e-6, \"pause_copied_bytes\": 6, \"resume_copied_bytes\": 14, "
      "\"pause_context_bytes\": 8, \"pause_unchanged_bytes\": 7}}"))
      << json;
}

TEST(EmptyStatistics, SayZero) {
  Registry registry;
  const Statistics statistics = take_statistics(registry);

  EXPECT_EQ(format_statistics(statistics, -1, 42),
            std::vector<std::string>{"AMEM groupID:-1 pid:42 total allocBytes:0 (0 MiB)"});
  EXPECT_EQ(
      statistics_json(statistics, {42, -1, {{"nccl", "active"}}, 0, {}}),
      "{\"pid\": 42, \"group\": -1, \"group_name\": \"\", \"state\": \"active\", \"objects\": 0, "
      "\"allocated_bytes\": 0, \"resident_bytes\": 0, \"released_bytes\": 0, "
      "\"saved_bytes\": 0, \"fixed_bytes\": 0, \"disk_bytes\": 0, \"imported_objects\": 0, "
      "\"imported_bytes\": 0, \"driver_objects\": 0, \"driver_bytes\": 0, "
      "\"context_bytes\": 0, \"host_used_bytes\": 0, \"host_borrowed_bytes\": 0, "
      "\"host_idle_bytes\": 0, " +
          kNoCounters +
          "\"tags\": {\"nccl\": {\"state\": \"active\", "
          "\"allocated_bytes\": 0, \"resident_bytes\": 0, \"released_bytes\": 0, "
          "\"saved_bytes\": 0, \"fixed_bytes\": 0, \"disk_bytes\": 0}}, \"memory\": [], "
          "\"persistent\": {}, \"remote\": {}}");
}

// A cut text would be no JSON.
TEST(LargestStatistics, AreNotCut) {
  constexpr size_t kMax = std::numeric_limits<size_t>::max();
  Statistics statistics;
  const Tag longest(kMaxTagBytes, 'x');
  statistics.own[{longest, 0, Kind::keep}] = {kMax, kMax, kMax, kMax, kMax, kMax, kMax};
  statistics.imports = {kMax, kMax, kMax, kMax, kMax, kMax, kMax};
  statistics.driver_objects = {kMax, kMax, 0};

  ProcessFacts facts{std::numeric_limits<int>::min(),
                     std::numeric_limits<long>::min(),
                     {{longest, "resuming"}},
                     kMax,
                     [](int) { return std::string(40, 'x'); }};
  facts.host_capacity_bytes = kMax;
  const MoveReport move{1e18, 1e18, kMax, kMax};
  facts.counters.last_pause = facts.counters.last_resume = {1e18, 1e18, 1e18, move, kMax};

  const std::string json = statistics_json(statistics, facts);

  EXPECT_NE(
      json.find(
          "\"disk_bytes\": 18446744073709551615}], \"persistent\": {}, \"remote\": {}, \"own\": "),
      std::string::npos)
      << json;
  EXPECT_TRUE(json.ends_with("\"pause_unchanged_bytes\": 18446744073709551615}}")) << json;
  EXPECT_NE(json.find("\"context_bytes\": 18446744073709551615, "), std::string::npos) << json;
}

TEST(TagsJson, SayForWhomCallsWait) {
  ProcessFacts facts{42, 0, {{"nccl", "active"}, {"weights", "active"}}, 0, {}};
  facts.awaited["nccl"] = "process 43 is paused";
  const std::string json = statistics_json({}, facts);
  EXPECT_NE(json.find("\"disk_bytes\": 0, \"waits_for\": \"process 43 is paused\"}, \"weights\""),
            std::string::npos)
      << json;
}

TEST(CountersJson, LastErrorIsAText) {
  ProcessFacts facts{42, 0, {}, 0, {}};
  facts.counters.last_error = "cuMemCreate(\"x\\y\")\n\xE2\x80\xA6" + std::string(2000, 'a');
  const std::string json = statistics_json({}, facts);
  EXPECT_NE(json.find("\"last_error\": \"cuMemCreate( x y )    aaa"), std::string::npos) << json;
  EXPECT_LT(json.size(), 1300u);
}

}  // namespace
}  // namespace amem
