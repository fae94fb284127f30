// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/stream.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>

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

// A GPU works without threads of the process: where the limits of the process allow none, the
// caller does the work.
void Stream::enqueue(Operation operation) {
  std::unique_lock lock(mutex_);
  queue_.push_back(std::move(operation));
  enqueued_ += 1;
  changed_.notify_all();
  if (started_ || completed_ + 1 < enqueued_) return;
  started_ = start_worker();
  while (!started_ && !queue_.empty()) run_next(lock);
}

// Signals are the program's: its handlers must not find themselves on a simulated GPU.
bool Stream::start_worker() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  auto self = std::make_unique<std::shared_ptr<Stream>>(shared_from_this());
  const auto work = [](void* stream) -> void* {
    const std::unique_ptr<std::shared_ptr<Stream>> own(
        static_cast<std::shared_ptr<Stream>*>(stream));
    (*own)->work();
    return nullptr;
  };
  pthread_t thread{};
  const bool started = pthread_create(&thread, nullptr, work, self.get()) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) return false;
  (void)self.release();
  pthread_detach(thread);
  return true;
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait_until(lock, kForever, [this] { return !queue_.empty() || closed_; });
    if (queue_.empty()) return;
    run_next(lock);
  }
}

void Stream::run_next(std::unique_lock<std::mutex>& lock) {
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
