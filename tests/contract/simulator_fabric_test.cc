// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Fabric handles of the simulated driver. On a real one they need an IMEX channel and service.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>

#include "tests/contract/remote_process.h"
#include "tests/contract/simulator_case.h"

namespace amem::contract {
namespace {

using FabricHandle = std::array<unsigned char, 64>;

class SimulatorFabric : public SimulatorCase {
 protected:
  void SetUp() override {
    SimulatorCase::SetUp();
    if (!IsSkipped()) join("one");
  }
  void TearDown() override {
    unsetenv("AMEM_SIM_FABRIC");
    SimulatorCase::TearDown();
  }

  /// The IMEX domain of this process and of those that it starts.
  static void join(const char* domain) { setenv("AMEM_SIM_FABRIC", domain, 1); }

  CuResult create(CuMemHandle* handle, int types = kHandleTypeFabric) {
    CuAllocationProp wanted = properties();
    wanted.requested_handle_types = types;
    return driver().cuMemCreate(handle, kBytes, &wanted, 0);
  }
  CuMemHandle create() {
    CuMemHandle handle = 0;
    EXPECT_EQ(kSuccess, create(&handle, kHandleTypeFabric));
    return handle;
  }
  static FabricHandle name_of(CuMemHandle handle, CuResult expected = kSuccess) {
    FabricHandle name{};
    EXPECT_EQ(expected,
              driver().cuMemExportToShareableHandle(name.data(), handle, kHandleTypeFabric, 0));
    return name;
  }
  static CuResult import(FabricHandle name, CuMemHandle* handle) {
    return driver().cuMemImportFromShareableHandle(handle, name.data(), kHandleTypeFabric);
  }
  static CuResult import_in(RemoteProcess& remote, const FabricHandle& name) {
    const UniqueFd file(memfd_create("fabric", MFD_CLOEXEC));
    EXPECT_EQ(64, pwrite(file.get(), name.data(), name.size(), 0));
    return remote.tell(Command::kImportFabric, 0, file.get()).result;
  }
  static std::unique_ptr<RemoteProcess> start(const char* domain) {
    join(domain);
    auto remote = std::make_unique<RemoteProcess>();
    EXPECT_EQ(kSuccess, remote->tell(Command::kStart).result);
    join("one");
    return remote;
  }

  static constexpr size_t kBytes = 4 * kMb;
};

TEST_F(SimulatorFabric, ShowsTheSameBytesInBothProcesses) {
  const CuMemHandle handle = create();
  const CuDevicePtr address = reserve(kBytes);
  map(address, kBytes, handle);
  fill(address, 4711, kBytes);
  const auto remote = start("one");
  EXPECT_EQ(kSuccess, import_in(*remote, name_of(handle)));
  EXPECT_EQ(kSuccess, remote->tell(Command::kMap, kBytes).result);
  EXPECT_EQ(4711u, remote->tell(Command::kRead).value);
  EXPECT_NE(kSuccess, remote->tell(Command::kReexport).result);
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  free(address, kBytes);
}

TEST_F(SimulatorFabric, ImportHoldsTheMemoryAndTheHandleDoesNot) {
  const auto remote = start("one");
  const size_t before = free_bytes();
  const CuMemHandle handle = create();
  const FabricHandle name = name_of(handle);
  EXPECT_EQ(kSuccess, import_in(*remote, name));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  EXPECT_TRUE(free_is(before - kBytes));
  EXPECT_EQ(kSuccess, remote->tell(Command::kRelease).result);
  EXPECT_TRUE(eventually([&] { return free_is(before); }));
  EXPECT_EQ(kErrorInvalidValue, import_in(*remote, name)) << "its owner has released it";
}

TEST_F(SimulatorFabric, WithItselfWorks) {
  const size_t before = free_bytes();
  CuMemHandle both = 0, imported = 0;
  ASSERT_EQ(kSuccess, create(&both, kHandleTypeFabric | kHandleTypePosixFd));
  EXPECT_EQ(kSuccess, import(name_of(both), &imported));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(imported));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(both));
  EXPECT_TRUE(free_is(before));
}

TEST_F(SimulatorFabric, IsRefusedInAnotherDomainAndWithoutAChannel) {
  const CuMemHandle handle = create();
  const FabricHandle name = name_of(handle);
  EXPECT_EQ(kErrorInvalidValue, import_in(*start("two"), name));
  EXPECT_EQ(kErrorNotPermitted, import_in(*start(""), name));
  FabricHandle other = name;
  other[0] ^= 1;
  CuMemHandle imported = 0;
  EXPECT_EQ(kErrorInvalidValue, import(other, &imported));

  join("");
  EXPECT_EQ(kErrorNotPermitted, create(&imported, kHandleTypeFabric));
  EXPECT_EQ(kErrorNotPermitted, create(&imported, kHandleTypeFabric | kHandleTypePosixFd));
  EXPECT_EQ(kErrorNotPermitted, import(name, &imported));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
}

TEST_F(SimulatorFabric, IsExportedOnlyIfItWasCreatedForIt) {
  const CuMemHandle handle = SimulatorCase::create(kBytes);
  name_of(handle, kErrorInvalidValue);
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
}

}  // namespace
}  // namespace amem::contract
