// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/memory_sampler.h"

#include <chrono>
#include <stdexcept>

#include "jobs/device.h"

namespace jobs {

using Clock = std::chrono::steady_clock;

Orders MemorySampler::orders() {
  return {{"samples_begin", [this](Words& words) { return begin(words); }},
          {"samples", [this](Words&) { return std::to_string(taken_); }},
          {"samples_end", [this](Words& words) { return end(words); }}};
}

std::string MemorySampler::begin(Words& words) {
  if (thread_.joinable()) throw std::runtime_error("samples are being taken already");
  long period_us = 0;
  if (!(words >> period_us) || period_us <= 0)
    throw std::runtime_error("samples_begin PERIOD_US: no period");
  Context context = nullptr;
  JOB_CUDA(current_context(&context));
  stop_ = false;
  taken_ = 0;
  samples_.clear();
  error_.clear();
  take();
  thread_ = std::thread([this, context, period = std::chrono::microseconds(period_us)] {
    try {
      JOB_CUDA(set_current(context));
      // Not at fixed times: after a look that the driver kept waiting, others must not follow at
      // once.
      while (!stop_) {
        std::this_thread::sleep_for(period);
        take();
      }
    } catch (const std::exception& error) {
      error_ = error.what();
    }
  });
  return "";
}

void MemorySampler::take() {
  size_t free_bytes = 0, total_bytes = 0;
  JOB_CUDA(mem_info(&free_bytes, &total_bytes));
  const Sample now{std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(),
                   total_bytes - free_bytes};
  const size_t count = samples_.size();
  if (count >= 2 && samples_[count - 1].used_bytes == now.used_bytes &&
      samples_[count - 2].used_bytes == now.used_bytes)
    samples_.back() = now;
  else
    samples_.push_back(now);
  ++taken_;
}

std::string MemorySampler::end(Words&) {
  if (!thread_.joinable()) throw std::runtime_error("no samples are being taken");
  stop_ = true;
  thread_.join();
  if (!error_.empty()) throw std::runtime_error(error_);
  std::string text;
  for (const Sample& sample : samples_)
    text += std::to_string(sample.at_ns) + " " + std::to_string(sample.used_bytes) + " ";
  return text;
}

}  // namespace jobs
