// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Threads that are cancelled in calls of amem, and children that are forked at any moment, in a
// process with memory by tag on the simulated GPU.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "amem.h"
#include "amem/symmetric.h"
#include "jobs/device.h"
#include "tests/slowdown.h"
#include "tests/support/cancellation_point.h"

extern "C" {
int ncclPause(void**);
int ncclResume(void**);
int ncclMemStats(void);
int ncclSetGroupID(int);
int ncclGetGroupID(int*);
}

#ifdef __SANITIZE_ADDRESS__
/// At exit(3) LeakSanitizer reads all memory; simulated addresses without memory fault.
extern "C" int __lsan_is_turned_off() { return 1; }  // NOLINT(bugprone-reserved-identifier)
#endif

namespace amem {
namespace {

using jobs::Address;
using Clock = std::chrono::steady_clock;

constexpr size_t kMiB = size_t{1} << 20;
constexpr unsigned kWord = 0xA3E3A3E3;

class OneProcess : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::filesystem::create_directories(folder());
    setenv("AMEM_SIM_DIR", folder().c_str(), 1);
    setenv("AMEM_LOG", "2", 1);  // errors of calls are warnings
    amemEnable();
    JOB_CUDA(init(0));
    jobs::Context context = nullptr;
    JOB_CUDA(retain_primary(&context, 0));
    JOB_CUDA(set_current(context));
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder()); }
  ~OneProcess() override {
    EXPECT_EQ(amemResume(nullptr), 0) << amemGetLastError();
    for (const Address address : memory_) amemFree(reinterpret_cast<void*>(address));
  }

  void allocate(const char* tag, amemKind_t kind, size_t size_bytes) {
    void* pointer = nullptr;
    ASSERT_EQ(amemMalloc(&pointer, size_bytes, tag, kind), 0) << amemGetLastError();
    memory_.push_back(reinterpret_cast<Address>(pointer));
    JOB_CUDA(fill32(memory_.back(), kWord, size_bytes / sizeof kWord));
    size_bytes_ = size_bytes;
  }
  bool is_intact() {
    std::vector<unsigned> words(size_bytes_ / sizeof kWord);
    for (const Address address : memory_) {
      JOB_CUDA(to_host(words.data(), address, size_bytes_));
      for (const unsigned word : words)
        if (word != kWord) return false;
    }
    return true;
  }
  static std::filesystem::path folder() {
    return std::filesystem::temp_directory_path() /
           ("amem-one-process-" + std::to_string(getpid()));
  }

  std::vector<Address> memory_;
  size_t size_bytes_ = 0;
};

// --- Threads that are cancelled

/// Runs `body` on a thread, cancels the thread when `when` returns, and waits for its end.
void run_cancelled(std::function<void()> body, const std::function<void()>& when) {
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    (*static_cast<std::function<void()>*>(argument))();
    for (;;) cancellation_point();
  };
  ASSERT_EQ(pthread_create(&thread, nullptr, run, &body), 0);
  when();
  ASSERT_EQ(pthread_cancel(thread), 0);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
}

TEST_F(OneProcess, ThreadsThatAreCancelledAtAnyMomentLeaveNoTagHalfWay) {
  for (int i = 0; i < 4; ++i) allocate("weights", amemKindKeep, 4 * kMiB);
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> begun{false};
    const auto pause_and_resume = [&] {
      for (begun = true;; cancellation_point()) {
        amemPause("weights");
        amemResume("weights");
      }
    };
    run_cancelled(pause_and_resume, [&] {
      while (!begun) std::this_thread::yield();
      const auto end = Clock::now() + std::chrono::microseconds(random() % 20000);
      while (Clock::now() < end) std::this_thread::yield();
    });
    const amemState_t state = amemGetTagState("weights");
    EXPECT_TRUE(state == amemActive || state == amemPaused) << state << " in round " << round;
    ASSERT_EQ(amemPause("weights"), 0) << amemGetLastError();
    ASSERT_EQ(amemResume("weights"), 0) << amemGetLastError();
    ASSERT_TRUE(is_intact());
  }
}

struct Call {
  const char* name;
  std::function<void()> make;
};

/// Each exported function, with arguments for which most of them return an error and log it:
/// write(2) is a cancellation point. (tools/check_banned.py finds functions that are not
/// protected.)
constexpr amemSymmetric_t no_handle = nullptr;
const std::vector<Call> kCalls{
    {"amemEnable", [] { amemEnable(); }},
    {"amemMalloc", [] { amemMalloc(nullptr, 1, "a", amemKindKeep); }},
    {"amemFree", [] { amemFree(reinterpret_cast<void*>(64)); }},
    {"amemBeginRegion", [] { amemBeginRegion("not a tag", amemKindKeep); }},
    {"amemEndRegion", [] { amemEndRegion(); }},
    {"amemOpenRegion",
     [] {
       uint64_t number = 0;
       amemOpenRegion("not a tag", amemKindKeep, 0, &number);
     }},
    {"amemCloseRegion", [] { amemCloseRegion(0); }},
    {"amemSetPool", [] { amemSetPool(0, "not a tag", amemKindKeep); }},
    {"amemSetUnusedRanges", [] { amemSetUnusedRanges(nullptr, 1); }},
    {"amemSetProcessRegion", [] { amemSetProcessRegion("not a tag", amemKindKeep); }},
    {"amemPause", [] { amemPause("not a tag"); }},
    {"amemResume", [] { amemResume("not a tag"); }},
    {"amemResumeWait", [] { amemResumeWait("not a tag", 0, 0); }},
    {"amemSwitch", [] { amemSwitch("not a tag", "t", 0, 0); }},
    {"amemReadBackup",
     [] {
       char byte = 0;
       amemReadBackup(&byte, &byte, 1);
     }},
    {"amemGetBackup", [] { (void)amemGetBackup(nullptr, 1); }},
    {"amemPrepareHostMemory", [] { amemPrepareHostMemory(1); }},
    {"amemSetBackupDirectory", [] { amemSetBackupDirectory("/nowhere"); }},
    {"amemResumeOnCall", [] { amemResumeOnCall(0); }},
    {"amemRetainBackups", [] { amemRetainBackups(0); }},
    {"amemSetMemoryMargin", [] { amemSetMemoryMargin(0); }},
    {"amemGetStatus", [] { amemGetStatus(); }},
    {"amemGetAttribution", [] { amemGetAttribution(); }},
    {"amemGetTagState", [] { amemGetTagState("weights"); }},
    {"amemGetState", [] { amemGetState(); }},
    {"amemGetTagTotals",
     [] {
       amemTotals_t t;
       amemGetTagTotals(nullptr, 0, 0, &t);
     }},
    {"amemGetTotals",
     [] {
       amemTotals_t t;
       amemGetTotals(0, 0, &t);
     }},
    {"amemGetImports",
     [] {
       amemTotals_t t;
       amemGetImports(&t);
     }},
    {"amemGetDriverObjects",
     [] {
       amemDriverObjects_t o;
       amemGetDriverObjects(&o);
     }},
    {"amemGetTimes",
     [] {
       amemTimes_t t;
       amemGetTimes(&t);
     }},
    {"amemTrimHostMemory", [] { amemTrimHostMemory(nullptr); }},
    {"amemGetInterposition", [] { amemGetInterposition(); }},
    {"amemGetLastError", [] { amemGetLastError(); }},
    {"amemGetShortage", [] { amemGetShortage(); }},
    {"amemIsActive", [] { amemIsActive(); }},
    {"amemSafePoint", [] { amemSafePoint(); }},
    {"amemWaitAtSafePoint", [] { amemWaitAtSafePoint(); }},
    {"amemGetVersion", [] { amemGetVersion(); }},
    {"ncclPause", [] { ncclPause(nullptr); }},
    {"ncclResume", [] { ncclResume(nullptr); }},
    {"ncclMemStats", [] { ncclMemStats(); }},
    {"ncclSetGroupID", [] { ncclSetGroupID(-1); }},
    {"ncclGetGroupID", [] { ncclGetGroupID(nullptr); }},
    {"amemSymmetricMalloc", [] { amemSymmetricMalloc(nullptr, 1); }},
    {"amemSymmetricFree", [] { amemSymmetricFree(reinterpret_cast<void*>(64)); }},
    {"amemSymmetricRendezvous", [] { amemSymmetricRendezvous(nullptr, nullptr, nullptr); }},
    {"amemSymmetricDestroy", [] { amemSymmetricDestroy(no_handle); }},
    {"amemSymmetricGetInfo", [] { amemSymmetricGetInfo(no_handle, nullptr); }},
    {"amemSymmetricGetView", [] { amemSymmetricGetView(no_handle, nullptr); }},
    {"amemSymmetricSetSignalPadSize", [] { amemSymmetricSetSignalPadSize(1); }},
    {"amemSymmetricGetSignalPadSize", [] { amemSymmetricGetSignalPadSize(); }},
    {"amemSymmetricGetError", [] { amemSymmetricGetError(no_handle); }},
    {"amemSymmetricBarrier", [] { amemSymmetricBarrier(no_handle, 0, nullptr, 1); }},
    {"amemSymmetricPutSignal", [] { amemSymmetricPutSignal(no_handle, 0, 0, nullptr, 1); }},
    {"amemSymmetricWaitSignal", [] { amemSymmetricWaitSignal(no_handle, 0, 0, nullptr, 1); }},
    {"amemSymmetricClearSignalPad", [] { amemSymmetricClearSignalPad(no_handle, nullptr); }},
};

TEST_F(OneProcess, NoCallEndsItsThreadWhenThatIsCancelled) {
  allocate("weights", amemKindKeep, 2 * kMiB);
  for (const Call& call : kCalls) {
    bool returned = false;
    run_cancelled(
        [&] {
          jobs::Context context = nullptr;
          JOB_CUDA(retain_primary(&context, 0));
          JOB_CUDA(set_current(context));
          pthread_cancel(pthread_self());
          call.make();
          returned = true;
        },
        [] {});
    EXPECT_TRUE(returned) << call.name;
  }
}

// --- Children that are forked

/// True if the child ends with status 0 in time; it is killed otherwise.
bool ends_well(pid_t child) {
  const auto deadline = Clock::now() + std::chrono::seconds(5 * kSlowdown);
  int status = -1;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > deadline) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return false;
    }
    std::this_thread::yield();
  }
  return status == 0;
}

/// Forks children that run `body`, while another thread runs `busy` again and again. True if all of
/// them return.
bool children_return(int count, const std::function<void()>& busy,
                     const std::function<void()>& body) {
  std::atomic<bool> stop{false}, begun{false};
  std::thread other([&] {
    for (; !stop; begun = true) busy();
  });
  while (!begun) std::this_thread::yield();
  bool all = true;
  for (int i = 0; i < count && all; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      body();
      _exit(0);
    }
    all = ends_well(child);
  }
  stop = true;
  other.join();
  return all;
}

TEST_F(OneProcess, ChildDoesNotWaitForTheLastError) {
  EXPECT_NE(amemEndRegion(), 0);
  const auto read = [] { (void)amemGetLastError(); };
  EXPECT_TRUE(children_return(300, read, read));
}

TEST_F(OneProcess, ChildDoesNotWaitForTheLoader) {
  allocate("weights", amemKindKeep, 2 * kMiB);
  const auto read = [] { (void)amemGetInterposition(); };
  EXPECT_TRUE(children_return(200, read, read));
}

TEST_F(OneProcess, ChildDoesNotWaitForTheRegionOfTheProcess) {
  allocate("weights", amemKindKeep, 2 * kMiB);
  EXPECT_TRUE(children_return(
      300, [] { amemSetProcessRegion(nullptr, amemKindKeep); },
      [] { EXPECT_NE(amemSetProcessRegion(nullptr, amemKindKeep), 0); }));
}

std::vector<std::string> open_files(pid_t process) {
  std::vector<std::string> files;
  const auto folder = "/proc/" + std::to_string(process) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::error_code closed_since;
    files.push_back(std::filesystem::read_symlink(entry.path(), closed_since).string());
  }
  return files;
}

/// A child that lives until it is killed, as a data loader lives on.
pid_t live_child() {
  int running[2];
  EXPECT_EQ(pipe2(running, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(running[0]);
    close(running[1]);
    for (;;) pause();
  }
  close(running[1]);
  char byte = 0;
  EXPECT_EQ(read(running[0], &byte, 1), 0);  // its fork handlers have run
  close(running[0]);
  return child;
}

TEST_F(OneProcess, DataLoaderThatIsForkedWhilePausedKeepsNoFileOfAmem) {
  // Not where the simulated GPU has its memory, which children hold.
  const std::filesystem::path disk = "/dev/shm/amem-disk-" + std::to_string(getpid());
  std::filesystem::create_directories(disk);
  ASSERT_EQ(amemSetBackupDirectory(disk.c_str()), 0) << amemGetLastError();
  constexpr size_t kBytes = 64 * kMiB;
  allocate("optimizer", amemKindDisk, kBytes);
  const auto free_bytes = [&] {
    struct statvfs space {};
    EXPECT_EQ(statvfs(disk.c_str(), &space), 0);
    return size_t{space.f_bavail} * space.f_frsize;
  };
  for (int cycle = 0; cycle < 2; ++cycle) {
    ASSERT_EQ(amemPause("optimizer"), 0) << amemGetLastError();
    const size_t free_while_paused = free_bytes();
    const pid_t loader = live_child();
    for (const std::string& file : open_files(loader)) {
      EXPECT_EQ(file.find(disk.string()), file.npos) << file;
      EXPECT_EQ(file.find("socket:"), file.npos) << file;
      EXPECT_EQ(file.find("anon_inode:"), file.npos) << file;
    }
    ASSERT_EQ(amemResume("optimizer"), 0) << amemGetLastError();
    EXPECT_GE(free_bytes(), free_while_paused + kBytes / 2);
    EXPECT_TRUE(is_intact());
    kill(loader, SIGKILL);
    waitpid(loader, nullptr, 0);
  }
  std::filesystem::remove_all(disk);
}

}  // namespace
}  // namespace amem
