// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/token.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "transport/connection.h"

namespace amem {
namespace {

const Token kToken{{{0x1122334455667788, 0x99aabbccddeeff00}},
                   42,
                   0xfeedfacecafebeef,
                   7,
                   4 << 20,
                   65536,
                   131072,
                   4711};

UniqueFd token_fd() {
  Result<UniqueFd> fd = make_token(kToken);
  EXPECT_TRUE(fd.ok()) << (fd.ok() ? "" : fd.error().message);
  return std::move(fd.value());
}

/// A memfd with the bytes of a token, sealed as told.
UniqueFd copy_of_token(int seals, size_t extra_bytes = 0, int spoiled_byte = -1) {
  const UniqueFd token = token_fd();
  std::array<char, 256> bytes{};
  const ssize_t size = pread(token.get(), bytes.data(), bytes.size(), 0);
  if (spoiled_byte >= 0) bytes[static_cast<size_t>(spoiled_byte)] ^= 1;
  UniqueFd copy(memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto length = static_cast<size_t>(size) + extra_bytes;
  EXPECT_EQ(write(copy.get(), bytes.data(), length), static_cast<ssize_t>(length));
  EXPECT_EQ(fcntl(copy.get(), F_ADD_SEALS, seals), 0);
  return copy;
}

constexpr int kAllSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

TEST(Token, IsReadAsItWasMade) {
  const UniqueFd fd = token_fd();
  EXPECT_EQ(read_token(fd.get()), kToken);
  EXPECT_EQ(read_token(fd.get()), kToken);
}

// Byte 8 is the first of the version.
TEST(Token, OfAnotherVersionSaysWhoseItIs) {
  const auto log_of = [](const UniqueFd& fd) {
    testing::internal::CaptureStderr();
    EXPECT_FALSE(read_token(fd.get()).has_value());
    return testing::internal::GetCapturedStderr();
  };
  const std::string sentence = "process " + std::to_string(kToken.owner_pid) +
                               ", whose amem makes tokens of version " +
                               std::to_string(kTokenVersion ^ 1);

  EXPECT_NE(log_of(copy_of_token(kAllSeals, 0, 8)).find(sentence), std::string::npos);
  EXPECT_NE(log_of(copy_of_token(kAllSeals, 100, 8)).find(sentence), std::string::npos) << "longer";
  EXPECT_EQ(log_of(copy_of_token(kAllSeals, 0, 0)), "") << "no token";
  EXPECT_EQ(log_of(copy_of_token(0, 0, 8)), "") << "not sealed";
}

TEST(Token, IsCloseOnExec) {
  const UniqueFd fd = token_fd();
  EXPECT_EQ(fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
}

TEST(Token, CannotBeChanged) {
  const UniqueFd fd = token_fd();
  errno = 0;
  EXPECT_EQ(pwrite(fd.get(), "x", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(fd.get(), 0), -1);
  EXPECT_EQ(ftruncate(fd.get(), 4096), -1);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0), MAP_FAILED);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(read_token(fd.get()), kToken);
}

TEST(Token, ReadingMovesNoFilePosition) {
  const UniqueFd fd = token_fd();
  ASSERT_EQ(lseek(fd.get(), 5, SEEK_SET), 5);
  EXPECT_EQ(read_token(fd.get()), kToken);
  EXPECT_EQ(lseek(fd.get(), 0, SEEK_CUR), 5);
}

TEST(Token, IsFoundThroughACopyOfTheFd) {
  const UniqueFd fd = token_fd();
  const UniqueFd copy(dup(fd.get()));
  EXPECT_EQ(read_token(copy.get()), kToken);
}

TEST(Token, SurvivesItsWayThroughASocket) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd from(ends[0]), to(ends[1]);
  Packet packet{{1}, {}};
  packet.fds.emplace_back(token_fd());

  ASSERT_EQ(send_packet(from.get(), packet), 0);
  const Result<std::optional<Packet>> arrived = receive_packet(to.get());

  ASSERT_TRUE(arrived.ok() && arrived.value());
  ASSERT_EQ(arrived.value()->fds.size(), 1u);
  EXPECT_EQ(read_token(arrived.value()->fds[0].get()), kToken);
}

TEST(Token, UnderALimitOfTheSizeOfFilesIsAnErrorAndNotASignal) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_DFL);
    const rlimit few{10, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &few);
    _exit(make_token(kToken).ok() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Token, ForeignFdsAreNone) {
  int pipe_ends[2], sockets[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  char name[] = "/tmp/amem-token-test-XXXXXX";
  std::vector<UniqueFd> fds;
  fds.emplace_back(pipe_ends[0]);
  fds.emplace_back(pipe_ends[1]);
  fds.emplace_back(sockets[0]);
  fds.emplace_back(sockets[1]);
  fds.emplace_back(mkostemp(name, O_CLOEXEC));
  unlink(name);
  fds.emplace_back(open("/dev/null", O_RDWR | O_CLOEXEC));
  fds.emplace_back(open("/dev/zero", O_RDWR | O_CLOEXEC));
  fds.emplace_back(open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  fds.emplace_back(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  fds.emplace_back(open("/", O_PATH | O_CLOEXEC));
  fds.emplace_back(eventfd(0, EFD_CLOEXEC));
  fds.emplace_back(epoll_create1(EPOLL_CLOEXEC));
  fds.emplace_back(memfd_create("empty", MFD_CLOEXEC));

  for (const UniqueFd& fd : fds) {
    ASSERT_TRUE(fd.valid());
    EXPECT_EQ(read_token(fd.get()), std::nullopt) << "fd number " << fd.get();
  }
  EXPECT_EQ(read_token(-1), std::nullopt);
  EXPECT_EQ(read_token(1 << 20), std::nullopt);
}

TEST(Token, ACopyCountsOnlyWithAllSealsAndEveryByteInPlace) {
  EXPECT_EQ(read_token(copy_of_token(kAllSeals).get()), kToken);
  EXPECT_EQ(read_token(copy_of_token(0).get()), std::nullopt);
  for (int missing : {F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE})
    EXPECT_EQ(read_token(copy_of_token(kAllSeals & ~missing).get()), std::nullopt) << missing;
  EXPECT_EQ(read_token(copy_of_token(kAllSeals, 1).get()), std::nullopt);
  for (int byte = 0; byte < 12; ++byte)
    EXPECT_EQ(read_token(copy_of_token(kAllSeals, 0, byte).get()), std::nullopt) << byte;
}

TEST(Token, LeavesNoFdOpenWhenItIsDropped) {
  const int before = token_fd().get();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(token_fd().get(), before);
}

TEST(Token, WithoutAFileNumberIsAnErrorThatNamesTheCall) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const Result<UniqueFd> refused = make_token(kToken);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);

  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("memfd_create"), std::string::npos);
  EXPECT_EQ(read_token(token_fd().get()), kToken) << "afterwards it is made";
}

constexpr IpcHandle kIpcHandle{{{0x1122334455667788, 0x99aabbccddeeff00}}, 42, 0xfeedface, 4711};

TEST(Handles, OfIpcAndOfAFabricAreReadAsTheyWereMade) {
  IpcHandle fabric = kIpcHandle;
  fabric.is_fabric = true;
  EXPECT_EQ(decode_ipc_handle(encode_ipc_handle(kIpcHandle)), kIpcHandle);
  EXPECT_EQ(decode_ipc_handle(encode_ipc_handle(fabric)), fabric);
  EXPECT_NE(encode_ipc_handle(fabric), encode_ipc_handle(kIpcHandle));
}

// The importer passes them to the driver.
TEST(Handles, OfTheDriverAreNotTakenForThem) {
  IpcHandle fabric = kIpcHandle;
  fabric.is_fabric = true;
  for (const IpcHandle& handle : {kIpcHandle, fabric}) {
    const IpcHandleBytes whole = encode_ipc_handle(handle);
    for (size_t at = 0; at < whole.size(); ++at) {
      IpcHandleBytes spoiled = whole;
      spoiled[at] ^= 0x80;
      const std::optional<IpcHandle> read = decode_ipc_handle(spoiled);
      const size_t end = handle.is_fabric ? 62 : 44;  // the magic comes first, zeros last
      EXPECT_EQ(read.has_value(), at >= 8 && at < end) << at;
      EXPECT_NE(read, handle) << at;
    }
  }
  EXPECT_EQ(decode_ipc_handle(IpcHandleBytes{}), std::nullopt);
}

}  // namespace
}  // namespace amem
