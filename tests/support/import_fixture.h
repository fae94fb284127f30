// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <vector>

#include "sharing/sharing.h"
#include "sharing/token.h"
#include "tests/support/peer_fixture.h"
#include "tests/support/sharing_fixture.h"

namespace amem {

inline constexpr pid_t kOwnerPid = 4711;
inline std::vector<UniqueFd> descriptor() {
  std::vector<UniqueFd> fds;
  fds.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return fds;
}

inline constexpr long kLongerThanNotice = kNoticeMs + 500;

/// What this process shares with the owner, also before it imports anything.
inline constexpr ScopeId kShared{{1, 2}};

/// A revoke waits in quiesce_for_peer() while `holds`, and is refused if an import waits.
class GateClient : public IdleClient {
 public:
  explicit GateClient(PeerTable& peers) : peers_(peers) {}
  Status quiesce_for_peer(const Scope&, Deadline) override {
    is_quiet = true;
    EXPECT_TRUE(eventually([this] { return !holds || import_waits(); }));
    if (holds) return make_error(ErrorKind::misuse, 0, "an import waits");
    if (is_busy) return make_error(ErrorKind::timeout, 0, "work does not end");
    return ok_status();
  }
  void reopen_for_peer() override { ++reopened; }
  Scope scope() override { return {kShared}; }
  bool import_waits() {
    MutexLock lock(peers_.mutex);
    const std::string owner = peers_.awaited_owner();
    EXPECT_TRUE(owner.empty() || owner == "process 4711") << owner;
    return !owner.empty();
  }
  std::atomic<bool> holds = false, is_quiet = false, is_busy = false;
  std::atomic<int> reopened = 0;

 private:
  PeerTable& peers_;
};

/// This process imports memory of owners that the test plays.
class FetchWaitTest : public SharingTest {
 protected:
  FetchWaitTest() {
    EXPECT_TRUE(sharing_->start().ok());
    driver_.cuMemImportFromShareableHandle = [](DriverHandle* handle, void*, int) {
      return *handle = 7, driver_result::kSuccess;
    };
    driver_.cuMemGetAllocationPropertiesFromHandle = [](AllocationProperties*, DriverHandle) {
      return driver_result::kSuccess;
    };
    driver_.cuMemRelease = [](DriverHandle) { return driver_result::kSuccess; };
  }
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

  /// No message of a pause closes the gate to the owner.
  bool is_open_to(const Node& owner) {
    return context_.peer_table.of(owner.id, "").state == PeerTable::State::active;
  }

  GateClient client_{context_.peer_table};
  Node silent_;
  std::unique_ptr<Sharing> sharing_ =
      std::make_unique<Sharing>(context_, [](bool) { return std::string(); });
};

/// The owner answers a fetch.
class ImportTest : public FetchWaitTest {
 protected:
  ImportTest() {
    context_.clients = Clients{&client_};
    context_.gate_timeout_ms = kPatienceMs;
  }
  /// Imports on a thread of its own.
  std::future<DriverResult> begin_import() {
    return std::async(std::launch::async, [this] {
      const Result<UniqueFd> token = make_token(token_of(owner_));
      DriverHandle handle = 0;
      DriverResult imported = driver_result::kUnknown;
      EXPECT_TRUE(sharing_->imports().import_token(token.value().get(), &handle, &imported));
      return imported;
    });
  }
  /// The same; returns when the owner has answered and the gate is closed.
  std::future<DriverResult> import() {
    auto result = begin_import();
    EXPECT_TRUE(owner_.recorder.wait_seen(1));
    EXPECT_TRUE(eventually([this] { return !is_open(); }));
    return result;
  }
  Result<Received> tell(Message message) {
    return call_and_wait(*owner_.service, context_.self, std::move(message), {}, patience());
  }
  /// The owner has resumed.
  Result<Received> restore() {
    outcome_ = Fetched::Outcome::here;
    return tell(Restore{""});
  }
  static bool is_revoked(const Result<Received>& reply) {
    return reply.ok() && std::get<Revoked>(reply.value().message).revoked;
  }
  /// The owner pauses again, and its revoke waits for the call that imports.
  void expect_refused_revoke(std::future<DriverResult>& imported) {
    client_.holds = true;
    EXPECT_FALSE(is_revoked(tell(Revoke{10000, {""}, {}, {}})));
    client_.holds = false;
    EXPECT_FALSE(is_done(imported)) << "the owner has not restored it";
    EXPECT_FALSE(is_open());
  }
  /// The owner's pause has failed, and it restores the memory.
  void expect_success_when_restored(std::future<DriverResult>& imported) {
    EXPECT_TRUE(restore().ok());
    EXPECT_EQ(imported.get(), driver_result::kSuccess);
    EXPECT_EQ(state(), BackingState::mapped);
    EXPECT_TRUE(is_open());
    EXPECT_FALSE(client_.import_waits());
  }
  static bool is_done(std::future<DriverResult>& result) {
    return result.wait_for(std::chrono::milliseconds(100)) == std::future_status::ready;
  }
  /// Before the deadline of the gate.
  static bool fails_early(std::future<DriverResult>& result) {
    return result.wait_for(std::chrono::milliseconds(kPatienceMs / 2)) ==
               std::future_status::ready &&
           result.get() != driver_result::kSuccess;
  }
  BackingState state() {
    MutexLock lock(registry_.mutex);
    return registry_.backings().begin()->second.state;
  }

  bool is_open() { return is_open_to(owner_); }

  std::atomic<Fetched::Outcome> outcome_ = Fetched::Outcome::paused;
  Node owner_{NodeOptions(),
              [this](const PeerInfo& from, uint64_t request_id, const Message& message) {
                if (!std::holds_alternative<Fetch>(message)) return;
                const Fetched::Outcome outcome = outcome_;
                owner_.service->reply(
                    from.instance, request_id, Fetched{{outcome}, {}, {}},
                    outcome == Fetched::Outcome::here ? descriptor() : std::vector<UniqueFd>());
              }};
};

}  // namespace amem
