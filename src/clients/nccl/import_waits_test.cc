// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What happens while a thread of NCCL waits for the memory of a paused process: to pauses that wait
// for its call, and to the import when its communicator is aborted.
#include <atomic>
#include <functional>
#include <future>
#include <string>

#include "clients/nccl/doors/nccl_copies.h"
#include "tests/support/import_fixture.h"
#include "tests/support/nccl_objects.h"

namespace amem {
namespace {

constexpr int kCopy = kMaxCopies - 1;
std::function<int(Comm)> g_abort;

int abort_of_nccl(Comm communicator) { return g_abort(communicator); }

/// A call on one of two communicators imports memory of a paused process, on a thread of NCCL.
class ImportWaitsTest : public FetchWaitTest {
 protected:
  ImportWaitsTest() {
    context_.clients = Clients{&nccl_};
    context_.gate_timeout_ms = kPatienceMs;
    nccl_.gate.add_communicator(kWorld, kWorldId);
    nccl_.gate.add_communicator(kOther, kOtherId);
    context_.peer_table.members.note(owner_.id, {kWorldId});
    context_.peer_table.members.note(third_.id, {kOtherId});
    g_abort = [](Comm) { return ncclSuccess; };
    g_nccl_copies[kCopy].real[static_cast<size_t>(NcclFunction::ncclCommAbort)] =
        reinterpret_cast<void*>(&abort_of_nccl);
    objects_.activate();
  }
  ~ImportWaitsTest() override { g_nccl_copies[kCopy].real = {}; }

  /// Stops the work of this process, which has memory that a pause can release.
  std::future<Status> quiesce() {
    MutexLock lock(registry_.mutex);
    registry_.add_local(1, {}, 7, 1, kNcclTag);
    return std::async(std::launch::async, [this] { return nccl_.quiesce(patience()); });
  }
  /// Returns when the owner has answered.
  std::future<DriverResult> import() {
    const int before = fetches_;
    auto imported = std::async(std::launch::async, [this] {
      Token token = token_of(owner_);
      token.tag = kNcclTag;
      const Result<UniqueFd> fd = make_token(token);
      DriverHandle handle = 0;
      DriverResult result = driver_result::kUnknown;
      EXPECT_TRUE(sharing_->imports().import_token(fd.value().get(), &handle, &result));
      return result;
    });
    EXPECT_TRUE(eventually([&] { return fetches_ > before; }));
    return imported;
  }
  static bool is_done(std::future<DriverResult>& imported) {
    return imported.wait_for(std::chrono::milliseconds(100)) == std::future_status::ready;
  }
  void restore() {
    is_paused_ = false;
    EXPECT_TRUE(owner_.ask(context_.self, Restore{kNcclTag}).ok());
  }
  bool aborts(const Node& owner, PeerTable::Time began) {
    return context_.peer_table.aborts_imports(owner.id, began, nccl_.scope());
  }
  bool waits() { return !nccl_.gate.refuse_if_import_waits("").ok(); }
  static int abort(Comm communicator) {
    const void* const door = door_of(kCopy, NcclFunction::ncclCommAbort);
    return reinterpret_cast<int (*)(Comm)>(const_cast<void*>(door))(communicator);
  }
  void expect_end_by_abort(std::future<DriverResult>& imported) {
    EXPECT_EQ(imported.wait_for(std::chrono::milliseconds(kPatienceMs / 2)),
              std::future_status::ready);
    EXPECT_NE(imported.get(), driver_result::kSuccess);
  }

  static inline Comm const kWorld = reinterpret_cast<Comm>(0x1000);
  static inline Comm const kOther = reinterpret_cast<Comm>(0x2000);
  const CommunicatorId kWorldId = communicator_from_bytes("world", 5);
  const CommunicatorId kOtherId = communicator_from_bytes("other", 5);
  static constexpr const char* kWaits =
      ", and NCCL waits to import memory of process 4711, which is paused: resume that process "
      "first";
  NcclObjects objects_{driver_, registry_, *sharing_, context_.peer_table};
  NcclClient& nccl_ = objects_.client;
  std::atomic<int> fetches_ = 0;
  std::atomic<bool> is_paused_ = true;
  Node owner_{NodeOptions(),
              [this](const PeerInfo& from, uint64_t request_id, const Message& message) {
                if (!std::holds_alternative<Fetch>(message)) return;
                using enum Fetched::Outcome;
                owner_.service->reply(from.instance, request_id,
                                      Fetched{{is_paused_ ? paused : here}, {}, {}},
                                      is_paused_ ? std::vector<UniqueFd>() : descriptor());
                ++fetches_;
              }};
  Node third_;
};

TEST_F(ImportWaitsTest, PauseOfThisProcessIsRefusedAtOnce) {
  const CallGate::Entry call(nccl_.gate, "ncclAllReduce", kWorld, 0);
  auto pause = quiesce();
  auto imported = import();

  const Status paused = pause.get();

  ASSERT_FALSE(paused.ok());
  EXPECT_EQ(paused.error().kind, ErrorKind::misuse);
  EXPECT_TRUE(paused.error().message.ends_with(std::string(" is inside ncclAllReduce") + kWaits))
      << paused.error().message;
  EXPECT_FALSE(is_done(imported));
  nccl_.reopen();
  restore();
  EXPECT_EQ(imported.get(), driver_result::kSuccess);
  EXPECT_FALSE(waits());
}

TEST_F(ImportWaitsTest, PauseOfAThirdProcessThatNeedsThisOneQuietIsRefusedAtOnce) {
  const CallGate::Entry call(nccl_.gate, "ncclAllReduce", kOther, 0);
  auto imported = import();

  const Result<Received> reply =
      third_.ask(context_.self, Revoke{kPatienceMs, {kNcclTag}, {kOtherId}});

  ASSERT_TRUE(reply.ok());
  const auto& revoked = std::get<Revoked>(reply.value().message);
  EXPECT_FALSE(revoked.revoked);
  EXPECT_TRUE(revoked.reason.ends_with(kWaits)) << revoked.reason;
  restore();
  EXPECT_EQ(imported.get(), driver_result::kSuccess);
}

TEST_F(ImportWaitsTest, PauseOfAThirdProcessThatWaitsForNoCallSucceeds) {
  const CallGate::Entry call(nccl_.gate, "ncclAllReduce", kWorld, 0);
  auto imported = import();
  EXPECT_TRUE(eventually([this] { return waits(); }));

  const Result<Received> reply =
      third_.ask(context_.self, Revoke{kPatienceMs, {kNcclTag}, {kOtherId}});

  ASSERT_TRUE(reply.ok());
  EXPECT_TRUE(std::get<Revoked>(reply.value().message).revoked);
  restore();
  EXPECT_EQ(imported.get(), driver_result::kSuccess);
}

// Its thread is inside NCCL when no call is.
TEST_F(ImportWaitsTest, OfANonBlockingCommunicatorRefusesAPauseAtOnce) {
  nccl_.async_communicators.note_in_progress();
  nccl_.async_communicators.add(kWorld, [](ncclComm_t, int* state) -> int {
    *state = ncclInProgress;
    return ncclSuccess;
  });
  auto pause = quiesce();
  auto imported = import();

  const Status paused = pause.get();

  ASSERT_FALSE(paused.ok());
  EXPECT_EQ(paused.error().message,
            std::string("a non-blocking communicator is still working (ncclInProgress)") + kWaits);
  restore();
  EXPECT_EQ(imported.get(), driver_result::kSuccess);
}

// ncclCommAbort() waits for the threads of the communicator, which may import more.
TEST_F(ImportWaitsTest, EndsWithAnAbortOfItsCommunicator) {
  auto imported = import();
  EXPECT_FALSE(is_done(imported));
  g_abort = [&](Comm communicator) {
    EXPECT_EQ(communicator, kWorld);
    expect_end_by_abort(imported);
    auto next = import();
    expect_end_by_abort(next);
    return 5;
  };

  EXPECT_EQ(abort(kWorld), 5);

  EXPECT_EQ(nccl_.gate.id_of(kWorld), kNoIdentity) << "it is forgotten";
  auto later = import();
  EXPECT_FALSE(is_done(later)) << "of another communicator";
  restore();
  EXPECT_EQ(later.get(), driver_result::kSuccess);
}

// The thread of the import may look only after the abort has returned.
TEST_F(ImportWaitsTest, ThatBeganBeforeAnAbortEndsAfterIt) {
  const auto before = Deadline::Clock::now();

  EXPECT_EQ(abort(kWorld), ncclSuccess);

  EXPECT_TRUE(aborts(owner_, before));
  EXPECT_FALSE(aborts(owner_, Deadline::Clock::now()));
  EXPECT_FALSE(aborts(third_, before)) << "it is in another communicator";
}

TEST_F(ImportWaitsTest, GoesOnWhenACommunicatorWithoutTheOwnerIsAborted) {
  auto imported = import();
  EXPECT_FALSE(is_done(imported));

  EXPECT_EQ(abort(kOther), ncclSuccess);

  EXPECT_FALSE(is_done(imported));
  restore();
  EXPECT_EQ(imported.get(), driver_result::kSuccess);
}

}  // namespace
}  // namespace amem
