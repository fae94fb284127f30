// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The importer's side of a fetch: what it logs and does while it waits for an owner.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "sharing/sharing.h"
#include "sharing/token.h"
#include "tests/support/peer_fixture.h"
#include "tests/support/sharing_fixture.h"

namespace amem {
namespace {

constexpr pid_t kOwnerPid = 4711;
constexpr long kLongerThanNotice = kNoticeMs + 500;

class FetchWaitTest : public SharingTest {
 protected:
  FetchWaitTest() { EXPECT_TRUE(sharing_->start().ok()); }
  ~FetchWaitTest() override { end_service(std::move(sharing_)); }

  Token token_of(const Node& owner, BackingId backing = 5) {
    return {owner.id, backing, 2, backing, 0, 0, 1 << 21, kOwnerPid, ""};
  }
  BackingId add_dropped(const Node& owner, BackingId backing = 5) {
    MutexLock lock(registry_.mutex);
    Backing& import = registry_.backing_of(registry_.add_import(token_of(owner, backing)));
    import.state = BackingState::dropped;
    return import.id;
  }

  Node silent_;
  std::unique_ptr<Sharing> sharing_ =
      std::make_unique<Sharing>(context_, [] { return std::string(); });
};

TEST_F(FetchWaitTest, OfAResumeNamesTheOwnerThatHasNotReplied) {
  Node quick(NodeOptions(), [&](const PeerInfo& from, uint64_t request_id, const Message& message) {
    if (std::holds_alternative<Fetch>(message))
      quick.service->reply(from.instance, request_id, Fetched{{Fetched::Outcome::away}, {}, {}},
                           {});
  });
  std::vector<BackingId> backings = {add_dropped(quick)};
  // More than one request for one owner.
  for (BackingId id = 1; id <= kMaxFds + 1; ++id) backings.push_back(add_dropped(silent_, id));
  testing::internal::CaptureStderr();

  EXPECT_FALSE(sharing_->imports().fetch(backings, Deadline::after_ms(kLongerThanNotice)).ok());

  const std::string log = testing::internal::GetCapturedStderr();
  const std::string line =
      "a resume waits for processes whose memory this one maps: process 4711\n";
  const size_t found = log.find(line);
  ASSERT_NE(found, log.npos) << log;
  EXPECT_EQ(log.find("a resume waits", found + 1), log.npos) << "once: " << log;
}

TEST_F(FetchWaitTest, OfAnImportNamesTheOwner) {
  context_.timeout_ms = kLongerThanNotice;
  const Result<UniqueFd> token = make_token(token_of(silent_));
  ASSERT_TRUE(token.ok());
  DriverHandle handle = 0;
  DriverResult result = driver_result::kSuccess;
  testing::internal::CaptureStderr();

  EXPECT_TRUE(sharing_->imports().import_token(token.value().get(), &handle, &result));

  EXPECT_NE(result, driver_result::kSuccess);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("an import waits for the process that owns the memory: process 4711\n"),
            log.npos)
      << log;
}

TEST_F(FetchWaitTest, OfAnIpcHandleNamesTheOwner) {
  context_.timeout_ms = kLongerThanNotice;
  testing::internal::CaptureStderr();

  EXPECT_FALSE(sharing_->imports().ask_for_token({silent_.id, 1, 2, kOwnerPid}).ok());

  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("an import waits for the process that owns the memory: process 4711\n"),
            log.npos)
      << log;
}

}  // namespace
}  // namespace amem
