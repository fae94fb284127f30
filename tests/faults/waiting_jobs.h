// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/faults/fault_test.h"
#include "tests/process/progress.h"

namespace amem {

/// Jobs that take turns on GPUs with room for one of them: their resumes wait.
class WaitingJobs : public FaultTest {
 protected:
  static constexpr int kPieces = 5;

  WaitingJobs() {
    setup_.environment["AMEM_SIM_MEMORY_MB"] = "128";
    setup_.environment["AMEM_RESUME_WAIT_MS"] = milliseconds(60000);
    setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(20000);
  }

  /// Ranks with 80 of the 128 MiB of a GPU each, paused.
  std::unique_ptr<jobs::Job> paused_job(const std::string& group, int ranks) {
    auto job = std::make_unique<jobs::Job>(
        setup_, ranks, std::map<std::string, std::string>{{"AMEM_GROUP", group}});
    job->use_devices(first_devices(ranks));
    for (int piece = 0; piece < kPieces; ++piece) job->all("tag_malloc weights keep 16777216");
    job->all("tag_write weights");
    job->all("tag_pause weights");
    return job;
  }
  static int weights_state(jobs::RankProcess& rank) {
    return std::stoi(rank.ask("tag_totals weights"));
  }
  /// Returns when the rank is in the queue, or has what it waited for.
  static void begin_resume(jobs::RankProcess& rank) {
    rank.ask("thread r tag_resume weights");
    wait_for("a resume begins", [&] { return weights_state(rank) != kPaused; });
  }
  static bool is_active(jobs::Job& job) {
    for (int rank = 0; rank < job.size(); ++rank)
      if (weights_state(job[rank]) != kActive) return false;
    return true;
  }
  static void end_turn(jobs::Job& job) {
    job.all("wait r");
    job.all("tag_check weights");
    job.all("tag_pause weights");
  }
  /// Each of the jobs gets its turn.
  static void take_turns(std::vector<jobs::Job*> jobs) {
    while (!jobs.empty()) {
      size_t next = 0;
      wait_for("a job gets all of its memory", [&] {
        for (next = 0; next < jobs.size(); ++next)
          if (is_active(*jobs[next])) return true;
        return false;
      });
      end_turn(*jobs[next]);
      jobs.erase(jobs.begin() + static_cast<ptrdiff_t>(next));
    }
  }
};

}  // namespace amem
