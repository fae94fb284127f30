// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The importer's side of a fetch: what it logs and does while it waits for an owner.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <string>

#include "sharing/sharing.h"
#include "sharing/token.h"
#include "tests/support/peer_fixture.h"
#include "tests/support/sharing_fixture.h"

namespace amem {
namespace {

constexpr pid_t kOwnerPid = 4711;
std::vector<UniqueFd> descriptor() {
  std::vector<UniqueFd> fds;
  fds.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return fds;
}

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

/// Counts what happens to its gate. A revoke waits in quiesce_for_peer() while `holds`.
class GateClient : public IdleClient {
 public:
  void close_for_peer(const InstanceId&, const std::string&, const Scope&) override {
    is_open = false;
  }
  void close_if_shared(const InstanceId&, const std::string&, const Scope&) override {
    is_open = false;
  }
  Status quiesce_for_peer(const Scope&, Deadline) override {
    is_quiet = true;
    EXPECT_TRUE(eventually([this] { return !holds; }));
    return ok_status();
  }
  void reopen_for_peer(const InstanceId&) override {
    is_open = true;
    ++reopened;
  }
  bool uses_imports_at_once() const override { return uses_at_once; }
  std::atomic<bool> is_open = true, holds = false, is_quiet = false, uses_at_once = false;
  std::atomic<int> reopened = 0;
};

/// The owner answers a fetch with memory that it is still filling.
class EarlyImportTest : public FetchWaitTest {
 protected:
  EarlyImportTest() {
    context_.clients = Clients{&client_};
    context_.timeout_ms = kPatienceMs;
    driver_.cuMemImportFromShareableHandle = [](DriverHandle* handle, void*, int) {
      return *handle = 7, driver_result::kSuccess;
    };
    driver_.cuMemGetAllocationPropertiesFromHandle = [](AllocationProperties*, DriverHandle) {
      return driver_result::kSuccess;
    };
    driver_.cuMemRelease = [](DriverHandle) { return driver_result::kSuccess; };
  }
  /// Imports on a thread of its own; returns when the owner has answered.
  std::future<DriverResult> import() {
    auto result = std::async(std::launch::async, [this] {
      const Result<UniqueFd> token = make_token(token_of(owner_));
      DriverHandle handle = 0;
      DriverResult imported = driver_result::kUnknown;
      EXPECT_TRUE(sharing_->imports().import_token(token.value().get(), &handle, &imported));
      return imported;
    });
    EXPECT_TRUE(owner_.recorder.wait_seen(1));
    EXPECT_TRUE(eventually([this] { return !client_.is_open; }));
    return result;
  }
  Result<Received> tell(Message message) {
    return call_and_wait(*owner_.service, context_.self, std::move(message), {}, patience());
  }
  /// The owner has the memory again; with the last part, it is filled.
  Result<Received> restore(bool last = true) {
    return call_and_wait(*owner_.service, context_.self, Restore{"", {5}, last, 0, 1}, descriptor(),
                         patience());
  }
  static bool is_done(std::future<DriverResult>& result) {
    return result.wait_for(std::chrono::milliseconds(100)) == std::future_status::ready;
  }
  BackingState state() {
    MutexLock lock(registry_.mutex);
    return registry_.backings().begin()->second.state;
  }

  GateClient client_;
  std::atomic<Fetched::Outcome> outcome_ = Fetched::Outcome::early;
  Node owner_{NodeOptions(),
              [this](const PeerInfo& from, uint64_t request_id, const Message& message) {
                if (std::holds_alternative<Fetch>(message))
                  owner_.service->reply(
                      from.instance, request_id, Fetched{{outcome_}, {}, {}},
                      outcome_ == Fetched::Outcome::early ? descriptor() : std::vector<UniqueFd>());
              }};
};

// The call that imports it may be inside NCCL, past the gate, and use it at once.
TEST_F(EarlyImportTest, ReturnsWhenTheMemoryIsFilled) {
  auto imported = import();
  EXPECT_FALSE(is_done(imported)) << "it is not filled";

  EXPECT_TRUE(tell(Restore{"", {}, true, 0, 1}).ok());

  EXPECT_EQ(imported.get(), driver_result::kSuccess);
  EXPECT_EQ(state(), BackingState::mapped);
  EXPECT_TRUE(client_.is_open);
}

TEST_F(EarlyImportTest, OfMemoryThatLeavesAgainStaysRevoked) {
  auto imported = import();

  EXPECT_TRUE(tell(Revoke{10000, {""}, {}, {}}).ok());

  EXPECT_EQ(imported.get(), driver_result::kSuccess);
  EXPECT_EQ(state(), BackingState::revoked);
  EXPECT_FALSE(client_.is_open);
}

// As a call that meets a closed gate: it would use what is not mapped.
TEST_F(EarlyImportTest, OfMemoryThatLeavesAgainWaitsForTheResumeIfItIsUsedAtOnce) {
  client_.uses_at_once = true;
  auto imported = import();
  EXPECT_TRUE(tell(Revoke{10000, {""}, {}, {}}).ok());
  EXPECT_FALSE(is_done(imported)) << "the owner is paused";

  EXPECT_TRUE(restore().ok());

  EXPECT_EQ(imported.get(), driver_result::kSuccess);
  EXPECT_EQ(state(), BackingState::mapped);
}

TEST_F(EarlyImportTest, FailsIfTheOwnerEndsBeforeItHasFilledTheMemory) {
  auto imported = import();

  sharing_->on_peer_gone({owner_.id, kOwnerPid, 0});

  EXPECT_NE(imported.get(), driver_result::kSuccess);
}

TEST_F(EarlyImportTest, FailsAtTheDeadlineAndNamesTheOwner) {
  context_.timeout_ms = 100;
  testing::internal::CaptureStderr();

  EXPECT_NE(import().get(), driver_result::kSuccess);

  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("cannot import memory of process 4711: it has not filled the memory"),
            log.npos)
      << log;
}

/// The owner is paused, and the client starts work inside its calls, as NCCL does.
class ImportOfAPausedOwnerTest : public EarlyImportTest {
 protected:
  ImportOfAPausedOwnerTest() {
    client_.uses_at_once = true;
    outcome_ = Fetched::Outcome::away;
  }
};

TEST_F(ImportOfAPausedOwnerTest, ReturnsWhenTheOwnerHasResumed) {
  auto imported = import();
  EXPECT_FALSE(is_done(imported)) << "the owner is paused";

  EXPECT_TRUE(restore(/*last=*/false).ok());
  EXPECT_FALSE(is_done(imported)) << "it is mapped, but not filled";
  EXPECT_TRUE(tell(Restore{"", {}, true, 1, 1}).ok());

  EXPECT_EQ(imported.get(), driver_result::kSuccess);
  EXPECT_EQ(state(), BackingState::mapped);
}

TEST_F(ImportOfAPausedOwnerTest, FailsIfTheOwnerEnds) {
  auto imported = import();

  sharing_->on_peer_gone({owner_.id, kOwnerPid, 0});

  EXPECT_NE(imported.get(), driver_result::kSuccess);
}

TEST_F(ImportOfAPausedOwnerTest, FailsAtTheDeadlineOfAGateAndNamesTheOwner) {
  context_.gate_timeout_ms = kLongerThanNotice;
  testing::internal::CaptureStderr();

  EXPECT_NE(import().get(), driver_result::kSuccess);

  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("an import waits for the process that owns the memory: process 4711\n"),
            log.npos)
      << log;
  EXPECT_NE(log.find("cannot import memory of process 4711: it is paused"), log.npos) << log;
}

TEST_F(ImportOfAPausedOwnerTest, ReturnsAtOnceIfTheOwnersResumeCouldWaitForTheCaller) {
  client_.uses_at_once = false;
  EXPECT_EQ(import().get(), driver_result::kSuccess);
  EXPECT_EQ(state(), BackingState::revoked);
}

/// What arrives here from an owner, in order, while the worker is busy with the first message.
class LateRestoreTest : public EarlyImportTest {
 protected:
  void send(Message message) {
    owner_.service->call(context_.self, std::move(message), {}, patience(),
                         [](const Result<Received>&) {});
  }
  void hold_the_worker() {
    client_.holds = true;
    send(Revoke{10000, {"other"}, {}, {}});
    ASSERT_TRUE(eventually([this] { return client_.is_quiet.load(); }));
    client_.is_open = true;  // so that the test sees the next time it is closed
  }
};

// Between the two, a call would pass the gate and meet a paused owner, or memory that is being
// filled.
TEST_F(LateRestoreTest, OfAnEarlierPauseDoesNotOpenTheGate) {
  hold_the_worker();
  send(Restore{"", {}, true, 0, 1});
  send(Away{"", {}});
  ASSERT_TRUE(eventually([this] { return !client_.is_open; }));

  client_.holds = false;

  EXPECT_TRUE(tell(Restore{"", {}, true, 0, 2}).ok());
  EXPECT_EQ(client_.reopened, 1);
  EXPECT_TRUE(client_.is_open);
}

TEST_F(LateRestoreTest, OfAnEarlierPauseDoesNotOpenTheGateOfMemoryThatWasFetchedEarly) {
  hold_the_worker();
  send(Restore{"", {}, true, 0, 1});
  auto imported = import();

  client_.holds = false;

  // Behind the restore, and before the owner has filled the memory.
  EXPECT_TRUE(tell(Restore{"", {}, false, 0, 2}).ok());
  EXPECT_EQ(client_.reopened, 0);
  EXPECT_FALSE(is_done(imported));
  EXPECT_TRUE(tell(Restore{"", {}, true, 0, 2}).ok());
  EXPECT_EQ(client_.reopened, 1);
  EXPECT_EQ(imported.get(), driver_result::kSuccess);
}

}  // namespace
}  // namespace amem
