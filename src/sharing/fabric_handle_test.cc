// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Fabric handles that stand for memory of this host: who gets one, and what a forged one reaches.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "sharing/sharing.h"
#include "sharing/token.h"
#include "tests/support/peer_fixture.h"
#include "tests/support/sharing_fixture.h"

namespace amem {
namespace {

/// This process owns memory; `importer` is another instance, with its own objects.
class FabricHandleTest : public SharingTest {
 protected:
  FabricHandleTest() {
    driver_.cuMemExportToShareableHandle = export_nothing;
    driver_.cuDeviceGetAttribute = [](int* value, int attribute, int) {
      *value = attribute == kAttributeFabric && g_is_supported;
      return driver_result::kSuccess;
    };
    g_is_supported = true;
    EXPECT_TRUE(sharing_->start().ok());
    MutexLock lock(registry_.mutex);
    shared_ = registry_.add_local(1 << 21, {}, 0x1000, 1 << 21).id;
    symmetric_ = registry_.add_local(1 << 21, {}, 0x2000, 1 << 21, kSymmetricTag).id;
  }
  ~FabricHandleTest() override {
    for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) unsetenv(name);
    end_service(std::move(sharing_));
  }

  std::optional<IpcHandle> handle_of_ours(AllocationId id) {
    MutexLock lock(registry_.mutex);
    const auto made = sharing_->make_fabric_handle(*registry_.find(id));
    if (!made.has_value()) return std::nullopt;
    return decode_ipc_handle(made->value());
  }
  void join(int members = 1) { sharing_->join({random_instance_id().bits}, members, 0); }
  Result<DriverHandle> import(IpcHandle handle) {
    handle.is_fabric = true;
    return sharing_->import_ipc_handle(encode_ipc_handle(handle)).value();
  }

  std::unique_ptr<Sharing> sharing_ = std::make_unique<Sharing>(context_, [](bool) { return ""; });
  AllocationId shared_ = 0, symmetric_ = 0;
  static inline bool g_is_supported = true;
};

TEST_F(FabricHandleTest, IsMadeWhenAllMembersOfAllScopesAreHere) {
  EXPECT_EQ(handle_of_ours(shared_), std::nullopt) << "no importer is known";
  join();
  const std::optional<IpcHandle> made = handle_of_ours(shared_);
  ASSERT_TRUE(made.has_value());
  EXPECT_TRUE(made->is_fabric);
  EXPECT_EQ(made->owner, context_.self);
  EXPECT_EQ(made->allocation, shared_);
  join(2);
  EXPECT_EQ(handle_of_ours(shared_), std::nullopt);
}

TEST_F(FabricHandleTest, IsNeverMadeWhereTheGpuHasNone) {
  g_is_supported = false;
  join();
  EXPECT_EQ(handle_of_ours(shared_), std::nullopt);
}

// Its importers are not the members of NCCL's communicators.
TEST_F(FabricHandleTest, OfSymmetricMemoryIsMadeIfTheLauncherHasStartedAllRanksHere) {
  join();
  EXPECT_EQ(handle_of_ours(symmetric_), std::nullopt);
  setenv("WORLD_SIZE", "8", 1);
  EXPECT_EQ(handle_of_ours(symmetric_), std::nullopt);
  setenv("LOCAL_WORLD_SIZE", "4", 1);
  EXPECT_EQ(handle_of_ours(symmetric_), std::nullopt);
  setenv("LOCAL_WORLD_SIZE", "8", 1);
  EXPECT_TRUE(handle_of_ours(symmetric_).has_value());
  join(2);
  EXPECT_EQ(handle_of_ours(symmetric_), std::nullopt);
}

// Of NCCL and of symmetric memory, whoever imports them.
TEST_F(FabricHandleTest, WithAJobKeySaysWhereTheOwnerListens) {
  context_.job_key = JobKey::read("the key of this job alone");
  context_.interfaces = "lo";
  for (const AllocationId id : {shared_, symmetric_}) {
    const std::optional<IpcHandle> made = handle_of_ours(id);
    ASSERT_TRUE(made.has_value());
    EXPECT_EQ(ip_text(made->address), "127.0.0.1");
    EXPECT_NE(made->address.port, 0);
  }
  join();
  EXPECT_EQ(handle_of_ours(shared_).value().address, HostAddress()) << "all importers are here";
  EXPECT_NE(handle_of_ours(symmetric_).value().address, HostAddress());
}

TEST_F(FabricHandleTest, WithAKeyThatCannotBeUsedIsTheDriversAndTheLogSaysWhyOnce) {
  context_.job_key = JobKey::read("short");
  testing::internal::CaptureStderr();
  EXPECT_EQ(handle_of_ours(shared_), std::nullopt);
  EXPECT_EQ(handle_of_ours(shared_), std::nullopt);
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string why = "import stays on the GPU: AMEM_JOB_KEY has 5 characters";
  const size_t first = log.find(why);
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find(why, first + 1), std::string::npos) << log;
}

TEST_F(FabricHandleTest, OfAnotherHostIsNotImportedWithoutAKey) {
  IpcHandle other{random_instance_id(), 1, 2, 4711, true};
  other.address.port = 17;
  testing::internal::CaptureStderr();
  const Result<DriverHandle> imported = import(other);
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_FALSE(imported.ok());
  EXPECT_EQ(imported.error().kind, ErrorKind::driver);
  EXPECT_NE(log.find("process 4711 at ::: AMEM_JOB_KEY is not set"), std::string::npos) << log;
}

// The descriptor is that of an importer of this host.
TEST_F(FabricHandleTest, OfADescriptorThatIsOfferedDoesNotTravel) {
  context_.job_key = JobKey::read("the key of this job alone");
  context_.interfaces = "lo";
  const HostAddress at = handle_of_ours(shared_).value().address;
  const IpcHandle offered =
      decode_ipc_handle(sharing_->offer_descriptor(UniqueFd(open("/dev/null", O_RDWR))).value())
          .value();
  context_.peers.load()->withdraw();
  Node importer;
  ASSERT_TRUE(importer.service->open_to_hosts(context_.job_key->value(), context_.interfaces).ok());
  importer.service->locate(context_.self, at);
  const Result<Received> reply = importer.ask(context_.self, TokenQuery{0, offered.nonce});
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_FALSE(std::get<TokenReply>(reply.value().message).known);
  const IpcHandle made = handle_of_ours(shared_).value();
  const Result<Received> token =
      importer.ask(context_.self, TokenQuery{made.allocation, made.nonce});
  ASSERT_TRUE(token.ok() && token.value().fds.size() == 1);
  const auto read = read_token(token.value().fds.front().get());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->allocation, shared_);
}

TEST_F(FabricHandleTest, OfThisProcessIsItsOwnMemory) {
  join();
  const IpcHandle made = handle_of_ours(shared_).value();
  const Result<DriverHandle> imported = import(made);
  ASSERT_TRUE(imported.ok());
  EXPECT_EQ(imported.value(), handle_of(shared_));
}

TEST_F(FabricHandleTest, ThatIsForgedImportsNothing) {
  join();
  const IpcHandle made = handle_of_ours(shared_).value();
  IpcHandle other_nonce = made, other_allocation = made, nobody = made;
  ++other_nonce.nonce;
  other_allocation.allocation = symmetric_;
  nobody.owner = random_instance_id();
  for (const IpcHandle& forged : {other_nonce, other_allocation, nobody}) {
    const Result<DriverHandle> imported = import(forged);
    ASSERT_FALSE(imported.ok());
    EXPECT_EQ(imported.error().kind, ErrorKind::driver);
  }
  EXPECT_EQ(sharing_->import_ipc_handle(IpcHandleBytes{}), std::nullopt) << "the driver's";
  EXPECT_EQ(registry_.backings().size(), 2u);
}

// As anybody of this user may.
TEST_F(FabricHandleTest, ThatIsForgedGetsNothingFromItsOwner) {
  join();
  const IpcHandle made = handle_of_ours(shared_).value();
  Node importer;
  const auto is_known = [&](AllocationId allocation, uint64_t nonce) {
    const Result<Received> reply = importer.ask(context_.self, TokenQuery{allocation, nonce});
    return reply.ok() && std::get<TokenReply>(reply.value().message).known;
  };
  EXPECT_TRUE(is_known(made.allocation, made.nonce));
  EXPECT_FALSE(is_known(made.allocation, made.nonce + 1));
  EXPECT_FALSE(is_known(symmetric_, made.nonce));
  EXPECT_FALSE(is_known(symmetric_, 0)) << "it has not been exported";
}

}  // namespace
}  // namespace amem
