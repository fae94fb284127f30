// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What a profiler sees of a pause and a resume.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class Nvtx : public JobTest {
 protected:
  Nvtx() {
    close(mkstemp(path_.data()));
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
    setup_.environment["NVTX_INJECTION64_PATH"] =
        (program.parent_path() / "libamem_nvtx_recorder.so").string();
    setup_.environment["AMEM_TEST_NVTX_FILE"] = path_;
  }
  ~Nvtx() override { unlink(path_.c_str()); }
  /// Of the domain amem: "begin RANGE" and "end RANGE", all threads together.
  std::vector<std::string> lines() const {
    std::ifstream file(path_);
    std::vector<std::string> ours;
    for (std::string domain, rest; file >> domain && std::getline(file >> std::ws, rest);)
      if (domain == "amem") ours.push_back(rest);
    return ours;
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
      "begin pause",
      "begin pause: wait",
      "end pause: wait",
      "begin pause: peers",
      "end pause: peers",
      "begin pause: copy and release",
      "end pause: copy and release",
      "end pause",
      "begin resume",
      "begin resume: create and copy",
      "end resume: create and copy",
      "begin resume: peers",
      "end resume: peers",
      "end resume",
  };
  EXPECT_EQ(lines(), expected);
}

TEST_F(Nvtx, WhatIsDoneForAPeerIsARange) {
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
  for (const char* range : {"revoke", "restore"}) {
    // Other jobs of this user may tell that they are back, too.
    EXPECT_GE(seen.count(std::string("begin ") + range), 1u) << range;
    EXPECT_EQ(seen.count(std::string("end ") + range), seen.count(std::string("begin ") + range));
  }
}

}  // namespace
}  // namespace amem
