// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The import of memory whose owner is paused, by a client that uses it at once.
#include <future>
#include <string>

#include "tests/support/import_fixture.h"

namespace amem {
namespace {

/// The owner is paused, and the client starts work inside its calls, as NCCL does.
class ImportOfAPausedOwnerTest : public ImportTest {
 protected:
  ImportOfAPausedOwnerTest() { client_.peer_gate = PeerGate::imports; }
};

TEST_F(ImportOfAPausedOwnerTest, ReturnsWhenTheOwnerHasResumed) {
  auto imported = import();
  EXPECT_FALSE(is_done(imported)) << "the owner is paused";

  EXPECT_TRUE(restore().ok());

  EXPECT_EQ(imported.get(), driver_result::kSuccess);
  EXPECT_EQ(state(), BackingState::mapped);
}

// The pause could not succeed: the import waits inside a call, which a revoke waits for. The owner
// is paused in part, as after a resume that has failed.
TEST_F(ImportOfAPausedOwnerTest, RefusesARevoke) {
  auto imported = import();
  EXPECT_FALSE(is_done(imported));

  expect_refused_revoke(imported);

  expect_success_when_restored(imported);
}

// The owner answers that it is paused before its pause has succeeded.
TEST_F(ImportOfAPausedOwnerTest, RefusesARevokeThatHasArrivedBefore) {
  client_.holds = true;
  auto revoked = std::async(std::launch::async, [this] {
    return tell(Revoke{10000, {""}, {kShared}, {}});
  });
  EXPECT_TRUE(eventually([this] { return client_.is_quiet.load(); }));

  auto imported = import();

  EXPECT_FALSE(is_revoked(revoked.get()));
  client_.holds = false;
  EXPECT_FALSE(is_done(imported)) << "the owner has not restored it";
  expect_success_when_restored(imported);
}

// It has waited for its work before it has unmapped the memory, and copies now.
TEST_F(ImportTest, RevokeDoesNotWaitForAProcessThatIsPaused) {
  const BackingId dropped = add_dropped(owner_);
  client_.is_busy = true;

  EXPECT_TRUE(is_revoked(tell(Revoke{10000, {""}, {kShared}, {}})));

  EXPECT_FALSE(client_.is_quiet);
  {
    MutexLock lock(registry_.mutex);
    registry_.find_backing(dropped)->state = BackingState::mapped;
  }
  EXPECT_FALSE(is_revoked(tell(Revoke{10000, {""}, {kShared}, {}}))) << "it is at work";
}

TEST_F(ImportOfAPausedOwnerTest, RefusesPausesUntilTheOwnerResumes) {
  auto imported = import();
  // The notice looks at the owner too.
  EXPECT_EQ(imported.wait_for(std::chrono::milliseconds(kLongerThanNotice)),
            std::future_status::timeout);
  EXPECT_TRUE(client_.import_waits());

  EXPECT_TRUE(restore().ok());

  EXPECT_EQ(imported.get(), driver_result::kSuccess);
  EXPECT_FALSE(client_.import_waits());
}

TEST_F(ImportOfAPausedOwnerTest, EndsWithExitWithoutADriverCall) {
  driver_.cuMemRelease = [](DriverHandle) {
    ADD_FAILURE() << "the driver may be unloaded";
    return driver_result::kSuccess;
  };
  auto imported = import();
  EXPECT_FALSE(is_done(imported));

  exiting_.raise();
  sharing_->wake_imports();

  EXPECT_TRUE(fails_early(imported));
  EXPECT_FALSE(client_.import_waits());
}

TEST_F(ImportOfAPausedOwnerTest, EndsIfTheClientGivesItUp) {
  auto imported = import();
  EXPECT_FALSE(is_done(imported));

  context_.peer_table.begin_abort(kNoIdentity);
  sharing_->wake_imports();

  EXPECT_TRUE(fails_early(imported));
  EXPECT_FALSE(client_.import_waits());
}

TEST_F(ImportOfAPausedOwnerTest, WaitsIfTheRevokeHasEnded) {
  EXPECT_TRUE(tell(Revoke{10000, {""}, {kShared}, {}}).ok());
  auto imported = import();
  EXPECT_FALSE(is_done(imported)) << "the owner is paused";

  EXPECT_TRUE(restore().ok());

  EXPECT_EQ(imported.get(), driver_result::kSuccess);
}

TEST_F(ImportOfAPausedOwnerTest, FailsIfTheOwnerHasFreedTheMemory) {
  auto imported = import();
  EXPECT_FALSE(is_done(imported));

  outcome_ = Fetched::Outcome::unknown;
  EXPECT_TRUE(tell(Restore{""}).ok());

  EXPECT_TRUE(fails_early(imported));
}

TEST_F(ImportOfAPausedOwnerTest, WaitsAsLongAsAtAGate) {
  context_.timeout_ms = 500;
  auto imported = import();
  EXPECT_EQ(imported.wait_for(std::chrono::milliseconds(600)), std::future_status::timeout);

  EXPECT_TRUE(restore().ok());

  EXPECT_EQ(imported.get(), driver_result::kSuccess);
}

TEST_F(ImportOfAPausedOwnerTest, FailsIfTheOwnerEnds) {
  auto imported = import();

  sharing_->on_peer_gone({owner_.id, kOwnerPid});

  EXPECT_TRUE(fails_early(imported));
}

TEST_F(ImportOfAPausedOwnerTest, FailsAtTheDeadlineOfAGateAndNamesTheOwner) {
  context_.gate_timeout_ms = kLongerThanNotice;
  testing::internal::CaptureStderr();

  EXPECT_NE(import().get(), driver_result::kSuccess);

  EXPECT_FALSE(client_.import_waits());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("an import waits for the process that owns the memory: process 4711\n"),
            log.npos)
      << log;
  EXPECT_NE(log.find("cannot import memory of process 4711: it is paused"), log.npos) << log;
}

TEST_F(ImportOfAPausedOwnerTest, ReturnsAtOnceIfTheOwnersResumeCouldWaitForTheCaller) {
  client_.peer_gate = PeerGate::calls;
  EXPECT_EQ(import().get(), driver_result::kSuccess);
  EXPECT_EQ(state(), BackingState::revoked);
}

}  // namespace
}  // namespace amem
