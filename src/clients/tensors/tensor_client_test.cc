// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/tensors/tensor_client.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/exit_flag.h"
#include "tests/support/no_exchange.h"

namespace amem {
namespace {

constexpr size_t kPage = size_t{2} << 20;

/// What a driver has that creates, reserves and maps, and fails its nth call.
struct {
  int calls = 0, failing = 0;
  std::set<DriverHandle> objects;
  std::map<DeviceAddress, size_t> reserved, mapped, accessible;
} g_driver;

bool fails() { return ++g_driver.calls == g_driver.failing; }
DriverResult result(bool failed) {
  return failed ? driver_result::kOutOfMemory : driver_result::kSuccess;
}

class TensorClientTest : public testing::Test {
 protected:
  TensorClientTest() {
    g_driver = {};
    driver_.cuGetErrorName = [](DriverResult, const char** name) {
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      return driver_result::kSuccess;
    };
    driver_.cuMemGetAllocationGranularity = [](size_t* bytes, const AllocationProperties*, int) {
      *bytes = kPage;
      return result(fails());
    };
    driver_.cuDeviceGetAttribute = [](int* value, int, int) {
      *value = 1;
      return driver_result::kSuccess;
    };
    driver_.cuMemGetInfo_v2 = [](size_t* free_bytes, size_t* total_bytes) {
      *free_bytes = 1000;
      *total_bytes = 5000;
      return driver_result::kSuccess;
    };
    driver_.cuMemCreate = [](DriverHandle* handle, size_t, const AllocationProperties*,
                             unsigned long long) {
      if (fails()) return result(true);
      *handle = g_driver.objects.size() + 1;
      g_driver.objects.insert(*handle);
      return result(false);
    };
    driver_.cuMemRelease = [](DriverHandle handle) {
      return result(g_driver.objects.erase(handle) == 0);
    };
    driver_.cuMemAddressReserve = [](DeviceAddress* address, size_t bytes, size_t, DeviceAddress,
                                     unsigned long long) {
      if (fails()) return result(true);
      *address = 0x10000000 * (g_driver.reserved.size() + 1);
      g_driver.reserved[*address] = bytes;
      return result(false);
    };
    driver_.cuMemAddressFree = [](DeviceAddress address, size_t bytes) {
      EXPECT_FALSE(g_driver.mapped.contains(address));
      EXPECT_EQ(g_driver.reserved[address], bytes);
      return result(g_driver.reserved.erase(address) == 0);
    };
    driver_.cuMemMap = [](DeviceAddress address, size_t bytes, size_t, DriverHandle,
                          unsigned long long) {
      if (fails()) return result(true);
      g_driver.mapped[address] = bytes;
      return result(false);
    };
    driver_.cuMemUnmap = [](DeviceAddress address, size_t) {
      g_driver.accessible.erase(address);
      return result(g_driver.mapped.erase(address) == 0);
    };
    driver_.cuMemSetAccess = [](DeviceAddress address, size_t bytes, const Access* access, size_t) {
      if (fails()) return result(true);
      EXPECT_EQ(access->flags, kAccessReadWrite);
      g_driver.accessible[address] = bytes;
      return result(false);
    };
    simulate_device_without_context();
  }

  /// It has no work to wait for.
  void simulate_device_without_context() {
    driver_.cuCtxGetCurrent = [](DriverContext* context) {
      *context = nullptr;
      return driver_result::kSuccess;
    };
    driver_.cuCtxSetCurrent = [](DriverContext) { return driver_result::kSuccess; };
    driver_.cuThreadExchangeStreamCaptureMode = [](int*) { return driver_result::kSuccess; };
    driver_.cuDevicePrimaryCtxGetState = [](int, unsigned*, int* active) {
      *active = 0;
      return driver_result::kSuccess;
    };
  }

  Driver driver_{};
  Registry registry_;
  ExitFlag exiting_;
  DeviceThreads devices_{driver_, exiting_};
  NoExchange exchange_;
  VirtualMemory memory_{driver_, registry_, devices_, {}};
  SharedHandles handles_{memory_, exchange_};
  TensorClient client_{handles_, devices_, 1000};
};

TEST_F(TensorClientTest, MemoryHasItsTagAndWholePages) {
  const Result<DeviceAddress> weights = client_.allocate(kPage + 1, 3, "weights", Kind::keep);
  ASSERT_TRUE(weights.ok());
  ASSERT_TRUE(client_.allocate(1, 0, "kv_cache", Kind::discard).ok());

  EXPECT_EQ(client_.tags(), (Tags{"kv_cache", "weights"}));
  EXPECT_EQ(g_driver.accessible[weights.value()], 2 * kPage);
  MutexLock lock(registry_.mutex);
  const Mapping* const mapping = registry_.find_mapping(weights.value());
  ASSERT_NE(mapping, nullptr);
  const Allocation& allocation = *registry_.find(mapping->allocation);
  EXPECT_EQ(allocation.device(), 3);
  EXPECT_EQ(client_.live_ranges(allocation), (std::vector<Piece>{{0, 2 * kPage}}));
  EXPECT_EQ(registry_.backing_of(allocation).tag, "weights");
}

TEST_F(TensorClientTest, FreedMemoryLeavesNothing) {
  const Result<DeviceAddress> address = client_.allocate(1, 0, "weights", Kind::keep);
  ASSERT_TRUE(address.ok());

  EXPECT_TRUE(client_.free(address.value()).ok());

  EXPECT_TRUE(client_.tags().empty());
  EXPECT_TRUE(g_driver.objects.empty() && g_driver.mapped.empty());
  EXPECT_EQ(client_.free(address.value()).error().kind, ErrorKind::misuse) << "freed twice";
}

TEST_F(TensorClientTest, AddressesOfFreedMemoryAreUsedForTheNextOfItsSize) {
  const DeviceAddress first = client_.allocate(kPage, 0, "weights", Kind::keep).value();
  ASSERT_TRUE(client_.free(first).ok());

  EXPECT_NE(client_.allocate(2 * kPage, 0, "weights", Kind::keep).value(), first);
  EXPECT_EQ(client_.allocate(kPage, 0, "kv_cache", Kind::discard).value(), first);
  EXPECT_NE(client_.allocate(kPage, 0, "weights", Kind::keep).value(), first) << "in use";
}

TEST_F(TensorClientTest, AddressesOfTheLastFreedMemoryAreKept) {
  constexpr size_t kMany = 100, kMaxReserved = 64;
  std::vector<DeviceAddress> addresses(kMany);
  for (size_t i = 0; i < kMany; ++i)
    addresses[i] = client_.allocate((i + 1) * kPage, 0, "weights", Kind::keep).value();

  for (const DeviceAddress address : addresses) ASSERT_TRUE(client_.free(address).ok());

  EXPECT_EQ(g_driver.reserved.size(), kMaxReserved);
  EXPECT_EQ(client_.allocate(kMany * kPage, 0, "weights", Kind::keep).value(), addresses.back());
  EXPECT_FALSE(g_driver.reserved.contains(addresses.front()));
}

/// What a pause copies of one allocation, after set_unused().
class UnusedRangesTest : public TensorClientTest {
 protected:
  static constexpr size_t kSize = 2 * kPage;
  UnusedRangesTest() { client_.set_unused({}); }

  std::vector<Piece> live(std::vector<AddressRange> unused) {
    client_.set_unused(std::move(unused));
    return live();
  }
  std::vector<Piece> live() {
    MutexLock lock(registry_.mutex);
    return client_.live_ranges(*registry_.find(registry_.find_mapping(address_)->allocation));
  }
  const DeviceAddress address_ = client_.allocate(kSize, 0, "weights", Kind::keep).value();
  const DeviceAddress other_ = client_.allocate(kSize, 0, "weights", Kind::keep).value();
};
using Pieces = std::vector<Piece>;

TEST_F(UnusedRangesTest, AreNotLive) {
  EXPECT_EQ(live({}), (Pieces{{0, kSize}}));
  EXPECT_EQ(live({{address_, kPage}}), (Pieces{{kPage, kPage}})) << "at the begin";
  EXPECT_EQ(live({{address_ + kPage, kPage}}), (Pieces{{0, kPage}})) << "at the end";
  EXPECT_EQ(live({{address_, kSize}}), Pieces{}) << "the whole";
  EXPECT_EQ(live({{address_ + kSlotBytes, kSlotBytes}}),
            (Pieces{{0, kSlotBytes}, {2 * kSlotBytes, kSize - 2 * kSlotBytes}}))
      << "in the middle";
  EXPECT_EQ(live({{address_ + kPage, kPage}, {address_, kSlotBytes}}),
            (Pieces{{kSlotBytes, kPage - kSlotBytes}}))
      << "in any order";
  EXPECT_EQ(live({{address_, kPage}, {address_ + kPage, kPage}}), Pieces{}) << "adjacent";
}

TEST_F(UnusedRangesTest, EndAtWholePagesOfTheSearchForZeros) {
  EXPECT_EQ(live({{address_ + 1, kPage}}), (Pieces{{0, kSlotBytes}, {kPage, kPage}}));
  EXPECT_EQ(live({{address_ + 512, kSlotBytes}}), (Pieces{{0, kSize}})) << "no whole page";
  EXPECT_EQ(live({{address_ + kSize - kSlotBytes - 1, kSlotBytes + 1}}),
            (Pieces{{0, kSize - kSlotBytes}}));
}

TEST_F(UnusedRangesTest, OfOtherMemoryDoNotCount) {
  EXPECT_EQ(live({{other_, kSize}}), (Pieces{{0, kSize}}));
  EXPECT_EQ(live({{address_ - kPage, kPage}, {address_ + kSize, kPage}}), (Pieces{{0, kSize}}));
}

TEST_F(UnusedRangesTest, EndWithTheNextFree) {
  ASSERT_EQ(live({{address_, kPage}}), (Pieces{{kPage, kPage}}));

  ASSERT_TRUE(client_.free(other_).ok());
  EXPECT_EQ(live(), (Pieces{{0, kSize}}));
  EXPECT_EQ(live({{address_, kPage}}), (Pieces{{0, kSize}})) << "found before it";

  client_.set_unused({});
  EXPECT_EQ(live({{address_, kPage}}), (Pieces{{kPage, kPage}}));
}

TEST_F(UnusedRangesTest, OfMemoryWithoutContentsDoNotCount) {
  const DeviceAddress cache = client_.allocate(kSize, 0, "kv_cache", Kind::discard).value();
  client_.set_unused({{cache, kPage}});
  MutexLock lock(registry_.mutex);
  EXPECT_TRUE(
      client_.live_ranges(*registry_.find(registry_.find_mapping(cache)->allocation)).empty());
}

/// Every handle is that of one allocation of another process.
class OneImport : public NoExchange {
 public:
  explicit OneImport(Registry& registry) : registry_(registry) {}
  std::optional<Result<DriverHandle>> import_ipc_handle(const IpcHandleBytes&) override {
    MutexLock lock(registry_.mutex);
    return handle_of(registry_.add_import({owner_, 1, 2, 1, 0, 0, kPage, 4711, "weights"}).id);
  }

 private:
  Registry& registry_;
  const InstanceId owner_ = random_instance_id();
};

class OpenedMemoryTest : public TensorClientTest {
 protected:
  size_t imports() {
    MutexLock lock(registry_.mutex);
    return registry_.allocations().size();
  }
  OneImport one_{registry_};
  SharedHandles of_one_{memory_, one_};
  TensorClient opener_{of_one_, devices_, 1000};
};

TEST_F(OpenedMemoryTest, IsGoneAfterAsManyClosesAsOpens) {
  std::set<DeviceAddress> addresses;
  for (int i = 0; i < 3; ++i) addresses.insert(opener_.open({}, 0).value().value());
  ASSERT_EQ(addresses.size(), 1u);
  const DeviceAddress address = *addresses.begin();

  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(opener_.close(address).value().ok());
    EXPECT_EQ(imports(), 1u) << "it is still open";
    EXPECT_EQ(one_.forgotten, 0);
  }
  EXPECT_TRUE(opener_.close(address).value().ok());

  EXPECT_EQ(imports(), 0u);
  EXPECT_EQ(one_.forgotten, 1) << "its owner keeps it";
  EXPECT_FALSE(opener_.close(address).has_value());
}

TEST_F(TensorClientTest, AllocationThatFailsAtAnyCallLeavesNothing) {
  int with_figures = 0;
  for (int nth = 1; nth <= 5; ++nth) {
    g_driver.calls = 0;
    g_driver.failing = nth;
    const Result<DeviceAddress> address = client_.allocate(1, 0, "weights", Kind::keep);
    ASSERT_FALSE(address.ok()) << nth;
    EXPECT_EQ(address.error().code, driver_result::kOutOfMemory);
    const std::string& shortage = address.error().shortage;
    with_figures += shortage.find(R"("free_bytes": 1000, "holders": [])") != shortage.npos;
    EXPECT_TRUE(g_driver.objects.empty() && g_driver.reserved.empty() && g_driver.mapped.empty())
        << nth;
    EXPECT_TRUE(client_.tags().empty()) << nth;
  }
  EXPECT_EQ(with_figures, 1) << "of the GPU's memory: cuMemCreate()";
  g_driver.calls = 0;
  g_driver.failing = 6;
  EXPECT_TRUE(client_.allocate(1, 0, "weights", Kind::keep).ok()) << "there are five calls";
}

TEST_F(TensorClientTest, TagsOfOthersAndMalformedOnesAreRefused) {
  for (const char* tag : {"nccl", "context", "", "a b", "a\"b"}) {
    const Result<DeviceAddress> address = client_.allocate(1, 0, tag, Kind::keep);
    ASSERT_FALSE(address.ok()) << tag;
    EXPECT_EQ(address.error().kind, ErrorKind::misuse);
  }
  EXPECT_EQ(client_.check_tag(kSymmetricTag).error().kind, ErrorKind::misuse) << "of a region";
  EXPECT_TRUE(client_.allocate(1, 0, kSymmetricTag, Kind::keep).ok());
  EXPECT_FALSE(client_.allocate(0, 0, "weights", Kind::keep).ok());
  EXPECT_FALSE(client_.allocate(SIZE_MAX, 0, "weights", Kind::keep).ok());
  EXPECT_FALSE(client_.allocate(1, 0, Tag(kMaxTagBytes + 1, 'x'), Kind::keep).ok());
  EXPECT_TRUE(client_.allocate(1, 0, Tag(kMaxTagBytes, 'x'), Kind::keep).ok());
}

}  // namespace
}  // namespace amem
