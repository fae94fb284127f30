// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "bench/workload.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>

namespace bench {

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

double slowest(const std::vector<std::string>& answers) {
  double most = 0;
  for (const std::string& answer : answers) most = std::max(most, std::stod(answer));
  return most;
}

std::vector<uint64_t> less(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
  std::vector<uint64_t> differences;
  for (size_t i = 0; i < a.size(); ++i) differences.push_back(a[i] > b[i] ? a[i] - b[i] : 0);
  return differences;
}

std::string Workload::name(int communicator) { return fmt::format("c{:03}", communicator); }

Workload::Workload(const Contender& contender, WorkloadSize size)
    : contender_(contender.name), size_(std::move(size)), job_(contender.setup, size_.gpus) {
  std::vector<int> devices(static_cast<size_t>(size_.gpus));
  std::iota(devices.begin(), devices.end(), 0);
  job_.use_devices(devices);
  bare_bytes_ = used_bytes();
}

Workload::~Workload() {
  for (int r = 0; r < job_.size(); ++r) {
    try {
      job_[r].order("exit");
    } catch (const std::exception&) {
      continue;  // it has ended already
    }
  }
}

double Workload::set_up() {
  const auto start = Clock::now();
  for (int c = 0; c < size_.communicators; ++c) job_.make(name(c));
  use();
  return seconds_since(start);
}

double Workload::tear_down() {
  const auto start = Clock::now();
  order_all("destroy", "");
  return seconds_since(start);
}

void Workload::use() { order_all("connect", size_.counts); }

bool Workload::check() {
  try {
    order_all("check", size_.counts);
    return true;
  } catch (const std::exception& error) {
    fmt::print(stderr, "  a check failed: {}\n", error.what());
    return false;
  }
}

void Workload::order_all(const std::string& order, const std::string& rest) {
  for (int c = 0; c < size_.communicators; ++c)
    job_.all(fmt::format("{} {}{}", order, name(c), rest));
}

std::vector<uint64_t> Workload::used_bytes() {
  std::vector<uint64_t> used;
  for (const std::string& answer : job_.all("memory")) {
    unsigned long long free_bytes = 0, total_bytes = 0;
    sscanf(answer.c_str(), "%llu %llu", &free_bytes, &total_bytes);
    used.push_back(total_bytes - free_bytes);
  }
  return used;
}

std::vector<uint64_t> Workload::used_since_start_bytes() { return less(used_bytes(), bare_bytes_); }

}  // namespace bench
