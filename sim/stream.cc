// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/stream.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "sim/context.h"

namespace amem::sim {
namespace {

// Without a deadline. condition_variable::wait() would need GLIBCXX_3.4.30, newer than in
// manylinux_2_34.
constexpr auto kForever = std::chrono::steady_clock::time_point::max();

}  // namespace

void Completion::finish() {
  std::lock_guard guard(mutex_);
  at_ = std::chrono::steady_clock::now();
  done_ = true;
  changed_.notify_all();
}

bool Completion::done() {
  std::lock_guard guard(mutex_);
  return done_;
}

void Completion::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, kForever, [this] { return done_; });
}

std::chrono::steady_clock::time_point Completion::at() {
  std::lock_guard guard(mutex_);
  return at_;
}

void Stream::enqueue(Operation operation) {
  std::lock_guard guard(mutex_);
  queue_.push_back(std::move(operation));
  enqueued_ += 1;
  if (!started_) start_worker();
  changed_.notify_all();
}

// Signals are the program's: its handlers must not find themselves on a simulated GPU.
void Stream::start_worker() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([self = shared_from_this()] { self->work(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  started_ = true;
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait_until(lock, kForever, [this] { return !queue_.empty() || closed_; });
    if (queue_.empty()) return;
    Operation operation = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    if (operation.always || context_.failure() == kSuccess) {
      const CuResult result = operation.run();
      if (result != kSuccess) context_.fail(result);
    }
    operation.run = nullptr;  // what it refers to goes before anybody is told that it is done
    lock.lock();
    completed_ += 1;
    changed_.notify_all();
  }
}

uint64_t Stream::position() {
  std::lock_guard guard(mutex_);
  return enqueued_;
}

void Stream::wait_for(uint64_t position) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, kForever, [this, position] { return completed_ >= position; });
}

bool Stream::idle() {
  std::lock_guard guard(mutex_);
  return completed_ == enqueued_;
}

void Stream::close() {
  std::lock_guard guard(mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool Stream::finished() {
  std::lock_guard guard(mutex_);
  return closed_ && completed_ == enqueued_;
}

}  // namespace amem::sim
