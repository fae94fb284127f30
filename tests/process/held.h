// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/process/simulated_job.h"

namespace amem {

/// What one rank has, as the kernel and the driver say. What leaks grows with the cycles.
struct Held {
  size_t descriptors = 0, mappings = 0, threads = 0, host_bytes = 0;
  size_t gpu_bytes = 0;
};

/// Of every rank of a job.
using HeldByRank = std::vector<Held>;

/// glibc's initial thresholds, said aloud, stay as they are: what is freed goes back to the kernel,
/// so that no leak can hide in it (mallopt(3)). For the environment of ranks that are counted.
inline std::map<std::string, std::string> without_hoarding() {
  return {{"MALLOC_MMAP_THRESHOLD_", "131072"}, {"MALLOC_TRIM_THRESHOLD_", "131072"}};
}

/// Private memory only: on the simulated GPU what is shared is the GPUs' memory. What else could be
/// shared needs a descriptor or a mapping, and they are counted.
inline size_t host_bytes(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  size_t kib = 0;
  for (std::string line; std::getline(status, line);)
    if (sscanf(line.c_str(), "RssAnon: %zu kB", &kib) == 1) return kib << 10;
  throw std::runtime_error("no RssAnon in the status of " + std::to_string(pid));
}

inline HeldByRank held(jobs::Job& job) {
  HeldByRank all(static_cast<size_t>(job.size()));
  for (int rank = 0; rank < job.size(); ++rank) {
    Held& h = all[static_cast<size_t>(rank)];
    const std::string counts = job[rank].ask("resources");
    if (sscanf(counts.c_str(), "%zu %zu %*u %zu", &h.descriptors, &h.mappings, &h.threads) != 3)
      throw std::runtime_error("not understood: " + counts);
    h.host_bytes = host_bytes(job[rank].pid());
    size_t free_bytes = 0, total_bytes = 0;
    sscanf(job[rank].ask("memory").c_str(), "%zu %zu", &free_bytes, &total_bytes);
    h.gpu_bytes = total_bytes - free_bytes;
  }
  return all;
}

/// What may be more without being a leak.
struct Slack {
  size_t host_bytes = 0;
  /// A worker for each peer that asks while others do, kept once it is there; its stack and
  /// its arena are mappings.
  size_t workers = 0;
  static constexpr size_t kMappingsOfOne = 6;
};

/// What is more than it was, a line each; empty when nothing is. A sanitizer keeps what was freed
/// and maps memory of its own: mappings and host memory are then left out.
inline std::string growth(const HeldByRank& before, const HeldByRank& now, Slack slack) {
  std::string text;
  for (size_t rank = 0; rank < now.size(); ++rank) {
    const auto compare = [&](const char* what, size_t then, size_t later, size_t more = 0) {
      if (later > then + more)
        text += "rank " + std::to_string(rank) + ": " + what + " from " + std::to_string(then) +
                " to " + std::to_string(later) + "\n";
    };
    compare("descriptors", before[rank].descriptors, now[rank].descriptors);
    compare("threads", before[rank].threads, now[rank].threads, slack.workers);
    compare("GPU bytes", before[rank].gpu_bytes, now[rank].gpu_bytes);
    if (kSanitized) continue;
    compare("mappings", before[rank].mappings, now[rank].mappings,
            slack.workers * Slack::kMappingsOfOne);
    compare("host bytes", before[rank].host_bytes, now[rank].host_bytes, slack.host_bytes);
  }
  return text;
}

}  // namespace amem
