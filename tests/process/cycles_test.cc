// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Nothing grows from cycle to cycle. AMEM_TEST_CYCLES says how many, 10 when unset.
#include <fstream>

#include "tests/process/simulated_job.h"

namespace amem {
namespace {

/// What one rank has, as the kernel and the driver say.
struct Held {
  size_t descriptors = 0, mappings = 0, threads = 0, host_bytes = 0;
  size_t gpu_bytes = 0;
};

/// All ranks, at the two moments of a cycle.
struct Moments {
  std::vector<Held> paused, active;
};

class Cycles : public JobTest {
 protected:
  /// The first cycles make what later ones use again: host memory, a copy stream, arenas.
  static constexpr int kWarmUp = 3;
  /// A pause is told to every amem process of this user on the host. When another job comes or
  /// goes, that costs a connection or a thread; what leaks does so in every stretch of cycles.
  static constexpr int kStretches = 3;
  /// How far host memory may move: 12 KiB seen in 300 cycles on the simulated GPU. A real driver
  /// and NCCL have heaps of their own there; a leak of ours of 300 bytes for each of the 200
  /// allocations or more of a rank is beyond it after 100 cycles.
  static size_t host_slack_bytes() { return real_gpu() ? 4 << 20 : 256 << 10; }

  void SetUp() override { AMEM_NEEDS_GPUS(2); }

  static int wanted_cycles() {
    const char* text = getenv("AMEM_TEST_CYCLES");
    return text != nullptr ? std::stoi(text) : 10;
  }

  /// Private memory only: on the simulated GPU what is shared is the GPUs' memory. What else could
  /// be shared needs a descriptor or a mapping, and they are counted.
  static size_t host_bytes(pid_t pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    size_t kib = 0;
    for (std::string line; std::getline(status, line);)
      if (sscanf(line.c_str(), "RssAnon: %zu kB", &kib) == 1) return kib << 10;
    throw std::runtime_error("no RssAnon in the status of " + std::to_string(pid));
  }

  static std::vector<Held> held(jobs::Job& job) {
    std::vector<Held> all(static_cast<size_t>(job.size()));
    for (int rank = 0; rank < job.size(); ++rank) {
      Held& h = all[static_cast<size_t>(rank)];
      const std::string counts = job[rank].ask("resources");
      if (sscanf(counts.c_str(), "%zu %zu %*u %zu", &h.descriptors, &h.mappings, &h.threads) != 3)
        throw std::runtime_error("not understood: " + counts);
      h.host_bytes = host_bytes(job[rank].pid());
      h.gpu_bytes = used_bytes(job[rank]);
    }
    return all;
  }

  static Moments one_cycle(jobs::Job& job) {
    Moments moments;
    job.all("pause");
    moments.paused = held(job);
    job.all("resume");
    job.all("check world 17 16384");
    job.all("replay world");
    moments.active = held(job);
    return moments;
  }

  /// What is more than it was; empty when nothing is.
  static std::string growth(const std::vector<Held>& before, const std::vector<Held>& now) {
    std::string text;
    for (size_t rank = 0; rank < now.size(); ++rank) {
      const auto compare = [&](const char* what, size_t then, size_t later, size_t slack = 0) {
        if (later > then + slack)
          text += "rank " + std::to_string(rank) + ": " + what + " from " + std::to_string(then) +
                  " to " + std::to_string(later) + "\n";
      };
      compare("descriptors", before[rank].descriptors, now[rank].descriptors);
      compare("threads", before[rank].threads, now[rank].threads);
      compare("GPU bytes", before[rank].gpu_bytes, now[rank].gpu_bytes);
      if (kSanitized) continue;  // it keeps what was freed, and maps memory of its own
      compare("mappings", before[rank].mappings, now[rank].mappings);
      compare("host bytes", before[rank].host_bytes, now[rank].host_bytes, host_slack_bytes());
    }
    return text;
  }
};

TEST_F(Cycles, LeaveNothingBehind) {
  const int cycles = wanted_cycles();
  ASSERT_GT(cycles, 1);
  const int ranks = real_gpu() ? gpus_for(4) : 2;
  // glibc's initial thresholds, said aloud, stay as they are: what is freed goes back to the
  // kernel, so that no leak can hide in it (mallopt(3)).
  jobs::Job job(setup_, ranks,
                {{"MALLOC_MMAP_THRESHOLD_", "131072"}, {"MALLOC_TRIM_THRESHOLD_", "131072"}});
  job.use_devices(first_devices(ranks));
  job.make("world");
  job.all("capture world 16384");
  job.all("check world" + counts());
  for (int cycle = 0; cycle < kWarmUp; ++cycle) one_cycle(job);

  std::string grown = "no cycle ran";
  for (int stretch = 0; stretch < kStretches && !grown.empty(); ++stretch) {
    const Moments first = one_cycle(job);
    Moments last;
    for (int cycle = 1; cycle < cycles; ++cycle) last = one_cycle(job);
    grown = growth(first.paused, last.paused) + growth(first.active, last.active);
  }

  EXPECT_EQ(grown, "");
  job.all("check world" + counts());
  if (kSanitized) GTEST_SKIP() << "mappings and host memory: a sanitizer's are not told from ours";
}

}  // namespace
}  // namespace amem
