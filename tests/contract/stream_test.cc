// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Streams, events, copies and pinned memory.
#include <atomic>

#include "tests/contract/gate.h"
#include "tests/contract/gpu_test.h"

namespace amem::contract {
namespace {

class Streams : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    ASSERT_EQ(kSuccess, driver().cuStreamCreate(&stream_, kStreamNonBlocking));
    ASSERT_EQ(kSuccess, driver().cuStreamCreate(&other_, kStreamNonBlocking));
  }
  void TearDown() override {
    EXPECT_EQ(kSuccess, driver().cuStreamDestroy(stream_));
    EXPECT_EQ(kSuccess, driver().cuStreamDestroy(other_));
    GpuTest::TearDown();
  }

  CuStream stream_ = nullptr;
  CuStream other_ = nullptr;
};

struct Order {
  std::vector<int> seen;
  struct Entry {
    Order* order;
    int number;
  };
  static void note(void* data) {
    auto* entry = static_cast<Entry*>(data);
    entry->order->seen.push_back(entry->number);
  }
};

TEST_F(Streams, RunHostFunctionsInOrder) {
  constexpr int kCount = 100;
  Order order;
  std::vector<Order::Entry> entries;
  for (int i = 0; i < kCount; ++i) entries.push_back({&order, i});

  for (Order::Entry& entry : entries) {
    ASSERT_EQ(kSuccess, driver().cuLaunchHostFunc(stream_, &Order::note, &entry));
  }
  ASSERT_EQ(kSuccess, driver().cuStreamSynchronize(stream_));

  ASSERT_EQ(static_cast<size_t>(kCount), order.seen.size());
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(i, order.seen[static_cast<size_t>(i)]);
}

TEST_F(Streams, AreNotReadyWhileTheyWork) {
  Gate gate;
  ASSERT_EQ(kSuccess, driver().cuLaunchHostFunc(stream_, &Gate::hold, &gate));

  EXPECT_EQ(kErrorNotReady, driver().cuStreamQuery(stream_));
  EXPECT_EQ(kSuccess, driver().cuStreamQuery(other_)) << "streams work independently";
  gate.open();
  ASSERT_EQ(kSuccess, driver().cuStreamSynchronize(stream_));

  EXPECT_EQ(kSuccess, driver().cuStreamQuery(stream_));
}

TEST_F(Streams, WaitForEventsOfOthers) {
  Gate gate;
  CuEvent event = nullptr;
  std::atomic<int> value{0};
  ASSERT_EQ(kSuccess, driver().cuEventCreate(&event, kEventDisableTiming));
  ASSERT_EQ(kSuccess, driver().cuLaunchHostFunc(stream_, &Gate::hold, &gate));
  ASSERT_EQ(kSuccess, driver().cuEventRecord(event, stream_));
  ASSERT_EQ(kSuccess, driver().cuStreamWaitEvent(other_, event, 0));
  ASSERT_EQ(kSuccess,
            driver().cuLaunchHostFunc(
                other_, [](void* data) { *static_cast<std::atomic<int>*>(data) = 1; }, &value));

  EXPECT_TRUE(gate.wait_until_held());
  EXPECT_TRUE(stays_false([&] { return value == 1; }));
  EXPECT_EQ(kErrorNotReady, driver().cuStreamQuery(other_));
  EXPECT_EQ(kErrorNotReady, driver().cuEventQuery(event));
  gate.open();
  ASSERT_EQ(kSuccess, driver().cuStreamSynchronize(other_));

  EXPECT_EQ(1, value);
  EXPECT_EQ(kSuccess, driver().cuEventQuery(event));
  EXPECT_EQ(kSuccess, driver().cuEventDestroy(event));
}

TEST_F(Streams, EventsThatWereNeverRecordedAreDone) {
  CuEvent event = nullptr;
  ASSERT_EQ(kSuccess, driver().cuEventCreate(&event, 0));

  EXPECT_EQ(kSuccess, driver().cuEventQuery(event));
  EXPECT_EQ(kSuccess, driver().cuEventSynchronize(event));
  EXPECT_EQ(kSuccess, driver().cuStreamWaitEvent(stream_, event, 0));

  EXPECT_EQ(kSuccess, driver().cuEventDestroy(event));
}

TEST_F(Streams, EventsTellTheTimeBetweenThem) {
  CuEvent start = nullptr;
  CuEvent end = nullptr;
  ASSERT_EQ(kSuccess, driver().cuEventCreate(&start, 0));
  ASSERT_EQ(kSuccess, driver().cuEventCreate(&end, 0));
  ASSERT_EQ(kSuccess, driver().cuEventRecord(start, stream_));
  ASSERT_EQ(kSuccess, driver().cuEventRecord(end, stream_));
  ASSERT_EQ(kSuccess, driver().cuEventSynchronize(end));
  float milliseconds = -1;

  EXPECT_EQ(kSuccess, driver().cuEventElapsedTime(&milliseconds, start, end));

  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(kSuccess, driver().cuEventDestroy(start));
  EXPECT_EQ(kSuccess, driver().cuEventDestroy(end));
}

TEST_F(Streams, FinishTheirWorkAfterTheyWereDestroyed) {
  Gate gate;
  std::atomic<int> value{0};
  CuStream doomed = nullptr;
  ASSERT_EQ(kSuccess, driver().cuStreamCreate(&doomed, kStreamNonBlocking));
  ASSERT_EQ(kSuccess, driver().cuLaunchHostFunc(doomed, &Gate::hold, &gate));
  ASSERT_EQ(kSuccess,
            driver().cuLaunchHostFunc(
                doomed, [](void* data) { *static_cast<std::atomic<int>*>(data) = 1; }, &value));
  EXPECT_TRUE(gate.wait_until_held());

  EXPECT_EQ(kSuccess, driver().cuStreamDestroy(doomed));
  gate.open();

  EXPECT_TRUE(eventually([&] { return value == 1; }));
}

TEST_F(Streams, CopyAndFillInOrder) {
  const size_t size = 4 * kMb;
  const CuDevicePtr first = allocate(size);
  const CuDevicePtr second = allocate(size);
  void* pinned = nullptr;
  ASSERT_EQ(kSuccess, driver().cuMemHostAlloc(&pinned, size, 0));
  auto* bytes = static_cast<unsigned char*>(pinned);

  ASSERT_EQ(kSuccess, driver().cuMemsetD8Async(first, 0x5a, size, stream_));
  ASSERT_EQ(kSuccess, driver().cuMemsetD32Async(first, 0x01020304, 1, stream_));
  ASSERT_EQ(kSuccess, driver().cuMemcpyDtoDAsync(second, first, size, stream_));
  ASSERT_EQ(kSuccess, driver().cuMemcpyDtoHAsync(pinned, second, size, stream_));
  ASSERT_EQ(kSuccess, driver().cuStreamSynchronize(stream_));

  EXPECT_EQ(0x04, bytes[0]);
  EXPECT_EQ(0x01, bytes[3]);
  EXPECT_EQ(0x5a, bytes[4]);
  EXPECT_EQ(0x5a, bytes[size - 1]);
  bytes[0] = 0x77;
  ASSERT_EQ(kSuccess, driver().cuMemcpyHtoDAsync(first, pinned, size, stream_));
  ASSERT_EQ(kSuccess, driver().cuStreamSynchronize(stream_));
  unsigned char back = 0;
  ASSERT_EQ(kSuccess, driver().cuMemcpyDtoH(&back, first, 1));
  EXPECT_EQ(0x77, back);
  EXPECT_EQ(kSuccess, driver().cuMemFreeHost(pinned));
  free(first, size);
  free(second, size);
}

// Memory of device 1 that only device 0 can access.
TEST_F(Streams, CopyToTheHostWhereTheirDeviceHasAccess) {
  int count = 0, can = 0;
  ASSERT_EQ(kSuccess, driver().cuDeviceGetCount(&count));
  if (count < 2) GTEST_SKIP() << "there is one device only";
  ASSERT_EQ(kSuccess, driver().cuDeviceCanAccessPeer(&can, 0, 1));
  if (can == 0) GTEST_SKIP() << "device 0 cannot access device 1";
  CuContext second = nullptr;
  ASSERT_EQ(kSuccess, driver().cuDevicePrimaryCtxRetain(&second, 1));
  CuAllocationProp of_second = properties();
  of_second.location = {kLocationDevice, 1};
  const size_t size = granularity();
  CuMemHandle handle = 0;
  ASSERT_EQ(kSuccess, driver().cuMemCreate(&handle, size, &of_second, 0));
  const CuDevicePtr address = reserve(size);
  map(address, size, handle);
  void* pinned = nullptr;
  ASSERT_EQ(kSuccess, driver().cuMemHostAlloc(&pinned, size, 0));

  EXPECT_EQ(kSuccess, driver().cuMemcpyDtoHAsync(pinned, address, size, stream_));
  EXPECT_EQ(kSuccess, driver().cuStreamSynchronize(stream_));
  CuStream of_second_device = nullptr;
  ASSERT_EQ(kSuccess, driver().cuCtxPushCurrent(second));
  ASSERT_EQ(kSuccess, driver().cuStreamCreate(&of_second_device, kStreamNonBlocking));
  EXPECT_EQ(kErrorInvalidValue,
            driver().cuMemcpyDtoHAsync(pinned, address, size, of_second_device));
  EXPECT_EQ(kErrorInvalidValue,
            driver().cuMemcpyHtoDAsync(address, pinned, size, of_second_device));
  EXPECT_EQ(kSuccess, driver().cuStreamDestroy(of_second_device));
  CuContext popped = nullptr;
  EXPECT_EQ(kSuccess, driver().cuCtxPopCurrent(&popped));

  EXPECT_EQ(kSuccess, driver().cuMemFreeHost(pinned));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  free(address, size);
  EXPECT_EQ(kSuccess, driver().cuDevicePrimaryCtxRelease(1));
}

TEST_F(Streams, WriteAWordInOrder) {
  const CuDevicePtr address = allocate(granularity());
  ASSERT_EQ(kSuccess, driver().cuMemsetD8Async(address, 0x5a, 16, stream_));
  ASSERT_EQ(kSuccess, driver().cuStreamWriteValue32(stream_, address + 4, 0x01020304, 0));
  EXPECT_EQ(kErrorInvalidValue, driver().cuStreamWriteValue32(stream_, address + 2, 1, 0));
  ASSERT_EQ(kSuccess, driver().cuStreamSynchronize(stream_));

  uint32_t words[3] = {};
  ASSERT_EQ(kSuccess, driver().cuMemcpyDtoH(words, address, sizeof(words)));
  EXPECT_EQ(0x5a5a5a5au, words[0]);
  EXPECT_EQ(0x01020304u, words[1]);
  EXPECT_EQ(0x5a5a5a5au, words[2]);
  free(address, granularity());
}

TEST_F(Streams, TakePageableBytesBeforeTheCallReturns) {
  const CuDevicePtr address = allocate(granularity());
  Gate gate;
  ASSERT_EQ(kSuccess, driver().cuLaunchHostFunc(stream_, &Gate::hold, &gate));
  uint32_t word = 1;

  ASSERT_EQ(kSuccess, driver().cuMemcpyHtoDAsync(address, &word, sizeof(word), stream_));
  word = 2;
  gate.open();
  ASSERT_EQ(kSuccess, driver().cuStreamSynchronize(stream_));

  ASSERT_EQ(kSuccess, driver().cuMemcpyDtoH(&word, address, sizeof(word)));
  EXPECT_EQ(1u, word);
  free(address, granularity());
}

TEST_F(Streams, UseRegisteredMemoryLikePinned) {
  const size_t size = 2 * kMb;
  std::vector<char> storage(size + 4096);
  void* start = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(storage.data()) + 4095) &
                                        ~uintptr_t{4095});
  ASSERT_EQ(kSuccess, driver().cuMemHostRegister(start, size, 0));
  const CuDevicePtr address = allocate(size);
  CuDevicePtr device_view = 0;

  EXPECT_EQ(kErrorHostMemoryAlreadyRegistered, driver().cuMemHostRegister(start, size, 0));
  EXPECT_EQ(kSuccess, driver().cuMemHostGetDevicePointer(&device_view, start, 0));
  ASSERT_EQ(kSuccess, driver().cuMemsetD8Async(address, 9, size, stream_));
  ASSERT_EQ(kSuccess, driver().cuMemcpyDtoHAsync(start, address, size, stream_));
  ASSERT_EQ(kSuccess, driver().cuStreamSynchronize(stream_));

  EXPECT_EQ(9, static_cast<char*>(start)[size - 1]);
  EXPECT_EQ(kSuccess, driver().cuMemHostUnregister(start));
  EXPECT_EQ(kErrorHostMemoryNotRegistered, driver().cuMemHostUnregister(start));
  free(address, size);
}

TEST_F(Streams, PointersTellTheirKind) {
  const CuDevicePtr address = allocate(granularity());
  void* pinned = nullptr;
  ASSERT_EQ(kSuccess, driver().cuMemHostAlloc(&pinned, 4096, 0));
  unsigned type = 0;
  int ordinal = -1;

  EXPECT_EQ(kSuccess, driver().cuPointerGetAttribute(&type, kPointerMemoryType, address));
  EXPECT_EQ(kMemoryTypeDevice, type);
  EXPECT_EQ(kSuccess, driver().cuPointerGetAttribute(&ordinal, kPointerDeviceOrdinal, address));
  EXPECT_EQ(0, ordinal);
  EXPECT_EQ(kSuccess, driver().cuPointerGetAttribute(&type, kPointerMemoryType,
                                                     reinterpret_cast<CuDevicePtr>(pinned)));
  EXPECT_EQ(kMemoryTypeHost, type);
  int local = 0;
  EXPECT_EQ(kErrorInvalidValue,
            driver().cuPointerGetAttribute(&type, kPointerMemoryType,
                                           reinterpret_cast<CuDevicePtr>(&local)));

  EXPECT_EQ(kSuccess, driver().cuMemFreeHost(pinned));
  free(address, granularity());
}

TEST_F(Streams, PlainAllocationTakesAndGivesBackMemory) {
  const size_t before = free_bytes();
  CuDevicePtr address = 0;
  ASSERT_EQ(kSuccess, driver().cuMemAlloc(&address, kWatchedBytes));
  fill(address, 3, kWatchedBytes);

  EXPECT_TRUE(filled(address, 3, kWatchedBytes));
  EXPECT_TRUE(free_is(before - kWatchedBytes));
  CuDevicePtr base = 0;
  size_t size = 0;
  EXPECT_EQ(kSuccess, driver().cuMemGetAddressRange(&base, &size, address + 12345));
  EXPECT_EQ(address, base);
  EXPECT_EQ(kWatchedBytes, size);

  ASSERT_EQ(kSuccess, driver().cuMemFree(address));
  EXPECT_TRUE(eventually([&] { return free_is(before); }));
}

}  // namespace
}  // namespace amem::contract
