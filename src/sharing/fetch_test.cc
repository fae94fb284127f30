// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Who gets a descriptor of this process' memory: only who shows the nonce of its token.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>

#include "sharing/sharing.h"
#include "sharing/token.h"
#include "tests/support/peer_fixture.h"
#include "tests/support/sharing_fixture.h"

namespace amem {
namespace {

std::atomic<int> g_exports = 0;

DriverResult export_handle(void* shareable, DriverHandle, int, unsigned long long) {
  ++g_exports;
  *static_cast<int*>(shareable) = open("/dev/null", O_RDONLY | O_CLOEXEC);
  return driver_result::kSuccess;
}

class FetchTest : public SharingTest {
 protected:
  FetchTest() {
    g_exports = 0;
    driver_.cuMemExportToShareableHandle = export_handle;
    EXPECT_TRUE(sharing_->start().ok());
    MutexLock lock(registry_.mutex);
    for (Token* token : {&token_, &other_token_}) {
      Allocation& shared = registry_.add_local(1 << 21, {}, 0x1000, 1 << 21);
      Result<int> fd = sharing_->exports().make_token(shared);
      EXPECT_TRUE(fd.ok());
      *token = read_token(UniqueFd(fd.value()).get()).value_or(Token{});
    }
    unshared_ = registry_.add_local(1 << 21, {}, 0x2000, 1 << 21).id;
  }
  ~FetchTest() override { end_service(std::move(sharing_)); }

  /// What comes back for one item: the outcome, and how many descriptors.
  std::pair<Fetched::Outcome, size_t> fetch(Node& from, AllocationId allocation, uint64_t nonce) {
    Result<Received> reply = from.ask(context_.self, Fetch{{{allocation, nonce, false}}});
    if (!reply.ok()) return {Fetched::Outcome::failed, 99};
    return {std::get<Fetched>(reply.value().message).outcomes.at(0), reply.value().fds.size()};
  }

  std::string status_;
  std::unique_ptr<Sharing> sharing_ = std::make_unique<Sharing>(
      context_, [this](bool attribution) { return attribution ? "whose" : status_; });
  Token token_, other_token_;
  AllocationId unshared_ = 0;
  Node importer_;
};

TEST_F(FetchTest, OfferedDescriptorIsGivenForItsNonceUntilItIsWithdrawn) {
  const auto given = [&](AllocationId allocation, uint64_t nonce) {
    Result<Received> reply = importer_.ask(context_.self, TokenQuery{allocation, nonce});
    return reply.ok() ? reply.value().fds.size() : 99;
  };
  const Result<IpcHandleBytes> handle =
      sharing_->offer_descriptor(UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)));
  ASSERT_TRUE(handle.ok());
  const IpcHandle offered = decode_ipc_handle(handle.value()).value();
  EXPECT_EQ(offered.owner, context_.self);
  EXPECT_EQ(given(offered.allocation, offered.nonce), 1u);
  EXPECT_EQ(given(offered.allocation, offered.nonce), 1u) << "each importer gets one";
  EXPECT_EQ(given(offered.allocation, offered.nonce + 1), 0u);
  EXPECT_EQ(given(token_.allocation, offered.nonce), 0u);
  EXPECT_EQ(given(offered.allocation, token_.nonce), 0u);
  EXPECT_TRUE(sharing_->withdraw_descriptor(handle.value()).ok());
  EXPECT_FALSE(sharing_->withdraw_descriptor(handle.value()).ok()) << "it is no longer offered";
  EXPECT_EQ(given(offered.allocation, offered.nonce), 0u);
}

constexpr std::pair<Fetched::Outcome, size_t> kGiven{Fetched::Outcome::here, 1},
    kRefused{Fetched::Outcome::unknown, 0};

TEST_F(FetchTest, WithTheNonceOfTheTokenGetsADescriptor) {
  ASSERT_EQ(token_.owner, context_.self);
  EXPECT_EQ(fetch(importer_, token_.allocation, token_.nonce), kGiven);
  EXPECT_EQ(g_exports, 1);
}

// It keeps its gate closed until it is told.
TEST_F(FetchTest, ResumeWaitsForOneThatFetchedWhilePausedAndTellsItAgainAfterAnError) {
  const Tags tags{""};
  const auto answer = [&](const Restored& restored) {
    ASSERT_TRUE(importer_.recorder.wait_seen(1));
    const Recorder::Seen told = std::move(importer_.recorder.take_seen().front());
    ASSERT_TRUE(std::holds_alternative<Restore>(told.received.message));
    importer_.service->reply(context_.self, told.request_id, restored, {});
  };
  // The recorder shows notices of processes that it knows.
  context_.peers.load()->send(importer_.id, Drop{{1}}, {});
  ASSERT_TRUE(importer_.recorder.wait_seen(1));
  importer_.recorder.take_seen();
  ASSERT_TRUE(sharing_->exports().revoke(tags, patience()).ok());
  ASSERT_EQ(fetch(importer_, token_.allocation, token_.nonce),
            std::pair(Fetched::Outcome::paused, size_t{0}));
  importer_.recorder.take_seen();
  auto replies = sharing_->exports().restore(tags, patience());
  answer({false, "no descriptor"});
  const Status failed = replies->wait(patience());
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().message.find("no descriptor"), std::string::npos)
      << failed.error().message;

  replies = sharing_->exports().restore(tags, patience());
  answer({true, ""});
  EXPECT_TRUE(replies->wait(patience()).ok());
}

// Nobody waits for the reply any more, and its gate is closed.
TEST_F(FetchTest, OneThatCouldNotMapItInTimeIsToldAgainWhenItsCallWaits) {
  context_.peers.load()->send(importer_.id, Drop{{1}}, {});
  ASSERT_TRUE(importer_.recorder.wait_seen(1));
  importer_.recorder.take_seen();
  ASSERT_EQ(fetch(importer_, token_.allocation, token_.nonce), kGiven);
  EXPECT_FALSE(sharing_->exports().restore({""}, Deadline::after_ms(50))->wait(patience()).ok());
  ASSERT_TRUE(importer_.recorder.wait_seen(2)) << "again after the deadline";
  const uint64_t again = importer_.recorder.take_seen().back().request_id;
  importer_.service->reply(context_.self, again, Restored{false, "no descriptor"}, {});

  ASSERT_TRUE(eventually([&] {
    importer_.service->send(context_.self, ResumeRequest{""}, {});
    return !importer_.recorder.take_seen().empty();
  }));
}

// The resume fails for it, and its call must not begin to wait on the GPU for a process that is
// paused.
TEST_F(FetchTest, OneThatMakesAResumeFailIsToldAgainByTheNextOneOnly) {
  ASSERT_EQ(fetch(importer_, token_.allocation, token_.nonce), kGiven);
  const auto resume = [&](const Restored& answer) {
    const auto replies = sharing_->exports().restore({""}, patience());
    EXPECT_TRUE(importer_.recorder.wait_seen(1));
    const uint64_t told = importer_.recorder.take_seen().front().request_id;
    importer_.service->reply(context_.self, told, answer, {});
    return replies->wait(patience());
  };
  context_.peers.load()->send(importer_.id, Drop{{1}}, {});  // it is known to the recorder
  ASSERT_TRUE(importer_.recorder.wait_seen(1));
  importer_.recorder.take_seen();
  ASSERT_FALSE(resume({false, "no descriptor"}).ok());

  importer_.service->send(context_.self, ResumeRequest{""}, {});
  // What it was told before the answer has arrived.
  ASSERT_EQ(fetch(importer_, token_.allocation, token_.nonce), kGiven);
  EXPECT_TRUE(importer_.recorder.take_seen().empty());

  EXPECT_TRUE(resume({true, ""}).ok());
}

TEST_F(FetchTest, OneWhoseAnswerIsWrongIsNotToldAgainWhenItsCallWaits) {
  const InstanceId id = random_instance_id();
  const Fetch wanted{{{token_.allocation, token_.nonce, false}}};
  auto importer = RawPeer::dial_to(context_.self);
  importer->greet(id);
  importer->send(1, wanted);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(importer->next_message());  // Hello, Fetched
  const auto replies = sharing_->exports().restore({""}, patience());
  const auto told = importer->next_message();
  ASSERT_TRUE(told && std::holds_alternative<Restore>(told->message));
  importer->send(told->request_id, TokenReply{false});
  EXPECT_FALSE(replies->wait(patience()).ok());

  importer = RawPeer::dial_to(context_.self);
  importer->greet(id);
  importer->send(0, ResumeRequest{""});
  importer->send(1, wanted);
  ASSERT_TRUE(importer->next_message());
  const auto next = importer->next_message();
  ASSERT_TRUE(next);
  EXPECT_TRUE(std::holds_alternative<Fetched>(next->message)) << name_of(next->message);
}

// Its host was cut off, say.
TEST_F(FetchTest, OneThatDoesNotAnswerIsToldAgainAsLongAsItsCallWaits) {
  context_.timeout_ms = 50;
  context_.peers.load()->send(importer_.id, Drop{{1}}, {});
  ASSERT_TRUE(importer_.recorder.wait_seen(1));
  ASSERT_TRUE(sharing_->exports().revoke({""}, patience()).ok());
  ASSERT_EQ(fetch(importer_, token_.allocation, token_.nonce).first, Fetched::Outcome::paused);
  {
    MutexLock lock(registry_.mutex);
    registry_.find(token_.allocation)->importers.clear();  // a bystander
  }
  importer_.recorder.take_seen();
  EXPECT_TRUE(sharing_->exports().restore({""}, patience())->wait(patience()).ok());
  ASSERT_TRUE(importer_.recorder.wait_seen(1));
  importer_.recorder.take_seen();

  for (const char* told : {"after the resume", "for its call"})
    ASSERT_TRUE(eventually([&] {
      importer_.service->send(context_.self, ResumeRequest{""}, {});
      return !importer_.recorder.take_seen().empty();
    })) << "not again when it was told "
        << told;
}

TEST_F(FetchTest, CallsThatWaitForATagThatNobodyHasLeaveNothing) {
  constexpr int kCalls = 10000;
  const auto held_bytes = [] { return static_cast<ptrdiff_t>(mallinfo2().uordblks); };
  const ptrdiff_t before = held_bytes();
  for (int i = 0; i < kCalls; ++i)
    sharing_->exports().restore_for_call(importer_.id, std::to_string(i));
  EXPECT_LT(held_bytes() - before, kCalls);
}

TEST_F(FetchTest, WhoHasTheBackingGetsNoDescriptorAndIsNoted) {
  Result<Received> reply =
      importer_.ask(context_.self, Fetch{{{token_.allocation, token_.nonce, true}}});
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(std::get<Fetched>(reply.value().message).outcomes,
            std::vector{Fetched::Outcome::noted});
  EXPECT_TRUE(reply.value().fds.empty());
  MutexLock lock(registry_.mutex);
  EXPECT_EQ(registry_.find(token_.allocation)->importers.size(), 1u) << "a pause asks it to revoke";
}

TEST_F(FetchTest, WithAnotherNonceGetsNone) {
  for (int bit = 0; bit < 64; ++bit)
    EXPECT_EQ(fetch(importer_, token_.allocation, token_.nonce ^ (uint64_t{1} << bit)), kRefused)
        << bit;
  EXPECT_EQ(fetch(importer_, token_.allocation, 0), kRefused);
  EXPECT_EQ(g_exports, 0);
  MutexLock lock(registry_.mutex);
  EXPECT_TRUE(registry_.find(token_.allocation)->importers.empty()) << "a pause would wait for it";
}

TEST_F(FetchTest, ImporterThatEndedIsForgotten) {
  ASSERT_EQ(fetch(importer_, token_.allocation, token_.nonce), kGiven);

  sharing_->on_peer_gone({importer_.id, getpid()});

  MutexLock lock(registry_.mutex);
  EXPECT_TRUE(registry_.find(token_.allocation)->importers.empty()) << "a pause would ask it";
}

TEST_F(FetchTest, EndOfAProcessIsNeededOnceItHasFetched) {
  const PeerInfo stranger{importer_.id, getpid()};
  EXPECT_EQ(fetch(importer_, token_.allocation, token_.nonce + 1), kRefused);
  EXPECT_FALSE(sharing_->needs_end_of(stranger));

  EXPECT_EQ(fetch(importer_, token_.allocation, token_.nonce), kGiven);
  EXPECT_TRUE(sharing_->needs_end_of(stranger));

  sharing_->on_peer_gone(stranger);
  EXPECT_FALSE(sharing_->needs_end_of(stranger));
}

TEST_F(FetchTest, StatusThatIsLongerThanAPacketComesInParts) {
  for (const size_t size : {size_t{0}, kMaxJsonBytes - 1, kMaxJsonBytes, kMaxJsonBytes + 1,
                            2 * kMaxJsonBytes, 5 * kMaxJsonBytes + 7}) {
    status_ = std::string(size / 2, 'a') + std::string(size - size / 2, 'b');
    const auto observer = RawPeer::dial_to(context_.self);
    observer->greet(random_instance_id());
    observer->send(1, StatusQuery{});
    ASSERT_TRUE(observer->next_message());
    std::string text;
    for (bool is_last = false; !is_last;) {
      const auto part = observer->next_message();
      ASSERT_TRUE(part && std::holds_alternative<StatusReply>(part->message)) << size;
      text += std::get<StatusReply>(part->message).json;
      is_last = std::get<StatusReply>(part->message).json.size() < kMaxJsonBytes;
    }
    EXPECT_EQ(text, status_) << size;
  }
}

TEST_F(FetchTest, OfWhatWasNeverSharedGetsNone) {
  EXPECT_EQ(fetch(importer_, unshared_, 0), kRefused);
  EXPECT_EQ(fetch(importer_, unshared_, token_.nonce), kRefused);
  EXPECT_EQ(fetch(importer_, unshared_ + 1, token_.nonce), kRefused);
  EXPECT_EQ(g_exports, 0);
}

TEST_F(FetchTest, OneWrongNonceAmongRightOnesGetsNoneForItself) {
  const Fetch::Item right{token_.allocation, token_.nonce, false},
      wrong{token_.allocation, 1, false};
  Result<Received> reply = importer_.ask(context_.self, Fetch{{wrong, right, wrong}});
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(std::get<Fetched>(reply.value().message).outcomes,
            (std::vector{kRefused.first, kGiven.first, kRefused.first}));
  EXPECT_EQ(reply.value().fds.size(), 1u);
}

TEST_F(FetchTest, NoncesOfAllocationsAreTheirOwn) {
  EXPECT_NE(other_token_.nonce, token_.nonce);
  EXPECT_EQ(fetch(importer_, token_.allocation, other_token_.nonce), kRefused);
  EXPECT_EQ(fetch(importer_, other_token_.allocation, token_.nonce), kRefused);
  EXPECT_EQ(fetch(importer_, other_token_.allocation, other_token_.nonce), kGiven);
}

}  // namespace
}  // namespace amem
