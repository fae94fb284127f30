// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// Programs that use no NCCL must not notice that they run under our preload.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "api/testdata/child.h"

namespace amem {
namespace {

/// The ways to preload us, amem switched on or off.
std::vector<std::vector<std::string>> preloads() {
  const std::string shim = AMEM_TEST_SHIM, engine = AMEM_TEST_ENGINE;
  std::vector<std::vector<std::string>> out;
  for (const std::string& libraries : {shim, engine, shim + ":" + engine})
    for (const char* enable : {"0", "1"})
      out.push_back({"LD_PRELOAD=" + libraries, std::string("AMEM_ENABLE=") + enable,
                     "AMEM_NCCL_PATH=" AMEM_TEST_FAKE_NCCL, "AMEM_LOG=5"});
  return out;
}

TEST(Preload, TrueDoesNotNotice) {
  for (const auto& preload : preloads()) {
    const Ended ended = run_program({"true"}, preload);
    EXPECT_EQ(ended.status, 0);
    EXPECT_EQ(ended.output, "");
    EXPECT_EQ(ended.errors, "") << preload[0];
  }
}

TEST(Preload, RealNcclIsNotLoaded) {
  for (const auto& preload : preloads()) {
    const Ended ended = run_program({"cat", "/proc/self/maps"}, preload);
    EXPECT_EQ(ended.status, 0);
    std::set<std::string> objects;
    std::istringstream lines(ended.output);
    for (std::string line; std::getline(lines, line);)
      if (line.find("nccl") != std::string::npos) objects.insert(line.substr(line.find('/')));
    for (const std::string& object : objects)
      EXPECT_TRUE(object == AMEM_TEST_SHIM || object == AMEM_TEST_ENGINE) << object;
    EXPECT_EQ(objects.count(AMEM_TEST_ENGINE), 1u) << "the preload has to be there to be judged";
  }
}

TEST(Preload, NoThreadAndNoDescriptorIsAdded) {
  const Ended plain = run_program({"ls", "/proc/self/fd"}, {});
  ASSERT_EQ(plain.status, 0);
  for (const auto& preload : preloads()) {
    EXPECT_EQ(run_program({"ls", "/proc/self/fd"}, preload).output, plain.output);

    const Ended status = run_program({"cat", "/proc/self/status"}, preload);
    EXPECT_NE(status.output.find("Threads:\t1\n"), std::string::npos) << status.output;
  }
}

}  // namespace
}  // namespace amem
