// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/stat.h>

#include <fstream>

#include "tests/process/simulated_job.h"

namespace amem {

/// Ranks on several nodes, as NCCL_HOSTID says. Where the user may make mount namespaces, each node
/// also has a /dev/shm of its own, so that amem cannot reach the other node.
class NodeJobTest : public JobTest {
 protected:
  ~NodeJobTest() override { std::filesystem::remove_all(folder_); }

  /// The node of each rank. Called before the job is started.
  void use_nodes(const std::vector<int>& node_of_rank) {
    for (size_t rank = 0; rank < node_of_rank.size(); ++rank) {
      const std::string node = "node" + std::to_string(node_of_rank[rank]);
      setup_.environment_of_rank[static_cast<int>(rank)] = {{"NCCL_HOSTID", node},
                                                            {"AMEM_TEST_NODE_SHM", folder_ / node}};
      std::filesystem::create_directories(folder_ / node);
    }
    separate();
  }

  /// Ranks start with the /dev/shm of their node.
  void separate() {
    const std::string own_mounts = "unshare --mount";
    are_separate_ = system((own_mounts + " true > /dev/null 2>&1").c_str()) == 0;
    if (!are_separate_) return;
    if (!real_gpu()) setup_.environment["AMEM_SIM_DIR"] = folder_;
    const std::filesystem::path script = folder_ / "rank";
    std::ofstream(script) << "#!/bin/sh\nexec " << own_mounts
                          << " sh -c 'mount --bind \"$AMEM_TEST_NODE_SHM\" /dev/shm && exec "
                          << setup_.rank_program << "'\n";
    chmod(script.c_str(), 0755);
    setup_.rank_program = script;
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("amem-nodes-" + std::to_string(getpid()));
  bool are_separate_ = false;
};

}  // namespace amem
