// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "bench/pause_bench.h"

#include <array>
#include <cstdio>
#include <map>

#include "bench/summary.h"

namespace bench {

namespace {

/// amemTimes_t as the order "times" tells it.
struct Times {
  std::array<double, 9> ms{};
  std::array<unsigned long long, 3> bytes{};
};

enum Phase : size_t { kPause = 0, kResume = 5 };

struct PhaseName {
  const char* name;
  size_t index, whole;
};
constexpr PhaseName kPhases[] = {
    {"pause_wait_ms", 1, kPause},     {"pause_peers_ms", 2, kPause},
    {"pause_copy_ms", 3, kPause},     {"pause_memory_ms", 4, kPause},
    {"resume_memory_ms", 6, kResume}, {"resume_copy_ms", 7, kResume},
    {"resume_peers_ms", 8, kResume},
};

std::vector<Times> read_times(jobs::Job& job) {
  std::vector<Times> all;
  for (const std::string& answer : job.all("times")) {
    Times& t = all.emplace_back();
    auto& [ms, bytes] = t;
    sscanf(answer.c_str(), "%lf %lf %lf %lf %lf %lf %lf %lf %lf %llu %llu %llu", &ms[0], &ms[1],
           &ms[2], &ms[3], &ms[4], &ms[5], &ms[6], &ms[7], &ms[8], &bytes[0], &bytes[1], &bytes[2]);
  }
  return all;
}

/// Each phase's median over the cycles, of the rank that was slowest in each of them.
nlohmann::json phase_medians(const std::vector<std::vector<Times>>& cycles) {
  nlohmann::json medians;
  for (const PhaseName& phase : kPhases) {
    std::vector<double> values;
    for (const std::vector<Times>& ranks : cycles) {
      const auto slower = [&](const Times& a, const Times& b) {
        return a.ms[phase.whole] < b.ms[phase.whole];
      };
      values.push_back(std::max_element(ranks.begin(), ranks.end(), slower)->ms[phase.index]);
    }
    medians[phase.name] = median(values);
  }
  return medians;
}

nlohmann::json most_bytes(const std::vector<Times>& ranks) {
  constexpr const char* kNames[] = {"pause_copied_bytes", "resume_copied_bytes", "host_bytes"};
  nlohmann::json most;
  for (size_t i = 0; i < std::size(kNames); ++i) {
    unsigned long long value = 0;
    for (const Times& rank : ranks) value = std::max(value, rank.bytes[i]);
    most[kNames[i]] = value;
  }
  return most;
}

/// Calls of all ranks to a simulated driver so far; -1 on a real one.
long long driver_calls(jobs::Job& job) {
  long long sum = 0;
  for (const std::string& answer : job.all("driver_calls")) {
    const long long calls = std::stoll(answer);
    if (calls < 0) return -1;
    sum += calls;
  }
  return sum;
}

/// What the ranks' totals say before a pause.
struct Held {
  std::vector<uint64_t> allocated_bytes, fixed_bytes, driver_bytes;
  unsigned long long own_objects = 0, imported_objects = 0;  ///< of the rank with the most
  unsigned long long allocations = 0;                        ///< of the rank with the most

  explicit Held(jobs::Job& job) {
    for (const std::string& answer : job.all("totals")) {
      unsigned long long made = 0, allocated = 0, fixed = 0, objects = 0, bytes = 0, imports = 0;
      sscanf(answer.c_str(), "%llu %llu %*u %*u %llu %*u %*u %llu %llu %llu", &made, &allocated,
             &fixed, &objects, &bytes, &imports);
      allocations = std::max(allocations, made);
      allocated_bytes.push_back(allocated);
      driver_bytes.push_back(bytes);
      fixed_bytes.push_back(fixed);
      if (objects + imports > own_objects + imported_objects) {
        own_objects = objects;
        imported_objects = imports;
      }
    }
  }
};

double least_ratio(const std::vector<uint64_t>& part, const std::vector<uint64_t>& whole) {
  double least = 1e9;
  for (size_t i = 0; i < part.size(); ++i)
    least = std::min(least, static_cast<double>(part[i]) / static_cast<double>(whole[i]));
  return least;
}

class PauseBench {
 public:
  explicit PauseBench(Workload& workload) : workload_(workload), held_(workload.job()) {}

  void run_cycle() {
    jobs::Job& job = workload_.job();
    const std::vector<uint64_t> active = workload_.used_bytes();
    long long calls = driver_calls(job);
    cycles_.pause_s.push_back(slowest(job.all("pause")));
    pause_calls_.push_back(static_cast<double>(driver_calls(job) - calls));
    freed_bytes_ = less(active, workload_.used_bytes());
    freed_ratio_ = std::min(freed_ratio_, least_ratio(freed_bytes_, held_.driver_bytes));
    calls = driver_calls(job);
    cycles_.resume_s.push_back(slowest(job.all("resume")));
    resume_calls_.push_back(static_cast<double>(driver_calls(job) - calls));
    times_.push_back(read_times(job));
    simulated_ = calls >= 0;
  }

  nlohmann::json record(bool verified) const {
    nlohmann::json out = cycles_.record();
    out["figures"] = "pause";
    out["contender"] = workload_.contender();
    out["communicators"] = workload_.size().communicators;
    out["counts"] = workload_.size().counts;
    out["allocated_bytes"] = held_.allocated_bytes;
    out["fixed_bytes"] = held_.fixed_bytes;
    out["driver_bytes"] = held_.driver_bytes;
    out["freed_bytes"] = freed_bytes_;
    out["freed_of_held"] = freed_ratio_;
    out["allocations"] = held_.allocations;
    out["own_objects"] = held_.own_objects;
    out["imported_objects"] = held_.imported_objects;
    out.update(most_bytes(times_.back()));
    out["phases"] = phase_medians({times_.begin() + 1, times_.end()});
    if (simulated_) {
      out["pause_driver_calls"] = summary({pause_calls_.begin() + 1, pause_calls_.end()});
      out["resume_driver_calls"] = summary({resume_calls_.begin() + 1, resume_calls_.end()});
    }
    out["verified"] = verified;
    return out;
  }

 private:
  Workload& workload_;
  const Held held_;
  Cycles cycles_;
  std::vector<uint64_t> freed_bytes_;
  double freed_ratio_ = 1e9;
  std::vector<std::vector<Times>> times_;
  std::vector<double> pause_calls_, resume_calls_;
  bool simulated_ = false;
};

}  // namespace

nlohmann::json measure_pause(Workload& workload, int cycles) {
  PauseBench bench(workload);
  for (int i = 0; i + 1 < cycles; ++i) {
    bench.run_cycle();
    workload.use();
  }
  bench.run_cycle();
  return bench.record(workload.check());
}

}  // namespace bench
