// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The importer's side of a fetch: what it logs and does while it waits for an owner.
#include <algorithm>
#include <future>
#include <string>

#include "tests/support/import_fixture.h"
#include "tests/support/message_equality.h"

namespace amem {
namespace {

TEST_F(FetchWaitTest, OfAResumeNamesTheOwnerThatHasNotReplied) {
  Node quick(NodeOptions(), [&](const PeerInfo& from, uint64_t request_id, const Message& message) {
    if (std::holds_alternative<Fetch>(message))
      quick.service->reply(from.instance, request_id, Fetched{{Fetched::Outcome::paused}, {}, {}},
                           {});
  });
  std::vector<BackingId> backings = {add_dropped(quick)};
  // More than one request for one owner.
  for (BackingId id = 1; id <= kMaxFds + 1; ++id) backings.push_back(add_dropped(silent_, id));
  testing::internal::CaptureStderr();

  EXPECT_FALSE(sharing_->imports()
                   .fetch(backings, BackingState::dropped, Deadline::after_ms(kLongerThanNotice))
                   .ok());

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

// Otherwise the owner would give the place of the second allocation to another one while it is
// mapped here.
TEST_F(FetchWaitTest, OwnerIsToldOfEachAllocationInASlab) {
  Node owner(NodeOptions(), [&](const PeerInfo& from, uint64_t request_id, const Message& message) {
    const auto* fetch = std::get_if<Fetch>(&message);
    if (fetch == nullptr) return;
    const bool has_backing = fetch->items.front().has_backing;
    owner.service->reply(
        from.instance, request_id,
        Fetched{{has_backing ? Fetched::Outcome::noted : Fetched::Outcome::here}, {}, {}},
        has_backing ? std::vector<UniqueFd>() : descriptor());
  });
  const auto import = [&](AllocationId allocation, size_t offset_bytes) {
    const Result<UniqueFd> token = make_token(
        {owner.id, allocation, 2, 5, 2 * kSlotBytes, offset_bytes, kSlotBytes, kOwnerPid, ""});
    DriverHandle handle = 0;
    DriverResult result = driver_result::kUnknown;
    EXPECT_TRUE(sharing_->imports().import_token(token.value().get(), &handle, &result));
    EXPECT_EQ(result, driver_result::kSuccess);
  };

  for (AllocationId allocation : {6, 7, 7, 6}) import(allocation, allocation == 6 ? 0 : kSlotBytes);

  std::vector<Fetch::Item> asked;
  for (const Recorder::Seen& one : owner.recorder.take_seen())
    if (const auto* fetch = std::get_if<Fetch>(&one.received.message))
      asked.insert(asked.end(), fetch->items.begin(), fetch->items.end());
  EXPECT_EQ(asked, (std::vector<Fetch::Item>{{6, 2, false}, {7, 2, true}}));
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

// The owner that pauses has resumed a part of its memory only, or has paused with memory that it
// could not release: its pause fails, and it stays paused.
TEST_F(ImportTest, RevokeThatFailsDoesNotOpenTheGateToAPausedOwner) {
  client_.is_busy = true;
  EXPECT_TRUE(tell(Revoke{10000, {""}, {kShared}, {}}).ok());
  EXPECT_TRUE(is_open()) << "the owner was not paused before";

  EXPECT_TRUE(tell(Revoke{0, {""}, {kShared}, {}}).ok());
  EXPECT_TRUE(tell(Revoke{10000, {""}, {kShared}, {}}).ok());
  EXPECT_FALSE(is_open());

  EXPECT_TRUE(tell(Restore{""}).ok());
  EXPECT_TRUE(is_open());
}

/// What arrives here from an owner, in order, while the worker is busy with the first message.
class LateRestoreTest : public ImportTest {
 protected:
  void send(Message message) {
    owner_.service->call(context_.self, std::move(message), {}, patience(),
                         [](const Result<Received>&) {});
  }
  void hold_the_worker() {
    client_.holds = true;
    send(Revoke{10000, {"other"}, {kShared}, {}});
    ASSERT_TRUE(eventually([this] { return client_.is_quiet.load(); }));
  }
};

// Between the two, a call would pass the gate and meet a paused owner.
TEST_F(LateRestoreTest, OfAnEarlierPauseDoesNotOpenTheGate) {
  hold_the_worker();
  send(Restore{""});
  send(Revoke{0, {""}, {}, {}});
  ASSERT_TRUE(eventually([this] { return !is_open(); }));

  client_.holds = false;

  EXPECT_TRUE(tell(Restore{""}).ok());
  EXPECT_EQ(client_.reopened, 1);
  EXPECT_TRUE(is_open());
}

// The owner pauses again before it receives the fetch.
TEST_F(LateRestoreTest, OfAnEarlierPauseDoesNotMapWhatIsImportedSince) {
  hold_the_worker();
  send(Restore{""});
  outcome_ = Fetched::Outcome::paused;
  EXPECT_EQ(import().get(), driver_result::kSuccess);

  client_.holds = false;

  ASSERT_TRUE(tell(Revoke{10000, {"other"}, {kShared}, {}}).ok()) << "behind the restore";
  EXPECT_EQ(state(), BackingState::revoked);
}

// A NIC, for example, would go on using the old memory.
TEST_F(ImportTest, OfMemoryThatIsRegisteredHereRefusesThePauseOfItsOwner) {
  outcome_ = Fetched::Outcome::here;
  ASSERT_EQ(begin_import().get(), driver_result::kSuccess);
  {
    MutexLock lock(registry_.mutex);
    const Backing& backing = registry_.backings().begin()->second;
    registry_.find(backing.allocations.begin()->second)->make_persistent("registered with a NIC");
  }

  const Result<Received> reply = tell(Revoke{10000, {""}, {}, {}});

  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(std::get<Revoked>(reply.value().message).reason,
            "memory that it has imported is registered, for example with a NIC");
  EXPECT_EQ(state(), BackingState::mapped);
  EXPECT_TRUE(eventually([this] { return is_open(); }));
}

/// The connection to the owner breaks when a request has arrived there.
class BrokenFetchTest : public FetchWaitTest {
 protected:
  /// Accepts a connection, and returns the first request on it.
  std::optional<Envelope> meet() {
    peer_ = owner_.accept_one();
    if (peer_ == nullptr) return std::nullopt;
    peer_->greet(owner_.id);
    (void)peer_->next_message();
    return peer_->next_message();
  }
  std::optional<Envelope> meet_twice() {
    (void)meet();
    peer_.reset();
    return meet();
  }
  Token token(AllocationId allocation) const {
    return {owner_.id, allocation, 2, allocation, 0, 0, 1 << 21, kOwnerPid, ""};
  }
  BackingId add_revoked(AllocationId allocation) {
    MutexLock lock(registry_.mutex);
    Backing& import = registry_.backing_of(registry_.add_import(token(allocation)));
    import.state = BackingState::revoked;
    return import.id;
  }

  RawListener owner_;
  std::unique_ptr<RawPeer> peer_;
};

// Otherwise the call of NCCL that imports would fail.
TEST_F(BrokenFetchTest, OfAnImportIsRepeated) {
  auto imported = std::async(std::launch::async, [this] {
    DriverHandle handle = 0;
    DriverResult result = driver_result::kUnknown;
    const Result<UniqueFd> fd = make_token(token(5));
    EXPECT_TRUE(sharing_->imports().import_token(fd.value().get(), &handle, &result));
    return result;
  });
  const std::optional<Envelope> fetch = meet_twice();
  ASSERT_TRUE(fetch && std::holds_alternative<Fetch>(fetch->message));
  peer_->send(fetch->request_id, Fetched{{Fetched::Outcome::here}, {}, {}}, 1);
  EXPECT_EQ(imported.get(), driver_result::kSuccess);
}

TEST_F(BrokenFetchTest, OfATokenIsRepeated) {
  auto asked = std::async(std::launch::async, [this] {
    return sharing_->imports().ask_for_token({owner_.id, 5, 2, kOwnerPid});
  });
  const std::optional<Envelope> query = meet_twice();
  ASSERT_TRUE(query && std::holds_alternative<TokenQuery>(query->message));
  peer_->send(query->request_id, TokenReply{true}, 1);
  const Result<Received> token = asked.get();
  EXPECT_TRUE(token.ok()) << token.error().message;
}

// The owner would keep the memory for an importer that has released it.
TEST_F(BrokenFetchTest, IsRepeatedForWhatIsStillImported) {
  const std::vector<BackingId> backings = {add_revoked(5), add_revoked(6)};
  auto fetched = std::async(std::launch::async, [&] {
    return sharing_->imports().fetch(backings, BackingState::revoked, patience());
  });
  const std::optional<Envelope> first = meet();
  ASSERT_TRUE(first && std::holds_alternative<Fetch>(first->message));
  EXPECT_EQ(std::get<Fetch>(first->message).items.size(), 2u);
  {
    MutexLock lock(registry_.mutex);
    Allocation& released =
        *registry_.find(registry_.find_backing(backings[0])->allocations.begin()->second);
    released.handle_references = 0;
    erase_unused(driver_, registry_, released);
  }
  peer_.reset();
  const std::optional<Envelope> again = meet();
  ASSERT_TRUE(again && std::holds_alternative<Fetch>(again->message));
  EXPECT_EQ(std::get<Fetch>(again->message).items, (std::vector<Fetch::Item>{{6, 2, false}}));
  peer_->send(again->request_id, Fetched{{Fetched::Outcome::here}, {}, {}}, 1);
  const Status status = fetched.get();
  EXPECT_TRUE(status.ok()) << status.error().message;
}

}  // namespace
}  // namespace amem
