// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/processes_without_amem.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

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

TEST_F(ProcessesWithoutAmem, AreUnknownWithoutProc) {
  EXPECT_EQ(processes_without_amem("/libnccl.so", "/nowhere"),
            "a process that this one cannot see");
}

}  // namespace
}  // namespace amem
