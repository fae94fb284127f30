// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// 72 processes on one host, as many as the largest NVLink domain has GPUs.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

/// A grid of ranks, one communicator for each row and each column, so that all hang together:
/// tensor and data parallelism.
class ManyProcesses : public JobTest {
 protected:
  static constexpr int kRows = 9, kColumns = 8;
  /// Members of a row or a column are on different GPUs, as NCCL demands.
  static constexpr int kGpus = 16;

  ManyProcesses() {
    setup_.environment["AMEM_SIM_DEVICES"] = std::to_string(kGpus);
    setup_.environment["GMM_LOG"] = "0";
    setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(60000);
    setup_.deadline_ms = 150000 * kSlowdown;
  }

  static int rank_at(int row, int column) { return row * kColumns + column; }
  static std::vector<int> members_of_row(int row) {
    std::vector<int> members;
    for (int column = 0; column < kColumns; ++column) members.push_back(rank_at(row, column));
    return members;
  }
  static std::vector<int> members_of_column(int column) {
    std::vector<int> members;
    for (int row = 0; row < kRows; ++row) members.push_back(rank_at(row, column));
    return members;
  }

  static void reduce_everywhere(jobs::Job& job) {
    for (int row = 0; row < kRows; ++row) job.some(members_of_row(row), "all_reduce row 1000");
    for (int column = 0; column < kColumns; ++column)
      job.some(members_of_column(column), "all_reduce column 1000");
  }
};

TEST_F(ManyProcesses, PauseAndResumeAllAtOnce) {
  if (real_gpu()) GTEST_SKIP() << "needs 16 GPUs, simulated ones, for 72 ranks";
  jobs::Job job(setup_, kRows * kColumns);
  std::vector<int> devices;
  for (int row = 0; row < kRows; ++row)
    for (int column = 0; column < kColumns; ++column) devices.push_back((row + column) % kGpus);
  job.use_devices(devices);
  for (int row = 0; row < kRows; ++row) job.make("row", members_of_row(row));
  for (int column = 0; column < kColumns; ++column) job.make("column", members_of_column(column));
  reduce_everywhere(job);

  job.all("pause");
  for (int rank = 0; rank < job.size(); ++rank) EXPECT_EQ(totals(job[rank]).resident, 0u) << rank;
  job.all("resume");

  reduce_everywhere(job);
}

}  // namespace
}  // namespace amem
