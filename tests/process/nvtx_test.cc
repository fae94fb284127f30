// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What a profiler sees of a pause and a resume.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class Nvtx : public JobTest {
 protected:
  Nvtx() {
    close(mkstemp(path_.data()));
    setup_.environment["NVTX_INJECTION64_PATH"] = AMEM_NVTX_RECORDER;
    setup_.environment["AMEM_TEST_NVTX_FILE"] = path_;
  }
  ~Nvtx() override { unlink(path_.c_str()); }
  std::vector<std::string> lines() const {
    std::ifstream file(path_);
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }
  std::string path_ = testing::TempDir() + "amem_nvtx_XXXXXX";
};

TEST_F(Nvtx, EveryPhaseIsARange) {
  AMEM_NEEDS_GPUS(1);
  jobs::Job job(setup_, 1);
  job.use_devices({0});
  job.make("world");
  job.all("check world" + counts());
  job.all("pause");
  job.all("resume");

  const std::vector<std::string> expected = {
      "amem begin pause",
      "amem begin pause: wait",
      "amem end pause: wait",
      "amem begin pause: neighbours",
      "amem end pause: neighbours",
      "amem begin pause: copy",
      "amem end pause: copy",
      "amem begin pause: release",
      "amem end pause: release",
      "amem end pause",
      "amem begin resume",
      "amem begin resume: create",
      "amem end resume: create",
      "amem begin resume: copy",
      "amem end resume: copy",
      "amem begin resume: neighbours",
      "amem end resume: neighbours",
      "amem end resume",
  };
  EXPECT_EQ(lines(), expected);
}

TEST_F(Nvtx, WhatIsDoneForANeighbourIsARange) {
  AMEM_NEEDS_GPUS(2);
  jobs::Job job(setup_, 2);
  job.use_devices({0, 1});
  job.make("world");
  job.all("check world" + counts());
  job[0].ask("pause");
  job[0].ask("resume");
  job.all("check world" + counts());

  const std::vector<std::string> all = lines();
  const std::multiset<std::string> seen(all.begin(), all.end());
  for (const char* range : {"let go", "take back"}) {
    EXPECT_EQ(seen.count(std::string("amem begin ") + range), 1u) << range;
    EXPECT_EQ(seen.count(std::string("amem end ") + range), 1u) << range;
  }
}

}  // namespace
}  // namespace amem
