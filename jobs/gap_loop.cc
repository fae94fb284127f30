// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/gap_loop.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <vector>

namespace jobs {

namespace {

int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Orders GapLoop::orders() {
  return {{"gaps_begin", [this](Words& words) { return begin(words); }},
          {"gap_rounds", [this](Words&) { return std::to_string(rounds_); }},
          {"gaps_end", [this](Words& words) { return end(words); }},
          {"gaps_between", [this](Words& words) { return between(words); }}};
}

std::string GapLoop::begin(Words& words) {
  if (thread_.joinable()) throw std::runtime_error("the rounds have begun already");
  std::string name;
  words >> name;
  Communicator& communicator = communicators_.find(name);
  Context context = nullptr;
  JOB_CUDA(current_context(&context));
  error_.clear();
  rounds_ = 0;
  finish_ = false;
  communicator.sum(0);
  done_ns_ = {now_ns()};
  thread_ = std::thread([this, &communicator, context] {
    try {
      JOB_CUDA(set_current(context));
      run(communicator);
    } catch (const std::exception& error) {
      error_ = error.what();
    }
  });
  return "";
}

void GapLoop::run(Communicator& communicator) {
  for (bool wanted_by_nobody = true; wanted_by_nobody; ++rounds_) {
    wanted_by_nobody = communicator.sum(finish_ ? 1 : 0) == 0;
    done_ns_.push_back(now_ns());
  }
}

std::string GapLoop::end(Words&) {
  if (!thread_.joinable()) throw std::runtime_error("no rounds have begun");
  finish_ = true;
  thread_.join();
  if (!error_.empty()) throw std::runtime_error(error_);
  return std::to_string(rounds_);
}

std::string GapLoop::between(Words& words) {
  int64_t begin_ns = 0, end_ns = 0;
  words >> begin_ns >> end_ns;
  if (thread_.joinable()) throw std::runtime_error("the rounds go on");
  long rounds = 0;
  std::vector<int64_t> gaps;
  for (size_t i = 1; i < done_ns_.size(); ++i) {
    const int64_t from = done_ns_[i - 1], to = done_ns_[i];
    if (to >= begin_ns && to < end_ns) ++rounds;
    if (to > begin_ns && from < end_ns) gaps.push_back(to - from);
  }
  if (gaps.empty()) throw std::runtime_error("there were no rounds at that time");
  const auto middle = gaps.begin() + static_cast<long>(gaps.size() / 2);
  std::nth_element(gaps.begin(), middle, gaps.end());
  return std::to_string(rounds) + " " + std::to_string(*middle) + " " +
         std::to_string(*std::max_element(gaps.begin(), gaps.end()));
}

}  // namespace jobs
