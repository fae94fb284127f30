// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Where each tag stands after a pause or a resume, and after one that failed.
#include <atomic>

#include "sharing/token.h"
#include "tests/support/peer_fixture.h"
#include "tests/support/session_fixture.h"

namespace amem {
namespace {

// That of the process is 60 s.
TEST_F(SessionTest, CallHasATimeoutOfItsOwn) {
  const BackingId weights = add("weights");
  const auto released = std::make_shared<Waiter<bool>>();
  const auto held = devices_.start({{kDevice, [released] {
                                       (void)released->get(patience());
                                       return ok_status();
                                     }}});
  const auto began = Deadline::Clock::now();

  const Status late = session_.pause({{"weights"}, false, 50});

  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, ErrorKind::timeout);
  EXPECT_LT(Deadline::Clock::now() - began, std::chrono::seconds(10));
  released->give(true);
  EXPECT_TRUE(DeviceThreads::wait(held, "the test", patience()).ok());
  EXPECT_TRUE(is_intact(weights));
  EXPECT_TRUE(session_.pause({{"weights"}, false, 20000}).ok());
  EXPECT_TRUE(session_.resume({{"weights"}, false, 20000}).ok());
  EXPECT_TRUE(is_intact(weights));
}

TEST_F(SessionTest, OneTagIsPausedAndTheOthersStay) {
  const BackingId nccl = add("nccl"), weights = add("weights");

  ASSERT_TRUE(session_.pause({{"weights"}}).ok());
  EXPECT_EQ(session_.state("weights"), SessionState::paused);
  EXPECT_EQ(session_.state("nccl"), SessionState::active);
  EXPECT_EQ(backing_state(weights), BackingState::released);
  EXPECT_TRUE(is_intact(nccl));
  EXPECT_EQ(first_.quiesced, 0);
  EXPECT_EQ(second_.quiesced, 1);

  ASSERT_TRUE(session_.pause({}).ok());
  EXPECT_EQ(backing_state(nccl), BackingState::released);
  EXPECT_EQ(second_.quiesced, 2) << "of kv_cache, which has no memory yet";

  ASSERT_TRUE(session_.resume({{"nccl"}}).ok());
  EXPECT_TRUE(is_intact(nccl));
  EXPECT_EQ(session_.state("weights"), SessionState::paused);
  ASSERT_TRUE(session_.resume({}).ok());
  EXPECT_TRUE(is_intact(weights));
  EXPECT_EQ(first_.reopened, 1);
}

TEST_F(SessionTest, PauseThatAClientRefusesChangesNothing) {
  const BackingId nccl = add("nccl"), weights = add("weights");
  first_.refusal = make_error(ErrorKind::misuse, 0, "not now");

  const Status refused = session_.pause({});

  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "not now");
  for (const char* tag : {"nccl", "weights"})
    EXPECT_EQ(session_.state(tag), SessionState::active) << tag;
  EXPECT_TRUE(is_intact(nccl) && is_intact(weights));
  EXPECT_TRUE(session_.pause({{"weights"}}).ok()) << "it is not of that client";
}

TEST_F(SessionTest, PauseThatFailsIsTakenBack) {
  std::vector<BackingId> all;
  for (const char* tag : {"nccl", "weights", "nccl"}) all.push_back(add(tag));
  set_failing_copy(3);

  ASSERT_FALSE(session_.pause({}).ok());

  for (const BackingId id : all) EXPECT_TRUE(is_intact(id)) << id;
  for (const char* tag : {"nccl", "weights"})
    EXPECT_EQ(session_.state(tag), SessionState::active) << tag;
  EXPECT_EQ(first_.reopened, 1);
  EXPECT_TRUE(session_.pause({}).ok());
  EXPECT_TRUE(session_.resume({}).ok());
  for (const BackingId id : all) EXPECT_TRUE(is_intact(id)) << id;
}

// What was paused before the failure stays paused.
TEST_F(SessionTest, PauseThatFailsLeavesTagsThatWerePausedBefore) {
  const BackingId weights = add("weights");
  ASSERT_TRUE(session_.pause({{"weights"}}).ok());
  const BackingId nccl = add("nccl"), other = add("nccl");
  set_failing_copy(3);

  ASSERT_FALSE(session_.pause({}).ok());

  EXPECT_TRUE(is_intact(nccl) && is_intact(other));
  EXPECT_EQ(session_.state("nccl"), SessionState::active);
  EXPECT_EQ(session_.state("weights"), SessionState::paused);
  EXPECT_EQ(backing_state(weights), BackingState::released);
  ASSERT_TRUE(session_.resume({}).ok());
  EXPECT_TRUE(is_intact(weights));
}

// Others have taken the room: the tag is paused, says so, and goes on from there.
TEST_F(SessionTest, PauseThatCannotBeTakenBackGoesOnLater) {
  std::vector<BackingId> all;
  for (int i = 0; i < 3; ++i) all.push_back(add("weights"));
  set_failing_copy(3);
  set_room(0);
  driver_.cuMemRelease = [](DriverHandle) { return driver_result::kSuccess; };

  const Status failed = session_.pause({});

  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().message.find("weights is paused, with"), std::string::npos)
      << failed.error().message;
  EXPECT_EQ(session_.state("weights"), SessionState::paused);
  EXPECT_EQ(session_.resume({}).error().code, driver_result::kOutOfMemory);
  EXPECT_TRUE(session_.pause({}).ok());
  for (const BackingId id : all) EXPECT_EQ(backing_state(id), BackingState::released) << id;
  set_room(100);
  ASSERT_TRUE(session_.resume({}).ok());
  for (const BackingId id : all) EXPECT_TRUE(is_intact(id)) << id;
}

TEST_F(SessionTest, ContextIsPausedWithTheLastTagOnly) {
  add("weights");
  const Status refused = session_.pause({{kContextTag}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::misuse);
}

// Kernels of the other tag's work may need the local memory.
TEST_F(SessionTest, ContextStaysWhileAnotherTagIsActive) {
  static std::atomic<int> trimmed;
  trimmed = 0;
  driver_.cuCtxGetLimit = [](size_t* bytes, int) { return *bytes = 1024, driver_result::kSuccess; };
  driver_.cuCtxSetLimit = [](int, size_t) { return ++trimmed, driver_result::kSuccess; };
  add("weights"), add("nccl");

  ASSERT_TRUE(session_.pause({{"weights"}, true}).ok());
  EXPECT_EQ(trimmed, 0);
  ASSERT_TRUE(session_.pause({{"nccl", "kv_cache"}, true}).ok());
  EXPECT_EQ(trimmed, 1);
  EXPECT_TRUE(session_.resume({}).ok());
}

TEST_F(SessionTest, TagsThatNobodyHasAreIgnored) {
  EXPECT_TRUE(session_.pause({{"nobody"}}).ok());
  EXPECT_TRUE(session_.resume({{"nobody"}}).ok());
  EXPECT_EQ(session_.state("nobody"), SessionState::active);
}

/// With other processes, which the test plays: an importer of memory, and an owner whose memory
/// this process imports and does not get.
class SharedSessionTest : public SessionTest {
 protected:
  SharedSessionTest() {
    driver_.cuMemExportToShareableHandle = export_nothing;
    EXPECT_TRUE(sharing_.start().ok());
  }
  ~SharedSessionTest() override { end_service(); }

  /// What a fetch of the memory is answered.
  Fetched::Outcome fetch(const Token& token) {
    Result<Received> reply =
        importer_.ask(context_.self, Fetch{{{token.allocation, token.nonce, false}}});
    EXPECT_TRUE(reply.ok());
    return reply.ok() ? std::get<Fetched>(reply.value().message).outcomes.at(0)
                      : Fetched::Outcome::failed;
  }
  AMEM_NOT_ANALYSED Token token_of(BackingId id) {
    MutexLock lock(registry_.mutex);
    Allocation& allocation = *registry_.find(registry_.find_backing(id)->allocations.at(0));
    const UniqueFd token(sharing_.exports().make_token(allocation).value());
    return read_token(token.get()).value_or(Token{});
  }
  /// This process imports memory with the tag, and has dropped it in a pause.
  void add_dropped_import(const Tag& tag) {
    MutexLock lock(registry_.mutex);
    Allocation& import = registry_.add_import({owner_.id, 2, 3, 5, 0, 0, kBytes, getpid(), tag});
    registry_.backing_of(import).state = BackingState::dropped;
  }

  Node importer_{NodeOptions(),
                 [this](const PeerInfo& from, uint64_t request_id, const Message& asked) {
                   if (std::holds_alternative<Restore>(asked))
                     importer_.service->reply(from.instance, request_id, Restored{true, ""}, {});
                 }};
  Node owner_{
      NodeOptions(), [this](const PeerInfo& from, uint64_t request_id, const Message& asked) {
        if (std::holds_alternative<Fetch>(asked))
          owner_.service->reply(from.instance, request_id,
                                Fetched{{Fetched::Outcome::failed}, {}, "no descriptor"}, {});
      }};
};

// An importer that got the memory would use it, and the next pause would not revoke it.
TEST_F(SharedSessionTest, ResumeWithoutItsImportsLeavesTheMemoryAwayForImporters) {
  const BackingId weights = add("weights");
  const Token token = token_of(weights);
  ASSERT_TRUE(session_.pause({{"weights"}}).ok());
  EXPECT_EQ(fetch(token), Fetched::Outcome::paused);
  add_dropped_import("weights");

  EXPECT_FALSE(session_.resume({{"weights"}}).ok());

  EXPECT_EQ(session_.state("weights"), SessionState::paused);
  EXPECT_EQ(fetch(token), Fetched::Outcome::paused);
}

TEST_F(SharedSessionTest, ResumeWhoseCopyFailsLeavesTheMemoryAwayForImporters) {
  const BackingId weights = add("weights");
  const Token token = token_of(weights);
  ASSERT_TRUE(session_.pause({{"weights"}}).ok());
  set_failing_copy(2);

  EXPECT_FALSE(session_.resume({{"weights"}}).ok());

  EXPECT_EQ(session_.state("weights"), SessionState::paused);
  EXPECT_EQ(fetch(token), Fetched::Outcome::paused);
  ASSERT_TRUE(session_.resume({{"weights"}}).ok());
  EXPECT_TRUE(is_intact(weights));
}

}  // namespace
}  // namespace amem
