// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Which calls wait for the device, and for how much of its work.
#include <poll.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "tests/contract/capture_case.h"
#include "tests/contract/gate.h"

namespace amem::contract {
namespace {

class Waiting : public CaptureCase {
 protected:
  // The call, made in a relaxed thread with the context current, returns only when the work of
  // `other_` is done, which was there before.
  void expect_wait(const std::function<CuResult()>& call) {
    Gate gate;
    ASSERT_EQ(kSuccess, driver().cuLaunchHostFunc(other_, &Gate::hold, &gate));
    ASSERT_TRUE(gate.wait_until_held());
    std::atomic<bool> returned{false};
    CuResult result = kErrorUnknown;
    CuResult idle = kErrorUnknown;
    std::thread waiter([&] {
      int mode = kCaptureRelaxed;
      EXPECT_EQ(kSuccess, driver().cuCtxSetCurrent(context_));
      EXPECT_EQ(kSuccess, driver().cuThreadExchangeStreamCaptureMode(&mode));
      result = call();
      returned = true;
      idle = driver().cuStreamQuery(other_);
    });

    EXPECT_TRUE(stays_false([&] { return returned.load(); }));
    gate.open();
    waiter.join();

    EXPECT_EQ(kSuccess, result);
    EXPECT_EQ(kSuccess, idle) << "it returned before the work was done";
  }
};

TEST_F(Waiting, IsDoneByCuMemFree) {
  CuDevicePtr address = 0;
  ASSERT_EQ(kSuccess, driver().cuMemAlloc(&address, 64));
  expect_wait([address] { return driver().cuMemFree(address); });
}

TEST_F(Waiting, IsDoneByCuMemFreeHost) {
  void* pinned = nullptr;
  ASSERT_EQ(kSuccess, driver().cuMemHostAlloc(&pinned, 4096, 0));
  expect_wait([pinned] { return driver().cuMemFreeHost(pinned); });
}

TEST_F(Waiting, IsDoneByCuCtxSynchronize) {
  expect_wait([] { return driver().cuCtxSynchronize(); });
}

TEST_F(Waiting, IsDoneForStreamsThatWereDestroyed) {
  CuStream doomed = nullptr;
  Gate gate;
  std::atomic<bool> returned{false};
  ASSERT_EQ(kSuccess, driver().cuStreamCreate(&doomed, kStreamNonBlocking));
  ASSERT_EQ(kSuccess, driver().cuLaunchHostFunc(doomed, &Gate::hold, &gate));
  ASSERT_TRUE(gate.wait_until_held());
  ASSERT_EQ(kSuccess, driver().cuStreamDestroy(doomed));
  std::thread waiter([&] {
    EXPECT_EQ(kSuccess, driver().cuCtxSetCurrent(context_));
    EXPECT_EQ(kSuccess, driver().cuCtxSynchronize());
    returned = true;
  });

  EXPECT_TRUE(stays_false([&] { return returned.load(); }));

  gate.open();
  waiter.join();
}

// So the engine waits for a device while the program captures (cuCtxSynchronize would spoil it):
// with pinned memory of which some is in use all the time.
TEST_F(Waiting, WithPinnedMemoryLeavesACaptureAlone) {
  void* stays = nullptr;
  ASSERT_EQ(kSuccess, driver().cuMemHostAlloc(&stays, 64, 0));
  for (const int mode : {kCaptureGlobal, kCaptureThreadLocal, kCaptureRelaxed}) {
    begin(mode);
    expect_wait([] {
      void* pinned = nullptr;
      const CuResult allocated = driver().cuMemHostAlloc(&pinned, 64, 0);
      return allocated == kSuccess ? driver().cuMemFreeHost(pinned) : allocated;
    });
    end_well();
  }
  EXPECT_EQ(kSuccess, driver().cuMemFreeHost(stays));
}

TEST_F(Waiting, IsNotDoneByCuMemUnmap) {
  const CuDevicePtr address = allocate(granularity());
  Gate gate;
  ASSERT_EQ(kSuccess, driver().cuLaunchHostFunc(other_, &Gate::hold, &gate));
  ASSERT_TRUE(gate.wait_until_held());

  EXPECT_EQ(kSuccess, driver().cuMemUnmap(address, granularity()));

  EXPECT_EQ(kErrorNotReady, driver().cuStreamQuery(other_));
  gate.open();
  EXPECT_EQ(kSuccess, driver().cuStreamSynchronize(other_));
  EXPECT_EQ(kSuccess, driver().cuMemAddressFree(address, granularity()));
}

/// Keeps a stream at work from another thread: some pieces are always queued. Gives up at the
/// deadline; ends when its work is done.
class Feeder {
 public:
  Feeder(CuContext context, CuStream stream)
      : thread_([this, context, stream] { feed(context, stream); }) {}
  ~Feeder() { stop(); }
  Feeder(const Feeder&) = delete;

  bool wait_until_busy() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kDeadline, [this] { return done_ > 0; });
  }

  /// True if it had not given up.
  bool stop() {
    {
      std::lock_guard guard(mutex_);
      stop_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    return !gave_up_;
  }

 private:
  static constexpr int kBacklog = 4;
  static constexpr int kPieceMs = 5;  // that long a piece of work takes the stream

  static void work(void* data) {
    auto* feeder = static_cast<Feeder*>(data);
    poll(nullptr, 0, kPieceMs);
    std::lock_guard guard(feeder->mutex_);
    feeder->done_ += 1;
    feeder->changed_.notify_all();
  }

  void feed(CuContext context, CuStream stream) {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    EXPECT_EQ(kSuccess, driver().cuCtxSetCurrent(context));
    int queued = 0;
    std::unique_lock lock(mutex_);
    while (!stop_ && !gave_up_) {
      lock.unlock();
      EXPECT_EQ(kSuccess, driver().cuLaunchHostFunc(stream, &Feeder::work, this));
      queued += 1;
      lock.lock();
      changed_.wait_until(lock, deadline, [&] { return stop_ || queued - done_ < kBacklog; });
      gave_up_ = std::chrono::steady_clock::now() >= deadline;
    }
    EXPECT_TRUE(changed_.wait_for(lock, kDeadline, [&] { return done_ == queued; }));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int done_ = 0;
  bool stop_ = false;
  bool gave_up_ = false;
  std::thread thread_;
};

TEST_F(Waiting, EndsAlthoughMoreWorkKeepsComing) {
  void* pinned = nullptr;
  ASSERT_EQ(kSuccess, driver().cuMemHostAlloc(&pinned, 64, 0));
  Feeder feeder(context_, other_);
  ASSERT_TRUE(feeder.wait_until_busy());

  EXPECT_EQ(kSuccess, driver().cuCtxSynchronize());
  EXPECT_EQ(kSuccess, driver().cuMemFreeHost(pinned));

  EXPECT_TRUE(feeder.stop()) << "it returned only when no more work came";
}

}  // namespace
}  // namespace amem::contract
