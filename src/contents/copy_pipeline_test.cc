// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/copy_pipeline.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>

#include "tests/support/fake_gpus.h"

namespace amem {
namespace {

constexpr int kDevice = FakeGpus::kFirstDevice;
constexpr size_t kBytes = FakeGpus::kBytes;

class CopyPipelineTest : public testing::Test {
 protected:
  CopyPipelineTest() { pipeline_.emplace(devices_, copiers_); }
  /// Adds a transfer into memory of the test's own.
  void add(BackingId id) {
    std::vector<unsigned char>& host = on_host_.emplace_back(kBytes);
    Transfer transfer;
    transfer.backing = id;
    transfer.device = kDevice;
    transfer.address = gpus_.add(kDevice, static_cast<unsigned char>(id));
    transfer.size_bytes = kBytes;
    transfer.pieces = {{0, kBytes}};
    transfer.on_host =
        std::make_shared<std::vector<HostExtent>>(1, HostExtent{host.data(), kBytes});
    transfer.under_way = under_way_;
    pipeline_->add(std::move(transfer));
  }
  bool has_arrived(size_t index, unsigned char seed) {
    return on_host_[index].front() == seed &&
           on_host_[index][250] == static_cast<unsigned char>(seed + 250);
  }
  static Deadline patience() { return Deadline::after_ms(20000); }

  Driver driver_{};
  FakeGpus gpus_{driver_};
  const ExitFlag exiting_;
  std::deque<std::vector<unsigned char>> on_host_;
  std::shared_ptr<const void> under_way_ = std::make_shared<int>();
  Copiers copiers_{driver_, exiting_, CopyDirection::to_host};
  DeviceThreads devices_{driver_, exiting_};
  std::optional<CopyPipeline> pipeline_;
};

TEST_F(CopyPipelineTest, EachIsWaitedForByItself) {
  for (const BackingId id : {1, 2, 3}) add(id);
  pipeline_->finish();

  for (const BackingId id : {1, 2, 3}) {
    ASSERT_TRUE(pipeline_->wait_for(id, patience()).ok());
    EXPECT_TRUE(has_arrived(id - 1, static_cast<unsigned char>(id)));
  }
}

TEST_F(CopyPipelineTest, OneThatWasNotAddedNeedsNoWait) {
  pipeline_->finish();

  EXPECT_TRUE(pipeline_->wait_for(4711, Deadline::after_ms(0)).ok());
  EXPECT_TRUE(pipeline_->wait_for_all(Deadline::after_ms(0)).ok());
}

TEST_F(CopyPipelineTest, ErrorEndsThoseThatHaveNotBegunAndIsTheirs) {
  {
    MutexLock lock(gpus_.mutex);
    gpus_.failing_copy = 2;
  }
  for (const BackingId id : {1, 2, 3, 4}) add(id);
  pipeline_->finish();

  const Status status = pipeline_->wait_for(3, patience());

  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("cuMemcpyDtoHAsync"), std::string::npos);
  EXPECT_FALSE(pipeline_->wait_for_all(patience()).ok());
  MutexLock lock(gpus_.mutex);
  EXPECT_EQ(gpus_.copies, 2u);
}

// The job of the first does not run, and the next one has nothing to wait for.
TEST_F(CopyPipelineTest, OneWhoseJobDoesNotRunHasNotBeenMade) {
  static int calls = 0;
  calls = 0;
  driver_.cuThreadExchangeStreamCaptureMode = [](int*) {
    return ++calls == 1 ? driver_result::kUnknown : driver_result::kSuccess;
  };
  for (const BackingId id : {1, 2}) add(id);
  pipeline_->finish();

  const Status status = pipeline_->wait_for(1, patience());

  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("cuThreadExchangeStreamCaptureMode"), std::string::npos);
  EXPECT_FALSE(pipeline_->wait_for_all(patience()).ok());
}

// They may still be copied: their memory has to stay.
TEST_F(CopyPipelineTest, TransfersAreKeptUntilNothingIsUnderWay) {
  {
    MutexLock lock(gpus_.mutex);
    gpus_.ending_copies = 1;
  }
  for (const BackingId id : {1, 2, 3}) add(id);
  ASSERT_TRUE(pipeline_->wait_for(1, patience()).ok());
  EXPECT_FALSE(pipeline_->wait_for(2, Deadline::after_ms(1)).ok());
  pipeline_.reset();
  EXPECT_GE(under_way_.use_count(), 1 + 3);

  {
    MutexLock lock(gpus_.mutex);
    gpus_.ending_copies = 100;
    gpus_.changed.notify_all();
  }
  ASSERT_TRUE(devices_.run({{kDevice, [] { return ok_status(); }}}, "the rest", patience()).ok());
  EXPECT_EQ(under_way_.use_count(), 1);
}

TEST_F(CopyPipelineTest, StoppedOneIsWaitedForWithoutAnError) {
  {
    MutexLock lock(gpus_.mutex);
    gpus_.ending_copies = 1;
  }
  for (const BackingId id : {1, 2, 3, 4, 5}) add(id);
  pipeline_->stop();
  {
    MutexLock lock(gpus_.mutex);
    gpus_.ending_copies = 100;
    gpus_.changed.notify_all();
  }
  EXPECT_TRUE(pipeline_->wait_until_idle(patience()).ok());
  EXPECT_EQ(under_way_.use_count(), 1);
}

}  // namespace
}  // namespace amem
