// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "jobs/job.h"

namespace amem {

/// Memory with the tag "weights" of one rank, which other ranks have opened with cudaIpc.
class SharedRegion {
 public:
  SharedRegion(jobs::Job& job, int owner, const std::vector<int>& importers)
      : job_(&job), owner_(owner) {
    address_ = rank(owner_).ask("tag_malloc weights keep 5000000");
    rank(owner_).ask("tag_write weights");
    handle_ = rank(owner_).ask("ipc_export " + address_);
    for (const int importer : importers) open(importer);
  }

  const std::string& handle() const { return handle_; }
  /// Where a rank has it.
  const std::string& address_in(int importer) const { return opened_.at(importer); }

  void open(int importer) { opened_at(importer, rank(importer).ask("ipc_open " + handle_)); }
  void close(int importer) {
    rank(importer).ask("ipc_close " + opened_.at(importer));
    closed(importer);
  }
  /// The importer has opened it here, or has closed it or ended, without this object.
  void opened_at(int importer, const std::string& address) { opened_[importer] = address; }
  void closed(int importer) { opened_.erase(importer); }
  /// Everywhere.
  void free() {
    while (!opened_.empty()) close(opened_.begin()->first);
    rank(owner_).ask("tag_free weights");
  }

  /// Contents are what was written, and what an importer writes reaches the owner.
  void check() const {
    for (const auto& [importer, address] : opened_) {
      const std::string before = rank(owner_).ask("word_read " + address_);
      EXPECT_EQ(rank(importer).ask("word_read " + address), before);
      rank(importer).ask("word_write " + address + " 4712");
      EXPECT_EQ(rank(owner_).ask("word_read " + address_), "4712");
      rank(importer).ask("word_write " + address + " " + before);
    }
    rank(owner_).ask("tag_check weights");
  }
  /// No importer has memory there.
  void expect_revoked() const {
    for (const auto& [importer, address] : opened_)
      rank(importer).ask_failing("word_read " + address);
  }

 private:
  jobs::RankProcess& rank(int number) const { return (*job_)[number]; }

  jobs::Job* job_;
  int owner_;
  std::string address_, handle_;
  std::map<int, std::string> opened_;  ///< by rank
};

}  // namespace amem
