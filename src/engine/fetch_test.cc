// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Who gets a descriptor of this process' memory: only who shows the nonce of its token.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>

#include "engine/neighbours.h"
#include "peers/peer_fixture.h"
#include "peers/token.h"

namespace amem {
namespace {

std::atomic<int> g_exports = 0;

DriverResult export_handle(void* shareable, DriverHandle, int, unsigned long long) {
  ++g_exports;
  *static_cast<int*>(shareable) = open("/dev/null", O_RDONLY | O_CLOEXEC);
  return driver_result::kSuccess;
}

Driver driver_that_exports() {
  Driver driver{};
  driver.cuMemExportToShareableHandle = export_handle;
  return driver;
}

class FetchTest : public testing::Test {
 protected:
  FetchTest() {
    g_exports = 0;
    EXPECT_TRUE(neighbours_.start().ok());
    MutexLock lock(registry_.mutex);
    Allocation& shared = registry_.add_local(1 << 21, {}, 0x1000);
    allocation_ = shared.id;
    unshared_ = registry_.add_local(1 << 21, {}, 0x2000).id;
    Result<int> token = neighbours_.exports().make_token(shared);
    EXPECT_TRUE(token.ok());
    const UniqueFd fd(token.value());
    token_ = read_token(fd.get()).value_or(Token{});
  }
  // Production leaves the service to the end of the process.
  ~FetchTest() override { const std::unique_ptr<PeerService> service(context_.peers.load()); }

  /// What comes back for one item: the outcome, and how many descriptors.
  std::pair<Fetched::Outcome, size_t> fetch(Node& from, AllocationId allocation, uint64_t nonce) {
    Result<Received> reply = from.ask(context_.self, Fetch{{{allocation, nonce}}});
    if (!reply.ok()) return {Fetched::Outcome::failed, 99};
    return {std::get<Fetched>(reply.value().message).outcomes.at(0), reply.value().fds.size()};
  }

  Driver driver_ = driver_that_exports();
  Registry registry_;
  CallGate gate_;
  DeviceThreads devices_{driver_};
  EngineContext context_{driver_, registry_, gate_, devices_, random_instance_id()};
  Neighbours neighbours_{context_, [] { return std::string("{}"); }};
  AllocationId allocation_ = 0, unshared_ = 0;
  Token token_;
  Node importer_;
};

constexpr std::pair<Fetched::Outcome, size_t> kGiven{Fetched::Outcome::here, 1},
    kRefused{Fetched::Outcome::unknown, 0};

TEST_F(FetchTest, WithTheNonceOfTheTokenGetsADescriptor) {
  ASSERT_EQ(token_.owner, context_.self);
  EXPECT_EQ(fetch(importer_, token_.allocation, token_.nonce), kGiven);
  EXPECT_EQ(g_exports, 1);
}

TEST_F(FetchTest, WithAnotherNonceGetsNone) {
  for (int bit = 0; bit < 64; ++bit)
    EXPECT_EQ(fetch(importer_, allocation_, token_.nonce ^ (uint64_t{1} << bit)), kRefused) << bit;
  EXPECT_EQ(fetch(importer_, allocation_, 0), kRefused);
  EXPECT_EQ(g_exports, 0);
  MutexLock lock(registry_.mutex);
  EXPECT_TRUE(registry_.find(allocation_)->importers.empty()) << "a pause would wait for it";
}

TEST_F(FetchTest, OfWhatWasNeverSharedGetsNone) {
  EXPECT_EQ(fetch(importer_, unshared_, 0), kRefused);
  EXPECT_EQ(fetch(importer_, unshared_, token_.nonce), kRefused);
  EXPECT_EQ(fetch(importer_, unshared_ + 1, token_.nonce), kRefused);
  EXPECT_EQ(g_exports, 0);
}

TEST_F(FetchTest, OneWrongNonceAmongRightOnesGetsNoneForItself) {
  const Fetch::Item right{token_.allocation, token_.nonce}, wrong{token_.allocation, 1};
  Result<Received> reply = importer_.ask(context_.self, Fetch{{wrong, right, wrong}});
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(std::get<Fetched>(reply.value().message).outcomes,
            (std::vector{kRefused.first, kGiven.first, kRefused.first}));
  EXPECT_EQ(reply.value().fds.size(), 1u);
}

TEST_F(FetchTest, NoncesOfAllocationsAreTheirOwn) {
  Token other;
  {
    MutexLock lock(registry_.mutex);
    const UniqueFd fd(neighbours_.exports().make_token(*registry_.find(unshared_)).value());
    other = read_token(fd.get()).value_or(Token{});
  }
  EXPECT_NE(other.nonce, token_.nonce);
  EXPECT_EQ(fetch(importer_, token_.allocation, other.nonce), kRefused);
  EXPECT_EQ(fetch(importer_, other.allocation, token_.nonce), kRefused);
  EXPECT_EQ(fetch(importer_, other.allocation, other.nonce), kGiven);
}

}  // namespace
}  // namespace amem
