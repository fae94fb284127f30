// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/busy_device.h"

#include <chrono>
#include <stdexcept>

namespace jobs {
namespace {

// Without a deadline. condition_variable::wait() would need GLIBCXX_3.4.30, newer than in
// manylinux_2_34.
constexpr auto kForever = std::chrono::steady_clock::time_point::max();

}  // namespace

Orders BusyDevice::orders() {
  return {{"keep_busy", [this](Words& words) { return keep_busy(words); }},
          {"end_busy", [this](Words& words) { return end_busy(words); }},
          {"busy_rounds", [this](Words&) { return std::to_string(rounds_); }},
          {"begin_work", [this](Words&) { return begin_work(); }},
          {"end_work", [this](Words&) { return end_work(); }}};
}

std::string BusyDevice::keep_busy(Words&) {
  if (thread_.joinable()) throw std::runtime_error("the device is busy already");
  Context context = nullptr;
  JOB_CUDA(current_context(&context));
  stop_ = false;
  error_.clear();
  thread_ = std::thread([this, context] {
    try {
      work(context);
    } catch (const std::exception& error) {
      error_ = error.what();
    }
  });
  return "";
}

std::string BusyDevice::end_busy(Words&) {
  if (!thread_.joinable()) throw std::runtime_error("the device is not busy");
  stop_ = true;
  thread_.join();
  if (!error_.empty()) throw std::runtime_error(error_);
  return "";
}

void BusyDevice::work(Context context) {
  constexpr unsigned kNonBlocking = 1, kDisableTiming = 2;
  constexpr size_t kBytes = 8 << 20;
  JOB_CUDA(set_current(context));
  Stream stream = nullptr;
  Event done[2] = {};
  Address memory = 0;
  JOB_CUDA(stream_create(&stream, kNonBlocking));
  for (Event& event : done) JOB_CUDA(event_create(&event, kDisableTiming));
  JOB_CUDA(mem_alloc(&memory, kBytes));
  const auto queue_one = [&](Event event) {
    JOB_CUDA(fill8_async(memory, 0x5A, kBytes, stream));
    JOB_CUDA(event_record(event, stream));
  };
  queue_one(done[0]);
  for (size_t i = 0; !stop_; i ^= 1) {
    queue_one(done[i ^ 1]);
    JOB_CUDA(event_synchronize(done[i]));
    ++rounds_;
  }
  JOB_CUDA(stream_synchronize(stream));
  JOB_CUDA(mem_free(memory));
}

std::string BusyDevice::begin_work() {
  constexpr unsigned kNonBlocking = 1;
  Stream stream = nullptr;
  JOB_CUDA(stream_create(&stream, kNonBlocking));
  {
    std::lock_guard guard(mutex_);
    lasts_ = true;
  }
  const auto wait = [](void* data) {
    auto& self = *static_cast<BusyDevice*>(data);
    std::unique_lock lock(self.mutex_);
    self.changed_.wait_until(lock, kForever, [&self] { return !self.lasts_; });
  };
  JOB_CUDA(launch_host_function(stream, wait, this));
  return "";
}

std::string BusyDevice::end_work() {
  std::lock_guard guard(mutex_);
  lasts_ = false;
  changed_.notify_all();
  return "";
}

}  // namespace jobs
