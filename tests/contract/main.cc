// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "tests/contract/remote_process.h"

namespace {

// Tests watch free memory, so each run gets a simulated machine of its own. Its children share it.
// A real driver takes no notice.
std::string own_machine() {
  if (getenv("AMEM_SIM_DIR") != nullptr) return "";
  const std::string folder = "/dev/shm/amem-sim-contract-" + std::to_string(getpid());
  setenv("AMEM_SIM_DIR", folder.c_str(), 1);
  setenv("AMEM_SIM_MULTICAST", "1", 0);
  return folder;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], amem::contract::kRemoteFlag) == 0) {
    return amem::contract::remote_main(std::atoi(argv[2]));
  }
  testing::InitGoogleTest(&argc, argv);
  const std::string folder = own_machine();
  const int result = RUN_ALL_TESTS();
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::remove_all(folder, ignored);
  return result;
}
