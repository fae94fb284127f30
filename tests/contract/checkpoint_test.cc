// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The driver's checkpoint of this process. On a GPU only with AMEM_TEST_CHECKPOINT: ending a
// process that was restored has hung a host (NVIDIA/cuda-checkpoint#53).
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/contract/gate.h"
#include "tests/contract/remote_process.h"
#include "tests/contract/simulator_case.h"

namespace amem::contract {
namespace {

class Checkpoint : public GpuTest {
 protected:
  void SetUp() override {
    if (!driver_is_simulated() && getenv("AMEM_TEST_CHECKPOINT") == nullptr)
      GTEST_SKIP() << "needs the checkpoint of a simulated driver";
    GpuTest::SetUp();
  }
  void TearDown() override {
    if (context_ != nullptr) GpuTest::TearDown();
  }

  static CuResult call(const char* name, void* argument = nullptr, int pid = getpid()) {
    const std::string symbol = std::string("cuCheckpointProcess") + name;
    return reinterpret_cast<CuResult (*)(int, void*)>(driver_symbol(symbol.c_str()))(pid, argument);
  }
  static CuResult lock(unsigned timeout_ms) {
    CuCheckpointLockArgs limit{timeout_ms, {}};
    return call("Lock", &limit);
  }
  static CuProcessState state() {
    CuProcessState found = kProcessFailed;
    EXPECT_EQ(kSuccess, call("GetState", &found));
    return found;
  }
  static void checkpoint() {
    ASSERT_EQ(kSuccess, lock(kLockMs));
    ASSERT_EQ(kSuccess, call("Checkpoint"));
    ASSERT_EQ(kProcessCheckpointed, state());
  }
  static void restore() {
    ASSERT_EQ(kSuccess, call("Restore"));
    ASSERT_EQ(kProcessLocked, state());
    ASSERT_EQ(kSuccess, call("Unlock"));
    ASSERT_EQ(kProcessRunning, state());
  }
  static CuResult export_memory(CuMemHandle handle) {
    int fd = -1;
    const CuResult result =
        driver().cuMemExportToShareableHandle(&fd, handle, kHandleTypePosixFd, 0);
    if (fd >= 0) close(fd);
    return result;
  }

  static constexpr unsigned kLockMs = 10000;
  static constexpr size_t kBytes = 4 * kMb;
};

TEST_F(Checkpoint, StepsAreTakenInOrder) {
  for (const char* step : {"Checkpoint", "Restore", "Unlock"})
    EXPECT_EQ(kErrorIllegalState, call(step)) << step;
  ASSERT_EQ(kSuccess, lock(kLockMs));
  EXPECT_EQ(kErrorIllegalState, lock(kLockMs));
  EXPECT_EQ(kErrorIllegalState, call("Restore"));
  ASSERT_EQ(kSuccess, call("Checkpoint"));
  for (const char* step : {"Lock", "Checkpoint", "Unlock"})
    EXPECT_EQ(kErrorIllegalState, call(step)) << step;
  restore();
  EXPECT_EQ(kErrorInvalidValue, call("GetState", nullptr));
}

TEST_F(Checkpoint, ContentsReturnAtTheSameAddresses) {
  const CuDevicePtr mapped = allocate(kBytes);
  CuDevicePtr allocated = 0;
  ASSERT_EQ(kSuccess, driver().cuMemAlloc(&allocated, kBytes));
  fill(mapped, 4711, kBytes);
  fill(allocated, 4712, kBytes);
  checkpoint();
  restore();
  EXPECT_TRUE(filled(mapped, 4711, kBytes));
  EXPECT_TRUE(filled(allocated, 4712, kBytes));
  fill(mapped, 4713, kBytes);
  EXPECT_TRUE(filled(mapped, 4713, kBytes));
  EXPECT_EQ(kSuccess, driver().cuMemFree(allocated));
  free(mapped, kBytes);
}

TEST_F(Checkpoint, CallsWaitUntilTheUnlock) {
  ASSERT_EQ(kSuccess, lock(kLockMs));
  std::atomic<bool> done = false;
  std::thread other([&] {
    int count = 0;
    done = driver().cuDeviceGetCount(&count) == kSuccess;
  });
  EXPECT_TRUE(stays_false([&] { return done.load(); }));
  EXPECT_EQ(kSuccess, call("Unlock"));
  EXPECT_TRUE(eventually([&] { return done.load(); }));
  other.join();
}

TEST_F(Checkpoint, LockWaitsForWorkUntilItsDeadline) {
  CuStream stream = nullptr;
  ASSERT_EQ(kSuccess, driver().cuStreamCreate(&stream, 0));
  Gate gate;
  ASSERT_EQ(kSuccess, driver().cuLaunchHostFunc(stream, Gate::hold, &gate));
  ASSERT_TRUE(gate.wait_until_held());
  EXPECT_EQ(kErrorNotReady, lock(50));
  EXPECT_EQ(kProcessRunning, state());
  gate.open();
  EXPECT_EQ(kSuccess, lock(kLockMs));
  EXPECT_EQ(kSuccess, call("Unlock"));
  EXPECT_EQ(kSuccess, driver().cuStreamDestroy(stream));
}

/// What only the simulated driver is known to do; sim/checkpoint.h has the sources.
class SimulatorCheckpoint : public Checkpoint {
 protected:
  void SetUp() override {
    if (!driver_is_simulated()) GTEST_SKIP() << "needs the checkpoint of a simulated driver";
    Checkpoint::SetUp();
  }
  static long long used_bytes() {
    return reinterpret_cast<long long (*)(int)>(driver_symbol("amemSimUsedBytes"))(0);
  }
};

TEST_F(SimulatorCheckpoint, ReleasesTheMemoryOfTheGpuAndOfContexts) {
  const long long before = used_bytes();
  const CuDevicePtr mapped = allocate(kBytes);
  const CuMemHandle unmapped = create(kBytes);
  const long long used = used_bytes();
  EXPECT_GT(before, 0) << "local memory of the context";
  checkpoint();
  EXPECT_EQ(0, used_bytes());
  restore();
  EXPECT_EQ(used, used_bytes());
  EXPECT_EQ(kSuccess, driver().cuMemRelease(unmapped));
  free(mapped, kBytes);
  EXPECT_EQ(before, used_bytes());
}

TEST_F(SimulatorCheckpoint, MemoryThatWasRestoredIsNotExportedAndNewMemoryIs) {
  const CuMemHandle old = create(kBytes);
  EXPECT_EQ(kSuccess, export_memory(old));
  checkpoint();
  restore();
  EXPECT_EQ(kErrorInvalidValue, export_memory(old));
  const CuMemHandle fresh = create(kBytes);
  EXPECT_EQ(kSuccess, export_memory(fresh));
  for (const CuMemHandle handle : {old, fresh}) EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
}

TEST_F(SimulatorCheckpoint, KeepsAccessRights) {
  const CuDevicePtr address = reserve(kBytes);
  const CuMemHandle handle = create(kBytes);
  ASSERT_EQ(kSuccess, driver().cuMemMap(address, kBytes, 0, handle, 0));
  checkpoint();
  restore();
  unsigned char byte = 0;
  EXPECT_NE(kSuccess, driver().cuMemcpyDtoH(&byte, address, 1)) << "no access was granted";
  const CuAccessDesc access = read_write();
  EXPECT_EQ(kSuccess, driver().cuMemSetAccess(address, kBytes, &access, 1));
  EXPECT_EQ(kSuccess, driver().cuMemcpyDtoH(&byte, address, 1));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  free(address, kBytes);
}

TEST_F(SimulatorCheckpoint, OfSharedMemoryFailsOnBothSides) {
  const CuMemHandle handle = create(kBytes);
  int fd = -1;
  ASSERT_EQ(kSuccess, driver().cuMemExportToShareableHandle(&fd, handle, kHandleTypePosixFd, 0));
  const UniqueFd exported(fd);
  RemoteProcess importer, owner;
  for (RemoteProcess* one : {&importer, &owner})
    ASSERT_EQ(kSuccess, one->tell(Command::kStart).result);
  ASSERT_EQ(kSuccess, importer.tell(Command::kImport, 0, fd).result);
  EXPECT_EQ(kErrorNotSupported, importer.tell(Command::kCheckpoint).result);

  ASSERT_EQ(kSuccess, owner.tell(Command::kCreate, kBytes).result);
  const Answer of_owner = owner.tell(Command::kReexport);
  ASSERT_EQ(kSuccess, of_owner.result);
  EXPECT_EQ(kErrorNotSupported, owner.tell(Command::kCheckpoint).result);
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
}

TEST_F(SimulatorCheckpoint, WithAnUnboundMulticastObjectDoesNotReturn) {
  const CuMulticastProp two_gpus{2, 4 * kMb, kHandleTypePosixFd, 0};
  CuMemHandle object = 0;
  ASSERT_EQ(kSuccess, driver().cuMulticastCreate(&object, &two_gpus));
  int fd = -1;
  ASSERT_EQ(kSuccess, driver().cuMemExportToShareableHandle(&fd, object, kHandleTypePosixFd, 0));
  const UniqueFd exported(fd);
  RemoteProcess other;
  ASSERT_EQ(kSuccess, other.tell(Command::kStart).result);
  ASSERT_EQ(kSuccess, other.tell(Command::kImport, 0, fd).result);
  std::atomic<bool> returned = false;
  std::thread waiting([&] {
    other.tell(Command::kCheckpoint);
    returned = true;
  });
  EXPECT_TRUE(stays_false([&] { return returned.load(); }));
  other.kill();
  waiting.join();
  EXPECT_EQ(kSuccess, driver().cuMemRelease(object));
}

TEST_F(SimulatorCheckpoint, WithoutRoomStaysCheckpointedAndIsRestoredLater) {
  RemoteProcess other;
  ASSERT_EQ(kSuccess, other.tell(Command::kStart).result);
  const CuDevicePtr address = allocate(kBytes);
  fill(address, 4711, kBytes);
  const size_t free_before = free_bytes();
  checkpoint();
  ASSERT_EQ(kSuccess, other.tell(Command::kCreate, free_before + kBytes).result);
  EXPECT_EQ(kErrorOutOfMemory, call("Restore"));
  EXPECT_EQ(kProcessCheckpointed, state());
  other.kill();
  restore();
  EXPECT_TRUE(filled(address, 4711, kBytes));
  free(address, kBytes);
}

TEST_F(SimulatorCheckpoint, OfAnotherProcessIsNotSimulated) {
  EXPECT_EQ(kErrorNotSupported, call("Lock", nullptr, getppid()));
  EXPECT_EQ(kErrorInvalidValue, call("Lock", nullptr, 0));
}

}  // namespace
}  // namespace amem::contract
