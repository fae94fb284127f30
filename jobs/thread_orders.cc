// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/thread_orders.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "jobs/device.h"
#include "jobs/order_loop.h"

namespace jobs {
namespace {

// Without a deadline. condition_variable::wait() would need GLIBCXX_3.4.30, newer than in
// manylinux_2_34.
constexpr auto kForever = std::chrono::steady_clock::time_point::max();

}  // namespace

class ThreadOrders::OrderThread {
 public:
  explicit OrderThread(const Orders& all) : all_(all) {
    Context context = nullptr;
    JOB_CUDA(current_context(&context));
    thread_ = std::thread([this, context] { follow(context); });
  }
  ~OrderThread() {
    give("");
    thread_.join();
  }

  /// An empty line ends the thread.
  void give(std::string line) {
    std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    changed_.notify_all();
  }
  std::string answer() {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, kForever, [this] { return !answers_.empty(); });
    return take(answers_);
  }

 private:
  static std::string take(std::deque<std::string>& queue) {
    std::string front = std::move(queue.front());
    queue.pop_front();
    return front;
  }
  void follow(Context context) {
    if (context != nullptr) device_calls().set_current(context);
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, kForever, [this] { return !lines_.empty(); });
      const std::string line = take(lines_);
      if (line.empty()) return;
      lock.unlock();
      std::string answer = answer_to(all_, line);
      lock.lock();
      answers_.push_back(std::move(answer));
      changed_.notify_all();
    }
  }

  const Orders& all_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_, answers_;
  std::thread thread_;
};

ThreadOrders::ThreadOrders(const Orders& all) : all_(all) {}
ThreadOrders::~ThreadOrders() = default;

Orders ThreadOrders::orders() {
  return {{"thread", [this](Words& words) { return thread(words); }},
          {"wait", [this](Words& words) { return wait(words); }}};
}

std::string ThreadOrders::thread(Words& words) {
  std::string name, line;
  words >> name >> std::ws;
  std::getline(words, line);
  if (line.empty()) throw std::runtime_error("thread NAME ORDER...: no order");
  std::unique_ptr<OrderThread>& thread = threads_[name];
  if (thread == nullptr) thread = std::make_unique<OrderThread>(all_);
  thread->give(line);
  return "";
}

std::string ThreadOrders::wait(Words& words) {
  std::string name;
  words >> name;
  const auto found = threads_.find(name);
  if (found == threads_.end()) throw std::runtime_error("no thread " + name);
  const std::string answer = found->second->answer();
  const bool ok = answer.starts_with("ok ");
  const std::string text = answer.substr(ok ? 3 : sizeof "error");
  if (!ok) throw std::runtime_error(text);
  return text;
}

}  // namespace jobs
