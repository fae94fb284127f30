// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "jobs/job.h"

namespace amem {

/// Where the ranks of a job meet for handles of symmetric memory: a folder for the test.
class Meeting {
 public:
  Meeting() {
    std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    std::replace(test.begin(), test.end(), '/', '-');
    folder_ = std::filesystem::temp_directory_path() /
              ("amem-symmetric-" + std::to_string(getpid()) + "-" + test);
    std::filesystem::create_directories(folder_);
  }
  ~Meeting() { std::filesystem::remove_all(folder_); }
  Meeting(const Meeting&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  /// The command for one rank. Each handle of a test has another name.
  std::string order(const std::string& handle, size_t rank, size_t world_size,
                    const std::string& buffer = "b") const {
    return "sym_meet " + handle + " " + buffer + " " + (folder_ / handle).string() + " " +
           std::to_string(rank) + " " + std::to_string(world_size);
  }
  /// These ranks of the job meet, in this order.
  void meet(jobs::Job& job, const std::string& handle, const std::vector<int>& members) const {
    for (size_t rank = 0; rank < members.size(); ++rank)
      job[members[rank]].order(order(handle, rank, members.size()));
    for (const int member : members) job[member].answer();
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace amem
