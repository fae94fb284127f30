// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "src/api/testdata/child.h"

namespace amem {

inline const std::string kPrograms = AMEM_TEST_PROGRAMS, kEngine = AMEM_TEST_ENGINE,
                         kSim = AMEM_TEST_SIM;
inline const std::string kNccl = kSim + "/libnccl.so.2";
inline const std::string kLibraryPath = "LD_LIBRARY_PATH=" + kSim;

/// What a program prints whose calls are all caught.
inline constexpr char kCaught[] =
    "before: right\nactive: all is on the GPUs\npause: 0\npaused: none is on the GPUs\n"
    "call while paused: 5\nresume: 0\nafter: right\n";

class Interposition : public testing::Test {
 protected:
  Interposition() {
    machine_ =
        std::filesystem::temp_directory_path() / ("amem-interpose-" + std::to_string(getpid()));
    std::filesystem::create_directories(machine_);
  }
  ~Interposition() override { std::filesystem::remove_all(machine_); }

  /// Runs a program of this folder on simulated GPUs of its own.
  Ended run(const std::vector<std::string>& command, std::vector<std::string> settings) {
    std::vector<std::string> argv = command;
    argv[0] = kPrograms + "/" + argv[0];
    settings.push_back("AMEM_SIM_DIR=" + machine_.string());
    settings.push_back("GMM_LOG=2");
    return run_program(argv, settings);
  }
  void expect_caught(const std::vector<std::string>& command,
                     const std::vector<std::string>& settings) {
    const Ended ended = run(command, settings);
    std::string line;
    for (const std::string& word : command) line += word + " ";
    EXPECT_EQ(ended.status, 0) << line << ended.errors;
    EXPECT_EQ(ended.output, kCaught) << line << ended.errors;
  }
  const std::vector<std::string> preloaded_{"LD_PRELOAD=" + kEngine, "AMEM_ENABLE=1", kLibraryPath};
  const std::vector<std::string> plain_{kLibraryPath};

  std::filesystem::path machine_;
};

}  // namespace amem
