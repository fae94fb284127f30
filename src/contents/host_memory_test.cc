// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/host_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>

namespace amem {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

/// The files of a kernel, below a folder of the test's own.
class AvailableHostBytes : public testing::Test {
 protected:
  AvailableHostBytes() { write("proc/meminfo", "MemTotal:  2048 kB\nMemAvailable:    1024 kB\n"); }
  ~AvailableHostBytes() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  size_t available() const { return available_host_bytes(root_.string()); }

  const std::filesystem::path root_ =
      testing::TempDir() + "amem_kernel_" + std::to_string(getpid());
};

TEST_F(AvailableHostBytes, AreWhatTheMachineHas) { EXPECT_EQ(available(), kMiB); }

TEST_F(AvailableHostBytes, AreBoundedByTheCgroupAndItsParents) {
  write("proc/self/cgroup", "1:name=systemd:/other\n0::/job/rank\n");
  write("sys/fs/cgroup/job/memory.max", "600000\n");
  write("sys/fs/cgroup/job/memory.current", "100000\n");
  write("sys/fs/cgroup/job/rank/memory.max", "max\n");
  write("sys/fs/cgroup/job/rank/memory.current", "90000\n");
  EXPECT_EQ(available(), 500000u);

  write("sys/fs/cgroup/job/rank/memory.max", "100000\n");
  EXPECT_EQ(available(), 10000u);

  // The kernel gives page cache up before it ends somebody.
  write("sys/fs/cgroup/job/rank/memory.stat", "anon 1\nactive_file 30000\ninactive_file 5000\n");
  EXPECT_EQ(available(), 45000u);
}

TEST_F(AvailableHostBytes, AreBoundedByTheRootOfAContainer) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "5000\n");
  write("sys/fs/cgroup/memory.current", "7000\n");
  EXPECT_EQ(available(), 0u);
}

TEST_F(AvailableHostBytes, AreBoundedByACgroupOfVersion1) {
  write("proc/self/cgroup",
        "12:cpu,cpuacct:/job\n9:memory:/job/rank\n1:name=systemd:/other\n0::/init\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "800000\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "600000\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "500000\n");
  EXPECT_EQ(available(), 100000u);

  write("sys/fs/cgroup/memory/job/memory.stat",
        "active_file 1\ntotal_active_file 30000\ntotal_inactive_file 5000\n");
  EXPECT_EQ(available(), 135000u);
}

// Its own cgroup is mounted as the root there.
TEST_F(AvailableHostBytes, AreBoundedByAContainerOfVersion1) {
  write("proc/self/cgroup", "9:memory:/docker/1f0a\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "2000\n");
  EXPECT_EQ(available(), 3000u);
}

TEST_F(AvailableHostBytes, AreWithoutBoundWhereTheKernelSaysNothing) {
  std::filesystem::remove_all(root_);
  EXPECT_EQ(available(), SIZE_MAX);
}

TEST(NumaNode, IsTheDriversAnswerForTheDevice) {
  Driver driver;
  driver.cuDeviceGetAttribute = [](int* value, int attribute, int device) {
    *value = 10 * device;
    return attribute == 134 && device < 2 ? driver_result::kSuccess : driver_result::kInvalidValue;
  };
  EXPECT_EQ(nearest_numa_node(driver, 1), 10);
  EXPECT_EQ(nearest_numa_node(driver, 2), -1);
}

TEST(NumaNode, IsPreferredForTheRange) {
  constexpr int kPolicyPreferred = 1;  // MPOL_PREFERRED
  constexpr unsigned kOfAddress = 2;   // MPOL_F_ADDR
  void* const range =
      mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(range, MAP_FAILED);
  int policy = -1;
  if (syscall(SYS_get_mempolicy, &policy, nullptr, 0, range, kOfAddress) != 0)
    GTEST_SKIP() << "the kernel or the container does not let memory policies be read";
  prefer_numa_node(range, kMiB, -1);
  syscall(SYS_get_mempolicy, &policy, nullptr, 0, range, kOfAddress);
  EXPECT_NE(policy, kPolicyPreferred);

  prefer_numa_node(range, kMiB, 0);

  unsigned long nodes[16] = {};
  ASSERT_EQ(syscall(SYS_get_mempolicy, &policy, nodes, 8 * sizeof nodes, range, kOfAddress), 0);
  EXPECT_EQ(policy, kPolicyPreferred);
  EXPECT_EQ(nodes[0], 1u);
  munmap(range, kMiB);
}

}  // namespace
}  // namespace amem
