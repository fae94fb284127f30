// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Memory in several processes.
#include <sys/mman.h>
#include <sys/socket.h>

#include "tests/contract/gpu_test.h"
#include "tests/contract/remote_process.h"

namespace amem::contract {
namespace {

class Sharing : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    ASSERT_EQ(kSuccess, remote_.tell(Command::kStart).result);
    before_ = free_bytes();  // with the other process' context
  }

  UniqueFd export_fd(CuMemHandle handle) {
    int fd = -1;
    EXPECT_EQ(kSuccess, driver().cuMemExportToShareableHandle(&fd, handle, kHandleTypePosixFd, 0));
    return UniqueFd(fd);
  }

  static CuResult import_fd(int fd) {
    CuMemHandle imported = 0;
    return driver().cuMemImportFromShareableHandle(
        &imported, reinterpret_cast<void*>(static_cast<intptr_t>(fd)), kHandleTypePosixFd);
  }

  // Gives memory away: the other process imports it, this one has nothing of it left.
  void hand_over() {
    const CuMemHandle handle = create(kWatchedBytes);
    UniqueFd fd = export_fd(handle);
    ASSERT_EQ(kSuccess, remote_.tell(Command::kImport, 0, fd.get()).result);
    ASSERT_EQ(kSuccess, driver().cuMemRelease(handle));
  }

  bool held() { return free_is(before_ - kWatchedBytes); }
  bool returned() {
    return eventually([this] { return free_is(before_); });
  }

  RemoteProcess remote_;
  size_t before_ = 0;
};

TEST_F(Sharing, ShowsTheSameBytesInBothProcesses) {
  const size_t size = 2 * granularity();
  const CuMemHandle handle = create(size);
  const CuDevicePtr address = reserve(size);
  map(address, size, handle);
  fill(address, 4711, size);
  ASSERT_EQ(kSuccess, remote_.tell(Command::kImport, 0, export_fd(handle).get()).result);
  ASSERT_EQ(kSuccess, remote_.tell(Command::kMap, size).result);

  EXPECT_EQ(4711u, remote_.tell(Command::kRead).value);
  ASSERT_EQ(kSuccess, remote_.tell(Command::kWrite, 815).result);
  uint32_t word = 0;
  ASSERT_EQ(kSuccess, driver().cuMemcpyDtoH(&word, address, sizeof(word)));
  EXPECT_EQ(815u, word);

  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  free(address, size);
}

TEST_F(Sharing, HandleOfAnotherProcessHoldsTheMemory) {
  hand_over();
  ASSERT_EQ(kSuccess, remote_.tell(Command::kCloseFd).result);

  EXPECT_TRUE(held());

  ASSERT_EQ(kSuccess, remote_.tell(Command::kRelease).result);
  EXPECT_TRUE(returned());
}

TEST_F(Sharing, MappingOfAnotherProcessHoldsTheMemory) {
  hand_over();
  ASSERT_EQ(kSuccess, remote_.tell(Command::kMap, kWatchedBytes).result);
  ASSERT_EQ(kSuccess, remote_.tell(Command::kCloseFd).result);
  ASSERT_EQ(kSuccess, remote_.tell(Command::kRelease).result);

  EXPECT_TRUE(held());

  ASSERT_EQ(kSuccess, remote_.tell(Command::kUnmap).result);
  EXPECT_TRUE(returned());
}

TEST_F(Sharing, DescriptorOfAnotherProcessHoldsTheMemory) {
  hand_over();
  ASSERT_EQ(kSuccess, remote_.tell(Command::kRelease).result);

  EXPECT_TRUE(held());

  ASSERT_EQ(kSuccess, remote_.tell(Command::kCloseFd).result);
  EXPECT_TRUE(returned());
}

TEST_F(Sharing, DescriptorInASocketHoldsTheMemory) {
  int ends[2];
  ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
  UniqueFd sender(ends[0]);
  UniqueFd receiver(ends[1]);
  const CuMemHandle handle = create(kWatchedBytes);
  UniqueFd fd = export_fd(handle);
  const char byte = 0;
  ASSERT_TRUE(send_with_fd(sender.get(), &byte, sizeof(byte), fd.get()));
  fd.reset();
  ASSERT_EQ(kSuccess, driver().cuMemRelease(handle));

  EXPECT_TRUE(held());

  sender.reset();
  receiver.reset();
  EXPECT_TRUE(returned());
}

TEST_F(Sharing, OwnerHoldsTheMemoryAfterTheImporterRevoked) {
  const CuMemHandle handle = create(kWatchedBytes);
  ASSERT_EQ(kSuccess, remote_.tell(Command::kImport, 0, export_fd(handle).get()).result);
  ASSERT_EQ(kSuccess, remote_.tell(Command::kMap, kWatchedBytes).result);
  ASSERT_EQ(kSuccess, remote_.tell(Command::kUnmap).result);
  ASSERT_EQ(kSuccess, remote_.tell(Command::kRelease).result);
  ASSERT_EQ(kSuccess, remote_.tell(Command::kCloseFd).result);

  EXPECT_TRUE(held());

  ASSERT_EQ(kSuccess, driver().cuMemRelease(handle));
  EXPECT_TRUE(returned());
}

TEST_F(Sharing, KilledProcessHoldsNothing) {
  hand_over();
  ASSERT_EQ(kSuccess, remote_.tell(Command::kMap, kWatchedBytes).result);
  ASSERT_TRUE(held());

  remote_.kill();

  // Its context is gone as well, so there is at least as much as before.
  EXPECT_TRUE(eventually([this] { return free_bytes() + kSlackBytes > before_; }));
}

TEST_F(Sharing, ImporterCannotExportAgain) {
  const size_t size = granularity();
  const CuMemHandle handle = create(size);
  ASSERT_EQ(kSuccess, remote_.tell(Command::kImport, 0, export_fd(handle).get()).result);

  EXPECT_EQ(kErrorInvalidValue, remote_.tell(Command::kReexport).result);

  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
}

TEST_F(Sharing, WithItselfWorks) {
  const size_t size = granularity();
  const CuMemHandle handle = create(size);
  const CuDevicePtr address = reserve(size);
  map(address, size, handle);
  UniqueFd fd = export_fd(handle);
  CuMemHandle imported = 0;

  ASSERT_EQ(kSuccess, driver().cuMemImportFromShareableHandle(
                          &imported, reinterpret_cast<void*>(static_cast<intptr_t>(fd.get())),
                          kHandleTypePosixFd));

  EXPECT_NE(handle, imported);
  const CuDevicePtr alias = reserve(size);
  map(alias, size, imported);
  fill(address, 99, size);
  EXPECT_TRUE(filled(alias, 99, size));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(imported));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  free(alias, size);
  free(address, size);
}

TEST_F(Sharing, ImportedHandleTellsWhereTheMemoryIs) {
  const CuMemHandle handle = create(granularity());
  UniqueFd fd = export_fd(handle);
  CuMemHandle imported = 0;
  ASSERT_EQ(kSuccess, driver().cuMemImportFromShareableHandle(
                          &imported, reinterpret_cast<void*>(static_cast<intptr_t>(fd.get())),
                          kHandleTypePosixFd));
  CuAllocationProp told = {};

  ASSERT_EQ(kSuccess, driver().cuMemGetAllocationPropertiesFromHandle(&told, imported));

  EXPECT_EQ(kAllocationPinned, told.type);
  EXPECT_EQ((CuLocation{kLocationDevice, 0}), told.location);
  EXPECT_EQ(kSuccess, driver().cuMemRelease(imported));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
}

TEST_F(Sharing, RefusesADescriptorOfSomethingElse) {
  UniqueFd file(memfd_create("no memory of a GPU", MFD_CLOEXEC));
  ASSERT_TRUE(file.valid());
  const int number = file.get();

  EXPECT_EQ(kErrorUnknown, import_fd(number));
  file.reset();
  EXPECT_EQ(kErrorUnknown, import_fd(number)) << "a number that is no descriptor any more";
}

TEST(SharingStart, CallBeforeInitIsRefused) {
  RemoteProcess remote;
  EXPECT_EQ(kErrorNotInitialized, remote.tell(Command::kCallWithoutInit).result);
}

// In a process of its own, because an error could stay with the context.
TEST_F(Sharing, CopyFromAnUnmappedAddressIsAnError) {
  EXPECT_EQ(kErrorInvalidValue, remote_.tell(Command::kReadUnmapped).result);
}

}  // namespace
}  // namespace amem::contract
