// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Host memory that processes offer each other.
#include "tests/support/peer_fixture.h"
#include "tests/support/sharing_fixture.h"

namespace amem {
namespace {

std::vector<UniqueFd> descriptors(size_t count) {
  std::vector<UniqueFd> fds(count);
  for (UniqueFd& fd : fds) fd.reset(open("/dev/null", O_RDWR | O_CLOEXEC));
  return fds;
}

class HostOffer : public SharingTest {
 protected:
  HostOffer() { EXPECT_TRUE(sharing_->start().ok()); }
  ~HostOffer() override { end_service(std::move(sharing_)); }

  std::atomic<size_t> wanted_ = 0, offers_ = 3;
  std::atomic<int> node_ = 0;
  std::unique_ptr<Sharing> sharing_ = std::make_unique<Sharing>(
      context_, [](bool) { return std::string("{}"); },
      [this](size_t wanted, int node) {
        wanted_ = wanted;
        node_ = node;
        return descriptors(offers_);
      });
};

TEST_F(HostOffer, IsMadeToWhoAsks) {
  Node other;

  const Result<Received> reply = other.ask(context_.self, HostMemoryQuery{size_t{5} << 30, -1});

  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(std::get<HostMemoryOffer>(reply.value().message).segments, 3);
  EXPECT_EQ(reply.value().fds.size(), 3u);
  EXPECT_EQ(wanted_, size_t{5} << 30);
  EXPECT_EQ(node_, -1);
}

TEST_F(HostOffer, HasNoMoreDescriptorsThanAMessageCarries) {
  Node other;
  offers_ = 1000;

  const Result<Received> reply = other.ask(context_.self, HostMemoryQuery{SIZE_MAX, 0});

  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply.value().fds.size(), 64u);
}

TEST_F(HostOffer, ComesFromAllWhoAnswerInTime) {
  Answerer first, second;
  Node silent;
  const size_t fds = sharing_->ask_for_host_memory(1, 0).size();

  EXPECT_EQ(fds, 4u) << "two of each";
  EXPECT_TRUE(silent.recorder.wait_seen(1)) << "it was asked";
}

}  // namespace
}  // namespace amem
