// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "bench/timeline_bench.h"

#include <fmt/core.h>

#include <cstdio>
#include <sstream>

#include "bench/stretch.h"

namespace bench {

namespace {

constexpr int kCycles = 2;
constexpr int kPeriodUs = 2000;

/// A process on GPU 0 that takes samples.
class Watcher {
 public:
  explicit Watcher(const Contender& contender) : rank_(contender.setup, {}) {
    rank_.ask("device 0");
    unsigned long long free_bytes = 0, total_bytes = 0;
    sscanf(rank_.ask("memory").c_str(), "%llu %llu", &free_bytes, &total_bytes);
    base_bytes_ = static_cast<int64_t>(total_bytes - free_bytes);
  }

  void begin() { rank_.ask(fmt::format("samples_begin {}", kPeriodUs)); }
  long samples() { return std::stol(rank_.ask("samples")); }
  /// Ends it: [seconds since `origin_ns`, bytes more than there were before] of each sample.
  nlohmann::json end(int64_t origin_ns) {
    nlohmann::json samples = nlohmann::json::array();
    std::istringstream text(rank_.ask("samples_end"));
    int64_t at_ns = 0, used_bytes = 0;
    while (text >> at_ns >> used_bytes)
      samples.push_back({static_cast<double>(at_ns - origin_ns) / 1e9, used_bytes - base_bytes_});
    return samples;
  }

 private:
  jobs::RankProcess rank_;
  int64_t base_bytes_ = 0;
};

class Timeline {
 public:
  Timeline(const Contender& watcher, const Contender& contender, const WorkloadSize& size,
           const Way& way, const TimelineOptions& options)
      : watcher_(watcher), workload_(contender, size), way_(way), options_(options) {}

  nlohmann::json run() {
    workload_.set_up();
    all_reduce_each();  // so that the first work of the line takes no buffers either
    watcher_.begin();
    work();
    for (int i = 0; i < kCycles; ++i) {
      add("pause", timed([this] { way_.pause(workload_); }));
      add("away", waited(options_.away_s, kCounted, counter_));
      add("resume", timed([this] { way_.resume(workload_); }));
      work();
    }
    return record();
  }

 private:
  static constexpr const char* kCounted = "the samples of memory in use";

  /// Small all_reduces: their buffers stay, and are a page that the driver shares out.
  void all_reduce_each() {
    for (int c = 0; c < workload_.size().communicators; ++c)
      workload_.job().all(fmt::format("time {} all_reduce 17 20", Workload::name(c)));
  }
  void work() {
    add("work", repeated([this] { all_reduce_each(); }, options_.work_s, kCounted, counter_));
  }
  void add(const char* name, const Stretch& stretch) { events_.emplace_back(name, stretch); }

  nlohmann::json record() {
    const int64_t origin_ns = events_.front().second.begin_ns;
    nlohmann::json events = nlohmann::json::array();
    for (const auto& [name, stretch] : events_) {
      const double begin_s = Stretch{origin_ns, stretch.begin_ns}.seconds();
      events.push_back(
          {{"name", name}, {"begin_s", begin_s}, {"end_s", begin_s + stretch.seconds()}});
    }
    nlohmann::json out = {{"figures", "timeline"},
                          {"contender", way_.contender},
                          {"communicators", workload_.size().communicators},
                          {"counts", workload_.size().counts},
                          {"samples", watcher_.end(origin_ns)},
                          {"events", events}};
    out["verified"] = workload_.check();
    return out;
  }

  Watcher watcher_;  // before the ranks: it looks at what is in use without them
  Workload workload_;
  const Way& way_;
  const TimelineOptions options_;
  const std::function<long()> counter_ = [this] { return watcher_.samples(); };
  std::vector<std::pair<const char*, Stretch>> events_;
};

}  // namespace

nlohmann::json measure_timeline(const Contender& watcher, const Contender& contender,
                                const WorkloadSize& size, const Way& way,
                                const TimelineOptions& options) {
  return Timeline(watcher, contender, size, way, options).run();
}

}  // namespace bench
