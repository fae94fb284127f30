// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Resumes that wait for memory which others release.
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <thread>

#include "base/file_lock.h"
#include "base/user_folder.h"
#include "engine/tag_switch.h"
#include "tests/support/session_fixture.h"

namespace amem {
namespace {

using enum SessionState;

constexpr char kGpu[] = "GPU-01010101-0101-0101-0101-010101010101";

/// The ticket of a process that has joined before all others, for as long as it exists.
class EarlierTicket {
 public:
  EarlierTicket() {
    constexpr off_t kPlace = 100 * sizeof(TicketEntry);
    TicketEntry entry{};
    entry.joined_ns = 1;
    entry.waits = 1;
    entry.counts_until_ns = std::numeric_limits<int64_t>::max();
    strcpy(entry.job, "another job");
    strcpy(entry.gpus[0], kGpu);
    EXPECT_EQ(pwrite(file_.value().get(), &entry, sizeof entry, kPlace), ssize_t{sizeof entry});
    EXPECT_TRUE(lock_file(file_.value().get(), F_OFD_SETLK, F_WRLCK, kPlace, sizeof(TicketEntry)));
  }

 private:
  Result<UniqueFd> file_ = open_user_file(TicketEntry::kFile);
};

class RoomWaitTest : public SessionTest {
 protected:
  static constexpr size_t kObjects = 4;

  RoomWaitTest() {
    for (size_t i = 0; i < kObjects; ++i) weights_.push_back(add("weights"));
    for (size_t i = 0; i < kObjects; ++i) kv_cache_.push_back(add("kv_cache"));
    driver_.cuDeviceGetUuid_v2 = [](void* uuid, int) {
      memset(uuid, 1, 16);
      return driver_result::kSuccess;
    };
  }
  static Selection waiting(const Tag& tag, long wait_ms = 20000) {
    Selection selection{{tag}};
    selection.wait_ms = wait_ms;
    return selection;
  }
  bool are_intact(const std::vector<BackingId>& ids) {
    return std::all_of(ids.begin(), ids.end(), [&](BackingId id) { return is_intact(id); });
  }
  size_t room() {
    MutexLock lock(gpus_.mutex);
    return gpus_.room;
  }
  size_t copies() {
    MutexLock lock(gpus_.mutex);
    return gpus_.copies;
  }
  bool created(size_t count) {
    MutexLock lock(gpus_.mutex);
    return gpus_.changed.wait_until(gpus_.mutex, patience(), [&]() AMEM_REQUIRES(gpus_.mutex) {
      return gpus_.created >= count;
    });
  }
  /// Returns when the free memory has been queried again, which began after this.
  bool queried() {
    MutexLock lock(gpus_.mutex);
    const size_t wanted = gpus_.queries + 2;
    return gpus_.changed.wait_until(gpus_.mutex, patience(), [&]() AMEM_REQUIRES(gpus_.mutex) {
      return gpus_.queries >= wanted;
    });
  }
  /// A resume that waits.
  std::thread start_waiting(const Tag& tag) {
    std::thread resume([this, tag] { EXPECT_TRUE(session_.resume(waiting(tag)).ok()); });
    EXPECT_TRUE(queried());
    return resume;
  }
  /// Only the first tag fits.
  void pause_weights_and_fill() {
    ASSERT_TRUE(session_.pause({{"weights"}}).ok());
    set_room(0);
  }

  std::vector<BackingId> weights_, kv_cache_;
};

TEST_F(RoomWaitTest, TakesWhatAPauseOfAnotherTagReleases) {
  pause_weights_and_fill();
  std::thread resume([&] { EXPECT_TRUE(session_.resume(waiting("weights")).ok()); });
  while (session_.state("weights") != resuming) std::this_thread::yield();
  EXPECT_TRUE(session_.pause({{"kv_cache"}}).ok());
  resume.join();
  EXPECT_TRUE(are_intact(weights_));
  EXPECT_EQ(session_.state("kv_cache"), paused);
  EXPECT_EQ(room(), 0u);
}

// A process that computes may need what is free, and what it has returned to the driver.
TEST_F(RoomWaitTest, HoldsNothingUntilAllFitsAfterAPause) {
  pause_weights_and_fill();
  std::thread resume = start_waiting("weights");
  EXPECT_TRUE((set_room(kObjects - 1), queried()));
  EXPECT_EQ(room(), kObjects - 1);
  RoomTicket other;
  other.announce({{kGpu, kBytes - 1}, {"another GPU", SIZE_MAX}}, patience());
  EXPECT_TRUE(queried());
  EXPECT_EQ(room(), kObjects - 1);
  other.announce({{kGpu, kBytes}}, patience());
  EXPECT_TRUE(created(kObjects - 1));
  EXPECT_TRUE((set_room(1), created(kObjects)));
  resume.join();
  EXPECT_TRUE(are_intact(weights_));
}

// The rest of what a pause releases is for the program that resumes.
TEST_F(RoomWaitTest, EndsWithThePauseThatMakesRoom) {
  pause_weights_and_fill();
  RoomTicket other;
  auto resumed =
      std::async(std::launch::async, [&] { return session_.resume(waiting("weights")); });
  EXPECT_TRUE(queried());
  other.announce({{kGpu, (kObjects + 1) * kBytes}}, patience());
  EXPECT_TRUE((set_room(1), created(1)));
  EXPECT_TRUE((set_room(kObjects - 1), created(kObjects)));
  EXPECT_EQ(resumed.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  other.announce({}, patience());
  EXPECT_TRUE(resumed.get().ok());
}

TEST_F(RoomWaitTest, PauseAnnouncesWhatItReleases) {
  static std::map<std::string, size_t> g_announced;
  RoomTicket other;
  ASSERT_TRUE(other.join("another job", {kGpu}).ok());
  driver_.cuMemcpyDtoHAsync_v2 = [](void*, DeviceAddress, size_t, DriverStream) {
    g_announced = RoomTicket().announced();
    return driver_result::kUnknown;
  };
  EXPECT_FALSE(session_.pause({{"weights"}}).ok());
  EXPECT_EQ(g_announced, (std::map<std::string, size_t>{{kGpu, kObjects * kBytes}}));
  EXPECT_TRUE(other.announced().empty());
}

// A copy of the resume before has failed: all memory is there.
TEST_F(RoomWaitTest, ContinuesWithWhatAFailedResumeHasLeft) {
  ASSERT_TRUE(session_.pause({{"weights"}}).ok());
  set_room(kObjects);
  set_failing_copy(copies() + 2);
  ASSERT_FALSE(session_.resume(waiting("weights")).ok());
  ASSERT_EQ(room(), 0u);
  const Status again = session_.resume(waiting("weights", 2000));
  EXPECT_TRUE(again.ok()) << again.error().message;
  EXPECT_TRUE(are_intact(weights_));
}

// The wait asks the driver of a device for its free memory, which says nothing: the resume is
// tried.
TEST_F(RoomWaitTest, DoesNotWaitForAnAnswerThatTheDriverRefuses) {
  pause_weights_and_fill();
  set_room(kObjects);
  driver_.cuMemGetInfo_v2 = [](size_t*, size_t*) { return driver_result::kUnknown; };
  EXPECT_TRUE(session_.resume(waiting("weights", 2000)).ok());
}

// Nobody has ever waited: there is no file of tickets.
TEST_F(RoomWaitTest, PauseOfAProgramThatDoesNotWaitMakesNoTicket) {
  std::filesystem::remove_all(user_folder());
  ASSERT_TRUE(session_.pause({{"weights"}}).ok());
  EXPECT_FALSE(std::filesystem::exists(user_folder() + "/" + TicketEntry::kFile));
}

TEST_F(RoomWaitTest, FillsWhatFitsWhileItWaitsForTheRest) {
  pause_weights_and_fill();
  RoomTicket other;
  std::thread resume = start_waiting("weights");
  other.announce({{kGpu, kObjects * kBytes}}, patience());
  for (size_t count = 1; count <= kObjects; ++count) {
    set_room(1);
    EXPECT_TRUE(created(count));
  }
  resume.join();
  EXPECT_TRUE(are_intact(weights_));
}

TEST_F(RoomWaitTest, ThatEndsReleasesEverythingAndSaysWhy) {
  pause_weights_and_fill();
  set_room(kObjects - 1);
  const Status late = session_.resume(waiting("weights", 30));
  ASSERT_FALSE(late.ok());
  for (const char* const part :
       {"the resume has waited 30 ms for GPU memory", "MiB are needed", "weights stays paused"})
    EXPECT_NE(late.error().message.find(part), std::string::npos) << late.error().message;
  EXPECT_FALSE(late.error().shortage.empty());
  EXPECT_EQ(room(), kObjects - 1);
  EXPECT_EQ(session_.state("weights"), paused);
  set_room(kObjects);
  EXPECT_TRUE(session_.resume(waiting("weights")).ok());
  EXPECT_TRUE(are_intact(weights_));
}

TEST_F(RoomWaitTest, IsThatOfTheSettingUnlessTheCallHasOne) {
  context_.resume_wait_ms = 20000;
  pause_weights_and_fill();
  EXPECT_FALSE(session_.resume(waiting("weights", 0)).ok());
  std::thread resume([&] { EXPECT_TRUE(session_.resume({{"weights"}}).ok()); });
  EXPECT_TRUE((set_room(kObjects), created(kObjects)));
  resume.join();
}

TEST_F(RoomWaitTest, BehindAnotherProcessHoldsNothing) {
  pause_weights_and_fill();
  RoomTicket other;
  ASSERT_TRUE(other.join("another job", {kGpu}).ok());
  set_room(kObjects);
  const Status behind = session_.resume(waiting("weights", 50));
  ASSERT_FALSE(behind.ok());
  EXPECT_NE(behind.error().message.find("behind others"), std::string::npos)
      << behind.error().message;
  EXPECT_EQ(room(), kObjects);
  other.leave(true, patience(), {});
  EXPECT_TRUE(session_.resume(waiting("weights")).ok());
  EXPECT_TRUE(are_intact(weights_));
}

// Another process of the job has resumed all of its memory at once.
TEST_F(RoomWaitTest, OneTagAfterAnotherKeepsNoPlaceForAJobThatHasResumed) {
  RoomTicket of_job, other;
  ASSERT_TRUE(of_job.join(job_of(context_), {kGpu}).ok());
  of_job.leave(true, patience(), {});
  ASSERT_TRUE(session_.pause({{"weights", "kv_cache"}}).ok());
  EXPECT_TRUE(session_.resume(waiting("weights")).ok());
  EXPECT_TRUE(session_.resume(waiting("kv_cache")).ok());
  ASSERT_TRUE(other.join("another job", {kGpu}).ok());
  EXPECT_TRUE(other.is_first().value());
}

// Another process of its job waits behind others.
TEST_F(RoomWaitTest, OfATagWithoutMemoryWaitsForNobody) {
  const EarlierTicket earlier;
  RoomTicket of_job;
  ASSERT_TRUE(of_job.join(job_of(context_), {kGpu}).ok());
  ASSERT_TRUE(session_.pause({{"nccl"}}).ok());
  EXPECT_TRUE(session_.resume(waiting("nccl", 30)).ok());
}

TEST_F(RoomWaitTest, OfAGpuThatIsNotKnownWaitsForEveryProcess) {
  pause_weights_and_fill();
  set_room(kObjects);
  driver_.cuDeviceGetUuid_v2 = [](void*, int) { return driver_result::kInvalidDevice; };
  {
    const EarlierTicket earlier;
    EXPECT_FALSE(session_.resume(waiting("weights", 30)).ok());
    EXPECT_EQ(room(), kObjects);
  }
  EXPECT_TRUE(session_.resume(waiting("weights")).ok());
  EXPECT_TRUE(are_intact(weights_));
}

// A file of somebody else is where tickets should be.
TEST_F(RoomWaitTest, OutsideTheQueueWaitsToo) {
  std::filesystem::remove_all(user_folder());
  std::ofstream(user_folder()) << "not a folder";
  pause_weights_and_fill();
  EXPECT_FALSE(session_.resume(waiting("weights", 10)).ok());
  set_room(kObjects);
  EXPECT_TRUE(session_.resume(waiting("weights")).ok());
  EXPECT_TRUE(are_intact(weights_));
  std::filesystem::remove(user_folder());
}

// This process was stopped meanwhile, or belongs to a later job.
TEST_F(RoomWaitTest, ThatLosesItsTurnReleasesEverythingAndBeginsAgain) {
  pause_weights_and_fill();
  RoomTicket other;
  std::thread resume = start_waiting("weights");
  other.announce({{kGpu, kObjects * kBytes}}, patience());
  set_room(kObjects - 1);
  EXPECT_TRUE(created(kObjects - 1));
  {
    const EarlierTicket earlier;
    const Deadline deadline = patience();
    while (room() != kObjects - 1 && !deadline.passed()) std::this_thread::yield();
    EXPECT_EQ(room(), kObjects - 1);
    set_room(kObjects);
  }
  resume.join();
  EXPECT_TRUE(are_intact(weights_));
}

TEST_F(RoomWaitTest, SwitchMovesBothAtTheSameTime) {
  pause_weights_and_fill();
  EXPECT_TRUE(switch_tags(session_, {{"kv_cache"}}, waiting("weights")).ok());
  EXPECT_TRUE(are_intact(weights_));
  EXPECT_TRUE(switch_tags(session_, {{"weights"}}, waiting("kv_cache")).ok());
  EXPECT_TRUE(are_intact(kv_cache_));
  EXPECT_EQ(session_.state("weights"), paused);
}

TEST_F(RoomWaitTest, SwitchWhosePauseFailsChangesNothing) {
  pause_weights_and_fill();
  second_.refusal = make_error(ErrorKind::misuse, 0, "not now");
  const auto began = Deadline::Clock::now();
  const Status failed = switch_tags(session_, {{"kv_cache"}}, waiting("weights"));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().message, "not now");
  EXPECT_LT(Deadline::Clock::now() - began, std::chrono::seconds(10)) << "the wait has not ended";
  EXPECT_EQ(session_.state("weights"), paused);
  EXPECT_TRUE(are_intact(kv_cache_));
}

// amemErrorInvalidUsage would mean that nothing was changed.
TEST_F(RoomWaitTest, SwitchWhosePauseIsRefusedButThatHasResumedIsAnotherError) {
  ASSERT_TRUE(session_.pause({{"weights"}}).ok());
  second_.refusal = make_error(ErrorKind::misuse, 0, "not now");
  const Status failed = switch_tags(session_, {{"kv_cache"}}, waiting("weights"));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::os);
  EXPECT_EQ(failed.error().message, "not now; weights is resumed: there was room for it");
  EXPECT_EQ(session_.state("weights"), active);
}

TEST_F(RoomWaitTest, SwitchOfTheSameTagOrOfAllTagsIsRefused) {
  for (const auto& [out, in] : {std::pair{Tags{"weights"}, Tags{"weights"}},
                                {Tags{}, Tags{"weights"}},
                                {Tags{"weights"}, Tags{}}}) {
    const Status refused = switch_tags(session_, {out}, {in});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::misuse);
  }
}

TEST_F(RoomWaitTest, PauseThatFailsBesideAWaitIsTakenBack) {
  pause_weights_and_fill();
  std::thread resume([&] { EXPECT_TRUE(session_.resume(waiting("weights")).ok()); });
  while (session_.state("weights") != resuming) std::this_thread::yield();
  set_failing_copy(kObjects + 2);
  EXPECT_FALSE(session_.pause({{"kv_cache"}}).ok());
  set_failing_copy(0);
  set_room(2 * kObjects);
  resume.join();
  EXPECT_TRUE(session_.resume({{"kv_cache"}}).ok());
  EXPECT_TRUE(are_intact(weights_));
  EXPECT_TRUE(are_intact(kv_cache_));
}

/// A failed pause has left half of the weights on the GPU.
class LeftMemoryTest : public RoomWaitTest {
 protected:
  LeftMemoryTest() {
    const auto release = driver_.cuMemRelease;
    driver_.cuMemRelease = [](DriverHandle) { return driver_result::kSuccess; };  // others take it
    set_failing_copy(kObjects / 2 + 1);
    set_room(0);
    EXPECT_FALSE(session_.pause({{"weights"}}).ok());
    EXPECT_EQ(session_.state("weights"), paused);
    EXPECT_EQ(backing_state(weights_.back()), BackingState::resident);
    set_failing_copy(0);
    driver_.cuMemRelease = release;
  }
  ~LeftMemoryTest() override {
    set_room(2 * kObjects);
    EXPECT_TRUE(session_.resume({}).ok());
    EXPECT_TRUE(are_intact(weights_));
    EXPECT_TRUE(are_intact(kv_cache_));
  }
  void expect_released(const std::vector<BackingId>& ids) {
    for (const BackingId id : ids) EXPECT_EQ(backing_state(id), BackingState::released);
  }
};

TEST_F(LeftMemoryTest, IsReleasedBehindAnotherProcess) {
  const EarlierTicket earlier;
  EXPECT_FALSE(session_.resume(waiting("weights", 100)).ok());
  expect_released(weights_);
}

TEST_F(LeftMemoryTest, OfAnotherTagIsReleasedToo) {
  ASSERT_TRUE(session_.pause({{"kv_cache"}}).ok());
  const EarlierTicket earlier;
  EXPECT_FALSE(session_.resume(waiting("kv_cache", 100)).ok());
  expect_released(weights_);
  EXPECT_EQ(session_.state("weights"), paused);
}

TEST_F(LeftMemoryTest, IsReleasedInASwitchWhenThePauseHasEnded) {
  const EarlierTicket earlier;
  EXPECT_FALSE(switch_tags(session_, {{"kv_cache"}}, waiting("weights", 100)).ok());
  expect_released(weights_);
  expect_released(kv_cache_);
}

// The first one of the process is behind another process, which waits for this memory.
TEST_F(LeftMemoryTest, IsReleasedBehindAnotherResumeOfTheProcess) {
  {
    MutexLock lock(registry_.mutex);
    for (Backing* const backing : registry_.find_backings(weights_)) backing->is_leftover = false;
  }
  ASSERT_TRUE(session_.pause({{"kv_cache"}}).ok());
  const EarlierTicket earlier;
  std::thread first([&] { EXPECT_FALSE(session_.resume(waiting("kv_cache", 400)).ok()); });
  while (session_.state("kv_cache") != resuming) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // allow: until it has its turn
  {
    MutexLock lock(registry_.mutex);
    for (Backing* const backing : registry_.find_backings(weights_)) backing->is_leftover = true;
  }
  EXPECT_FALSE(session_.resume(waiting("weights", 100)).ok());
  expect_released(weights_);
  EXPECT_EQ(session_.state("kv_cache"), resuming);
  first.join();
}

// Docs/regions.md: memory that is allocated while its tag is paused can be used.
TEST_F(LeftMemoryTest, MemoryThatIsAllocatedLaterStays) {
  const BackingId later = add("weights");
  const EarlierTicket earlier;
  EXPECT_FALSE(session_.resume(waiting("weights", 100)).ok());
  expect_released(weights_);
  EXPECT_TRUE(is_intact(later));
}

TEST_F(LeftMemoryTest, StaysForAResumeThatIsFirst) {
  EXPECT_FALSE(session_.resume(waiting("weights", 30)).ok()) << "there is no room for the rest";
  EXPECT_EQ(backing_state(weights_.back()), BackingState::resident);
}

TEST_F(RoomWaitTest, ThatEndsReturnsTheLocalMemoryOfContextsAgain) {
  static std::atomic<size_t> limit;
  limit = 1024;
  driver_.cuCtxGetLimit = [](size_t* bytes, int) {
    return *bytes = limit, driver_result::kSuccess;
  };
  driver_.cuCtxSetLimit = [](int, size_t bytes) { return limit = bytes, driver_result::kSuccess; };
  Selection all = waiting("weights", 30);
  all.tags = {"weights", "kv_cache", "nccl"};
  ASSERT_TRUE(session_.pause({all.tags, true}).ok());
  ASSERT_EQ(limit, 1u);
  set_room(0);
  EXPECT_FALSE(session_.resume(all).ok());
  EXPECT_EQ(limit, 1u);
  set_room(2 * kObjects);
  EXPECT_TRUE(session_.resume(all).ok());
  EXPECT_EQ(limit, 1024u);
}

}  // namespace
}  // namespace amem
