// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/process_names.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/unique_fd.h"

namespace amem {
namespace {

/// A proc(5) of the test's own.
class ProcessesWithoutAmem : public testing::Test {
 protected:
  ~ProcessesWithoutAmem() override { std::filesystem::remove_all(proc_); }
  void add(const std::string& pid, const std::string& name, const std::string& library) {
    std::filesystem::create_directories(proc_ / pid);
    std::ofstream(proc_ / pid / "comm") << name << "\n";
    std::ofstream(proc_ / pid / "maps")
        << "7f00-7f01 r-xp 00000000 00:00 0 \n7f01-7f02 r-xp 00000000 08:01 12 " << library << "\n";
  }
  std::string found() const { return processes_without_amem("/libnccl.so", proc_.string()); }

  const std::filesystem::path proc_ = testing::TempDir() + "amem_proc_" + std::to_string(getpid());
};

TEST_F(ProcessesWithoutAmem, AreThoseThatHaveLoadedTheLibrary) {
  add("1000000001", "python3", "/opt/venv/nccl/lib/libnccl.so.2");
  add("1000000002", "bash", "/lib/libc.so.6");
  add("self", "python3", "/opt/libnccl.so.2");

  EXPECT_EQ(found(), "process 1000000001 (python3)");
}

TEST_F(ProcessesWithoutAmem, AreNotThisOne) {
  add(std::to_string(getpid()), "python3", "/opt/libnccl.so.2");

  EXPECT_EQ(found(), "a process that this one cannot see");
}

// On a node with many jobs, those of this one are named.
TEST_F(ProcessesWithoutAmem, AreEightWithTheNearestNumbers) {
  for (int i = 0; i < 11; ++i) add(std::to_string(1000000000 + i), "python3", "/opt/libnccl.so.2");

  EXPECT_TRUE(found().starts_with("process 1000000000 (python3), process 1000000001 (")) << found();
  EXPECT_TRUE(found().ends_with("process 1000000007 (python3) and 3 more")) << found();
}

TEST_F(ProcessesWithoutAmem, AreUnknownWithoutProc) {
  EXPECT_EQ(processes_without_amem("/libnccl.so", "/nowhere"),
            "a process that this one cannot see");
}

// The name is padded with zero bytes to the size of sockaddr_un.
TEST(ProcessOfSocket, HasBoundTheName) {
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "amem-test-" + std::to_string(getpid());
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);

  const std::string own = "process " + std::to_string(getpid()) + " (";
  EXPECT_TRUE(process_of_socket("@" + name).starts_with(own)) << process_of_socket("@" + name);
  EXPECT_EQ(process_of_socket("@amem-test-"), "a process that this one cannot see");
  EXPECT_EQ(process_of_socket("@" + name, "/nowhere"), "a process that this one cannot see");
}

}  // namespace
}  // namespace amem
