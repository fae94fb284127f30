// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The owner's side of a revoke and of a restore.
#include <gtest/gtest.h>

#include <thread>

#include "sharing/exports.h"
#include "tests/support/peer_fixture.h"
#include "tests/support/sharing_fixture.h"

namespace amem {
namespace {

class RevokeTest : public SharingTest {
 protected:
  RevokeTest() {
    driver_.cuMemExportToShareableHandle = export_nothing;
    start_service(nobody_);
    MutexLock lock(registry_.mutex);
    registry_.add_local(kSlotBytes, {}, 1, kSlotBytes).importers = {importer_.id};
  }
  ~RevokeTest() override { end_service(); }

  std::shared_ptr<Replies> restore(Deadline deadline) { return exports_.restore({""}, deadline); }

  Nobody nobody_;
  Node importer_{NodeOptions(),
                 [this](const PeerInfo& from, uint64_t request_id, const Message& message) {
                   if (std::holds_alternative<Revoke>(message))
                     importer_.service->reply(from.instance, request_id, Revoked{true, {}, {}}, {});
                   if (std::holds_alternative<Restore>(message))
                     importer_.service->reply(from.instance, request_id, Restored{true, {}}, {});
                 }};
  Exports exports_{context_};
};

/// Memory of many tags, of which importers have some.
class ManyTagsTest : public RevokeTest {
 protected:
  ManyTagsTest() {
    context_.clients = Clients{&client_};
    MutexLock lock(registry_.mutex);
    registry_.allocations().begin()->second.importers.clear();
  }
  /// "t0" and so on: imported by importer_ up to the first of these counts, by nobody up to the
  /// second.
  void add_tags(int imported, int all) {
    MutexLock lock(registry_.mutex);
    for (int i = 0; i < all; ++i) {
      const Tag tag = "t" + std::to_string(i);
      Allocation& allocation = registry_.add_local(kSlotBytes, {}, 1, kSlotBytes, tag);
      if (i < imported) allocation.importers = {importer_.id};
      tags_.insert(tag);
    }
  }
  /// The tags of each message of type T that the importer has received.
  template <typename T>
  std::vector<std::vector<Tag>> received() {
    std::vector<std::vector<Tag>> all;
    for (const Recorder::Seen& one : importer_.recorder.take_seen())
      if (const auto* message = std::get_if<T>(&one.received.message)) {
        if constexpr (std::is_same_v<T, Revoke>)
          all.push_back(message->tags);
        else
          all.push_back({message->tag});
      }
    return all;
  }

  ScopedClient client_;
  Tags tags_;
};

TEST_F(ManyTagsTest, ImporterIsAskedForThoseThatItImports) {
  client_.communicators = 0;
  add_tags(2, 300);

  EXPECT_TRUE(exports_.revoke(tags_, patience()).ok());

  EXPECT_EQ(received<Revoke>(), (std::vector<std::vector<Tag>>{{"t0", "t1"}}));
  const auto replies = exports_.restore(tags_, patience());
  EXPECT_TRUE(replies->wait(patience()).ok());
}

class CountOfTags : public ManyTagsTest, public testing::WithParamInterface<size_t> {};
INSTANTIATE_TEST_SUITE_P(Is, CountOfTags,
                         testing::Values(1, kMaxTags, kMaxTags + 1, 2 * kMaxTags, 2 * kMaxTags + 1),
                         testing::PrintToStringParamName());

TEST_P(CountOfTags, IsSplitIntoAsManyMessagesAsItNeeds) {
  client_.communicators = 0;
  add_tags(static_cast<int>(GetParam()), static_cast<int>(GetParam()));

  const Status status = exports_.revoke(tags_, patience());

  EXPECT_TRUE(status.ok()) << status.error().message;
  const auto messages = received<Revoke>();
  EXPECT_EQ(messages.size(), (GetParam() + kMaxTags - 1) / kMaxTags);
  Tags asked;
  for (const std::vector<Tag>& tags : messages) asked.insert(tags.begin(), tags.end());
  EXPECT_EQ(asked, tags_);
  // All of them come back.
  const auto replies = exports_.restore(tags_, patience());
  EXPECT_TRUE(replies->wait(patience()).ok());
  Tags restored;
  for (const std::vector<Tag>& tags : received<Restore>()) restored.insert(tags.front());
  EXPECT_EQ(restored, tags_);
}

// Its calls that share a communicator must wait.
TEST_F(ManyTagsTest, ImporterIsToldOfAllThatShareItsScope) {
  add_tags(1, 2);

  EXPECT_TRUE(exports_.revoke(tags_, patience()).ok());

  EXPECT_EQ(received<Revoke>(), (std::vector<std::vector<Tag>>{{"t0", "t1"}}));
}

TEST_F(ManyTagsTest, AsManyCommunicatorsAsAMessageNamesArePossible) {
  client_.communicators = kMaxScope;
  add_tags(1, 1);

  EXPECT_TRUE(exports_.revoke(tags_, patience()).ok());
}

TEST_F(ManyTagsTest, MoreCommunicatorsThanAMessageNamesRefuseThePause) {
  client_.communicators = kMaxScope + 1;
  add_tags(1, 1);

  const Status status = exports_.revoke(tags_, patience());

  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("this process has 2001 communicators"), std::string::npos)
      << status.error().message;
  EXPECT_TRUE(importer_.recorder.take_seen().empty());
}

class RestoreTest : public RevokeTest {
 protected:
  RestoreTest() {
    MutexLock lock(registry_.mutex);
    registry_.add_local(kSlotBytes, {}, 1, kSlotBytes).importers = {slow_.id};
  }
  Node slow_;
};

// It was stopped, say, and nobody waits for it any more.
TEST_F(RestoreTest, OneThatIsSlowIsToldAgain) {
  context_.timeout_ms = 200;
  const Status status = restore(Deadline::after_ms(50))->wait(patience());

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::timeout);
  ASSERT_TRUE(slow_.recorder.wait_seen(2));
  for (const Recorder::Seen& one : slow_.recorder.take_seen())
    EXPECT_TRUE(std::holds_alternative<Restore>(one.received.message));
}

TEST_F(RestoreTest, WaitNamesTheImporterThatHasNotMappedIt) {
  testing::internal::CaptureStderr();
  const Deadline deadline = Deadline::after_ms(2500);
  EXPECT_FALSE(restore(deadline)->wait(deadline, "a resume waits").ok());
  const std::string log = testing::internal::GetCapturedStderr();
  // The other importer has replied.
  EXPECT_NE(log.find("a resume waits: a process of another container\n"), log.npos) << log;
}

TEST_F(RevokeTest, ImporterKeepsMemoryThatIsPersistent) {
  BackingId staying = 0;
  {
    MutexLock lock(registry_.mutex);
    Allocation& allocation = registry_.add_local(kSlotBytes, {}, 1, kSlotBytes);
    allocation.make_persistent("for this test");
    allocation.importers = {importer_.id};
    staying = allocation.backing;
  }
  EXPECT_TRUE(exports_.revoke({""}, patience()).ok());

  const std::vector<Recorder::Seen> seen = importer_.recorder.take_seen();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(std::get<Revoke>(seen.front().received.message).staying,
            std::vector<BackingId>{staying});
  // Also if the allocation that was persistent has gone meanwhile.
  const auto stays = [&] {
    MutexLock lock(registry_.mutex);
    Backing& backing = *registry_.find_backing(staying);
    for (const auto& [offset_bytes, id] : backing.allocations)
      registry_.find(id)->kind = Kind::keep;
    return is_persistent(backing, registry_.allocations());
  };
  EXPECT_TRUE(stays());
  (void)restore(patience());
  EXPECT_FALSE(stays());
}

/// The connection to the importer breaks when a request has arrived there.
class BrokenRevokeTest : public RevokeTest {
 protected:
  BrokenRevokeTest() {
    MutexLock lock(registry_.mutex);
    registry_.allocations().begin()->second.importers = {listener_.id};
  }
  /// Answers the second request of type T.
  template <typename T>
  std::thread answer_the_second(Message answer) {
    return std::thread([this, answer = std::move(answer)] {
      for (const bool breaks : {true, false}) {
        peer_ = listener_.accept_one();
        ASSERT_TRUE(peer_);
        peer_->greet(listener_.id);
        (void)peer_->next_message();
        const auto request = peer_->next_message();
        ASSERT_TRUE(request && std::holds_alternative<T>(request->message));
        if (!breaks) peer_->send(request->request_id, answer);
        if (breaks) peer_.reset();
      }
    });
  }
  RawListener listener_;
  std::unique_ptr<RawPeer> peer_;
};

TEST_F(BrokenRevokeTest, IsRepeated) {
  std::thread importer = answer_the_second<Revoke>(Revoked{true, {}, {}});
  const Status status = exports_.revoke({""}, patience());
  EXPECT_TRUE(status.ok()) << status.error().message;
  importer.join();
}

TEST_F(BrokenRevokeTest, RestoreIsRepeated) {
  std::thread importer = answer_the_second<Restore>(Restored{true, {}});
  const Status status = restore(patience())->wait(patience());
  EXPECT_TRUE(status.ok()) << status.error().message;
  importer.join();
}

// On the new connection the restore of the rollback comes first. A revoke that follows it would
// close the gates of the importer for good.
TEST_F(BrokenRevokeTest, OfAPauseThatHasEndedIsNotRepeated) {
  ScopedClient refused;
  refused.communicators = kMaxScope + 1;
  context_.clients = Clients{&idle_, &refused};
  ASSERT_FALSE(exports_.revoke({""}, patience()).ok());
  peer_ = listener_.accept_one();
  ASSERT_TRUE(peer_);
  peer_->greet(listener_.id);
  (void)peer_->next_message();
  const auto revoke = peer_->next_message();
  ASSERT_TRUE(revoke && std::holds_alternative<Revoke>(revoke->message));
  peer_.reset();
  peer_ = listener_.accept_one();
  ASSERT_TRUE(peer_);
  (void)peer_->next_message();

  const auto replies = restore(patience());
  const auto back = peer_->next_message();
  ASSERT_TRUE(back && std::holds_alternative<Restore>(back->message));
  peer_->greet(listener_.id);  // now the revoke is known to be lost
  peer_->send(back->request_id, Restored{true, {}});
  EXPECT_TRUE(replies->wait(patience()).ok());

  context_.peers.load()->send(listener_.id, Drop{{1}}, {});
  const auto next = peer_->next_message();
  ASSERT_TRUE(next);
  EXPECT_TRUE(std::holds_alternative<Drop>(next->message)) << name_of(next->message);
}

class UnreachableImporterTest : public RevokeTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(SocketIs, UnreachableImporterTest, testing::Bool(),
                         [](const auto& is_gone) {
                           return std::string(is_gone.param ? "Removed" : "Closed");
                         });

/// An importer that closes its sockets when it is asked, as a program does that closes every file
/// number it does not know; or whose socket in /dev/shm is removed.
TEST_P(UnreachableImporterTest, ThatLivesRefusesThePauseAndIsNamed) {
  RawListener listener;
  {
    MutexLock lock(registry_.mutex);
    registry_.allocations().begin()->second.importers = {listener.id};
  }
  std::thread importer([&] {
    const auto raw = listener.accept_one();
    raw->greet(listener.id);
    while (const auto message = raw->next_message())
      if (std::holds_alternative<Revoke>(message->message)) break;
    if (GetParam())
      unlink(socket_path(listener.id).c_str());
    else
      listener.close();
  });

  const Status status = exports_.revoke({""}, Deadline::after_ms(500));

  importer.join();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find(" " + std::to_string(getpid()) + " "), std::string::npos)
      << status.error().message;
  EXPECT_NE(status.error().message.find("closed its connection but lives"), std::string::npos)
      << status.error().message;
}

}  // namespace
}  // namespace amem
