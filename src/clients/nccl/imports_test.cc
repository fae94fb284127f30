// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What an owner's messages do to the gates and to its memory here, in every order in which they
// come.
#include "sharing/imports.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <optional>
#include <thread>

#include "clients/nccl/nccl_client.h"
#include "sharing/sharing.h"
#include "sharing/token.h"
#include "tests/support/nccl_objects.h"
#include "tests/support/no_exchange.h"
#include "tests/support/peer_fixture.h"
#include "tests/support/sharing_fixture.h"

namespace amem {
namespace {

constexpr DeviceAddress kAddress = 0x10000000;
constexpr size_t kBytes = size_t{2} << 20;
const CommunicatorId kWorld = communicator_from_bytes("world", 5);

struct {
  std::atomic<int> unmaps;
  std::atomic<int> maps;
  std::atomic<DriverResult> map_result;
  std::atomic<int> failing_unmap;  ///< its number; 0: none
} g_calls;

std::vector<UniqueFd> descriptor() {
  std::vector<UniqueFd> fds;
  fds.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return fds;
}

/// An owner that is not paused.
class Owner {
 public:
  InstanceId id() const { return node_.id; }
  Node* operator->() { return &node_; }

 private:
  Node node_{NodeOptions(),
             [this](const PeerInfo& from, uint64_t request_id, const Message& message) {
               const auto* fetch = std::get_if<Fetch>(&message);
               if (fetch == nullptr) return;
               Fetched answer;
               std::vector<UniqueFd> fds;
               for (size_t i = 0; i < fetch->items.size(); ++i) {
                 answer.outcomes.push_back(Fetched::Outcome::here);
                 fds.push_back(std::move(descriptor().front()));
               }
               node_.service->reply(from.instance, request_id, std::move(answer), std::move(fds));
             }};
};

class ImportsTest : public SharingTest {
 protected:
  ImportsTest() {
    driver_.cuMemImportFromShareableHandle = [](DriverHandle* handle, void*, int) {
      return *handle = 7, driver_result::kSuccess;
    };
    driver_.cuMemMap = [](DeviceAddress, size_t, size_t, DriverHandle, unsigned long long) {
      return ++g_calls.maps, g_calls.map_result.load();
    };
    driver_.cuGetErrorName = [](DriverResult, const char** name) {
      *name = "CUDA_ERROR_UNKNOWN";
      return driver_result::kSuccess;
    };
    g_calls.maps = 0;
    g_calls.map_result = driver_result::kSuccess;
    g_calls.unmaps = 0;
    g_calls.failing_unmap = 0;
    driver_.cuMemUnmap = [](DeviceAddress, size_t) {
      return ++g_calls.unmaps == g_calls.failing_unmap ? driver_result::kUnknown
                                                       : driver_result::kSuccess;
    };
    driver_.cuMemRelease = [](DriverHandle) { return driver_result::kSuccess; };
    EXPECT_TRUE(sharing_->start().ok());
    context_.clients = Clients{&nccl_};
    gate().add_communicator(kCommunicator, kWorld);
    import_ = add_import(owner_.instance, kAddress);
  }
  ~ImportsTest() override { end_service(std::move(sharing_)); }

  BackingId add_import(const InstanceId& owner, DeviceAddress address,
                       BackingId of_owner = kBacking) {
    MutexLock lock(registry_.mutex);
    Allocation& import =
        registry_.add_import({owner, 1, 2, of_owner, 0, 0, kBytes, kOwnerPid, kNcclTag});
    registry_.add_mapping(import, address, kBytes);
    Backing& backing = registry_.backing_of(import);
    registry_.add_placement(backing, address, kBytes);
    return backing.id;
  }

  CallGate& gate() { return nccl_.gate; }
  Imports& imports() { return sharing_->imports(); }
  void away() { imports().on_revoke(owner_, 0, Revoke{0, {kNcclTag}, {kWorld}}); }
  void revoked() { imports().on_revoke(owner_, 0, Revoke{kTimeoutMs, {kNcclTag}, {kWorld}}); }
  void map_and_revoke() {
    set_state(BackingState::mapped);
    revoked();
    EXPECT_TRUE(eventually([&] { return state() == BackingState::revoked; }));
  }
  void back() { imports().on_restore(owner_, 0, Restore{kNcclTag}); }
  void expect_back() {
    back();
    EXPECT_TRUE(eventually([&] { return is_open(); }));
    EXPECT_EQ(state(), BackingState::mapped);
  }
  void end_owner() { running_owner_.reset(); }

  bool is_open() { return CallGate::Entry(gate(), "ncclAllReduce", kCommunicator, 0).is_inside(); }
  BackingState state() { return state_of(import_); }
  BackingState state_of(BackingId id) {
    MutexLock lock(registry_.mutex);
    return registry_.find_backing(id)->state;
  }
  void set_state(BackingState state) { set_state(import_, state); }
  void set_state(BackingId id, BackingState state) {
    MutexLock lock(registry_.mutex);
    Backing& import = *registry_.find_backing(id);
    import.state = state;
    import.handle = state == BackingState::mapped ? 7 : 0;
    import.placements.front().mapped = state == BackingState::mapped;
  }

  static constexpr uint32_t kTimeoutMs = 10000, kShortMs = 200;
  static constexpr BackingId kBacking = 5;
  NoExchange exchange_;
  NcclObjects objects_{driver_, registry_, exchange_, context_.peer_table};
  NcclClient& nccl_ = objects_.client;
  const ncclComm_t kCommunicator = reinterpret_cast<ncclComm_t>(&nccl_);
  static constexpr pid_t kOwnerPid = 4711;
  std::unique_ptr<Sharing> sharing_ =
      std::make_unique<Sharing>(context_, [](bool) { return std::string(); });
  std::optional<Owner> running_owner_{std::in_place};
  const PeerInfo owner_{running_owner_->id(), kOwnerPid};
  BackingId import_ = 0;
};

TEST_F(ImportsTest, OwnerThatIsBackIsMappedAndItsGatesAreOpen) {
  map_and_revoke();
  EXPECT_FALSE(is_open());

  expect_back();
}

TEST_F(ImportsTest, MemoryThatStaysIsNotUnmapped) {
  constexpr BackingId kOther = kBacking + 1;
  const BackingId other = add_import(owner_.instance, kAddress + kBytes, kOther);
  for (const BackingId id : {import_, other}) set_state(id, BackingState::mapped);

  imports().on_revoke(owner_, 0, Revoke{kTimeoutMs, {kNcclTag}, {kWorld}, {kOther}});

  EXPECT_TRUE(eventually([&] { return state() == BackingState::revoked; }));
  EXPECT_FALSE(is_open());
  back();
  EXPECT_TRUE(eventually([&] { return is_open(); }));
  EXPECT_EQ(state_of(other), BackingState::mapped);
}

// What could not be mapped is not lost, and nobody uses what is not there, until it is mapped.
TEST_F(ImportsTest, FailedRestoreKeepsTheGatesClosedUntilItsOwnerTriesAgain) {
  constexpr BackingId kOther = kBacking + 1;
  const BackingId other = add_import(owner_.instance, kAddress + kBytes, kOther);
  for (const BackingId id : {import_, other}) set_state(id, BackingState::mapped);
  revoked();
  ASSERT_TRUE(eventually([&] { return state_of(other) == BackingState::revoked; }));

  g_calls.map_result = driver_result::kOutOfMemory;
  back();
  ASSERT_TRUE(eventually([] { return g_calls.maps == 2; }));
  g_calls.map_result = driver_result::kSuccess;
  EXPECT_EQ(state(), BackingState::revoked);
  EXPECT_FALSE(is_open());

  expect_back();
  EXPECT_EQ(state_of(other), BackingState::mapped);
}

// A process that did not answer finds all of it in its socket at once. The first return must not
// open the gate for calls that would use what the second revoke takes away.
TEST_F(ImportsTest, GateStaysClosedWhenAnEarlierReturnIsCarriedOutLate) {
  set_state(BackingState::mapped);
  {
    const CallGate::Entry delays(gate(), "ncclAllReduce", kCommunicator, 0);
    revoked();
    back();
    revoked();
  }

  ASSERT_TRUE(eventually([&] { return g_calls.unmaps == 2; }));
  EXPECT_EQ(state(), BackingState::revoked);
  EXPECT_FALSE(is_open());

  expect_back();
}

TEST_F(ImportsTest, GateOfABystanderStaysClosedLikewise) {
  set_state(BackingState::mapped);
  {
    const CallGate::Entry delays(gate(), "ncclAllReduce", kCommunicator, 0);
    revoked();
    back();
    away();
  }

  ASSERT_TRUE(eventually([&] { return state() == BackingState::mapped; }));
  EXPECT_TRUE(eventually([&] { return !is_open(); }));
  back();
  EXPECT_TRUE(eventually([&] { return is_open(); }));
}

TEST_F(ImportsTest, ImportOfAPausedProcessStaysDropped) {
  set_state(BackingState::dropped);
  revoked();
  back();
  EXPECT_TRUE(eventually([&] { return is_open(); }));
  EXPECT_EQ(state(), BackingState::dropped);
}

// It was not away itself, so that nobody has closed a gate for it. What it had here is not mapped
// any more, and a kernel that touches that would cost us the context.
TEST_F(ImportsTest, OwnerThatEndedWhileWeWereAwayClosesItsGatesForEver) {
  set_state(BackingState::dropped);
  end_owner();

  EXPECT_TRUE(imports().fetch({import_}, BackingState::dropped, patience()).ok());

  EXPECT_EQ(state(), BackingState::lost);
  const CallGate::Entry refused(gate(), "ncclAllReduce", kCommunicator, kPatienceMs);
  ASSERT_FALSE(refused.is_inside());
  EXPECT_EQ(refused.refusal().kind, ErrorKind::peer);
  EXPECT_EQ(refused.refusal().message,
            "ncclAllReduce: a member of this communicator, process 4711, has ended (it may not be "
            "a member); "
            "abort the communicator");
}

TEST_F(ImportsTest, OwnerThatEndedClosesNoGateThatItIsKnownToHaveNoPartIn) {
  set_state(BackingState::dropped);
  end_owner();
  context_.peer_table.members.note(owner_.instance, {communicator_from_bytes("other", 5)});

  EXPECT_TRUE(imports().fetch({import_}, BackingState::dropped, patience()).ok());

  EXPECT_EQ(state(), BackingState::lost);
  EXPECT_TRUE(is_open());
}

// Nobody is inside a call and no device has work, and yet a kernel is going to use the memory.
TEST_F(ImportsTest, NothingIsRevokedWhileNcclHasYetToLaunch) {
  nccl_.async_communicators.note_in_progress();
  nccl_.async_communicators.add(kCommunicator, [](ncclComm_t, int* state) -> int {
    EXPECT_EQ(g_calls.unmaps, 0);
    *state = ncclInProgress;
    return ncclSuccess;
  });
  Node owner;
  const BackingId import = add_import(owner.id, kAddress + kBytes);
  set_state(import, BackingState::mapped);

  const Result<Received> reply = owner.ask(context_.self, Revoke{kShortMs, {kNcclTag}, {kWorld}});

  ASSERT_TRUE(reply.ok());
  const auto& revoked = std::get<Revoked>(reply.value().message);
  EXPECT_FALSE(revoked.revoked);
  EXPECT_EQ(revoked.reason, "a non-blocking communicator is still working (ncclInProgress)");
  EXPECT_EQ(g_calls.unmaps, 0);
  EXPECT_TRUE(is_open());
}

// Its pause has failed, and it brings all back. Until then what was unmapped is not there.
TEST_F(ImportsTest, GateStaysClosedAfterHalfWasRevoked) {
  constexpr BackingId kOther = kBacking + 1;
  Owner owner;
  const BackingId first = add_import(owner.id(), kAddress + kBytes);
  const BackingId second = add_import(owner.id(), kAddress + 2 * kBytes, kOther);
  for (const BackingId id : {first, second}) set_state(id, BackingState::mapped);
  g_calls.failing_unmap = 2;

  const Result<Received> reply =
      owner->ask(context_.self, Revoke{kTimeoutMs, {kNcclTag}, {kWorld}});

  ASSERT_TRUE(reply.ok());
  EXPECT_FALSE(std::get<Revoked>(reply.value().message).revoked);
  EXPECT_EQ(state_of(first), BackingState::revoked);
  EXPECT_FALSE(is_open());

  const Result<Received> taken = owner->ask(context_.self, Restore{kNcclTag});
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(state_of(first), BackingState::mapped);
  EXPECT_EQ(state_of(second), BackingState::mapped);
  EXPECT_TRUE(is_open());
}

// Of all errors only the driver's have codes that NCCL may be given; those of others may be 0.
TEST_F(ImportsTest, FirstImportThatFailsIsNoSuccess) {
  Node owner(NodeOptions(), [&](const PeerInfo& from, uint64_t request_id, const Message& message) {
    if (!std::holds_alternative<Fetch>(message)) return;
    exiting_.raise();
    owner.service->reply(from.instance, request_id, Fetched{{Fetched::Outcome::here}, {}, {}},
                         descriptor());
  });
  const Result<UniqueFd> token =
      make_token({owner.id, 1, 2, kOwnerPid, kBacking + 2, 0, 0, kBytes});
  ASSERT_TRUE(token.ok());
  DriverHandle handle = 0;
  DriverResult result = driver_result::kSuccess;

  ASSERT_TRUE(imports().import_token(token.value().get(), &handle, &result));

  EXPECT_EQ(result, driver_result::kInvalidValue);
  EXPECT_EQ(handle, 0u);
}

// Its number alone may be a guess, or that of a place in a slab which another allocation has now.
TEST_F(ImportsTest, TokenOfOurOwnIsTakenWithItsNonceOnly) {
  AllocationId id = 0;
  {
    MutexLock lock(registry_.mutex);
    Allocation& ours = registry_.add_local(kBytes, {}, 0x1000, kBytes);
    ours.nonce = 99;
    id = ours.id;
  }
  const auto import = [&](AllocationId allocation, uint64_t nonce, DriverHandle* handle) {
    const Token token{context_.self, allocation, nonce};
    const Result<UniqueFd> fd = make_token(token);
    DriverResult result = driver_result::kUnknown;
    EXPECT_TRUE(fd.ok() && imports().import_token(fd.value().get(), handle, &result));
    return result;
  };
  const auto references = [&] {
    MutexLock lock(registry_.mutex);
    return registry_.find(id)->handle_references;
  };
  const auto before = references();
  DriverHandle handle = 0;

  EXPECT_EQ(import(id, 98, &handle), driver_result::kInvalidValue);
  EXPECT_EQ(import(id + 1, 99, &handle), driver_result::kInvalidValue);
  EXPECT_EQ(handle, 0u);
  EXPECT_EQ(references(), before);

  EXPECT_EQ(import(id, 99, &handle), driver_result::kSuccess);
  EXPECT_EQ(handle, handle_of(id));
  EXPECT_EQ(references(), before + 1);
}

// A resume maps what it has fetched when all owners have answered. One of them may have left again
// by then, and waits for nobody to map its memory.
TEST_F(ImportsTest, WhatWasFetchedIsGivenUpWhenItsOwnerLeavesBeforeItIsMapped) {
  Node slow;
  Owner quick;
  const BackingId of_quick = add_import(quick.id(), kAddress + kBytes);
  const BackingId of_slow = add_import(slow.id, kAddress + 2 * kBytes);
  for (const BackingId id : {of_quick, of_slow}) set_state(id, BackingState::dropped);
  auto resume = std::async(std::launch::async, [&] {
    return imports().fetch({of_quick, of_slow}, BackingState::dropped, patience());
  });
  ASSERT_TRUE(quick->recorder.wait_seen(1));
  ASSERT_TRUE(slow.recorder.wait_seen(1));

  // Behind its answer, on the same connection.
  const Result<Received> gone = quick->ask(context_.self, Revoke{kTimeoutMs, {kNcclTag}, {kWorld}});
  ASSERT_TRUE(gone.ok());
  EXPECT_TRUE(std::get<Revoked>(gone.value().message).revoked);
  EXPECT_EQ(state_of(of_quick), BackingState::revoked);
  const Recorder::Seen asked = std::move(slow.recorder.take_seen().front());
  slow.service->reply(context_.self, asked.request_id, Fetched{{Fetched::Outcome::here}, {}, {}},
                      descriptor());

  EXPECT_TRUE(resume.get().ok());
  EXPECT_EQ(state_of(of_slow), BackingState::mapped);
  EXPECT_EQ(state_of(of_quick), BackingState::revoked);
  EXPECT_FALSE(is_open());
  const Result<Received> taken = quick->ask(context_.self, Restore{kNcclTag});
  EXPECT_TRUE(taken.ok());
  EXPECT_EQ(state_of(of_quick), BackingState::mapped);
  EXPECT_TRUE(is_open());
}

}  // namespace
}  // namespace amem
