// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The host memory that contents are kept in: its limit, made ready ahead, given back.
#include <fstream>
#include <sstream>

#include "tests/process/progress.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class HostMemory : public JobTest {
 protected:
  /// Pinned for contents, by amem.h.
  static size_t capacity_bytes(jobs::RankProcess& rank) {
    size_t bytes = 0;
    sscanf(rank.ask("times").c_str(), "%*f %*f %*f %*f %*f %*f %*f %*f %*f %*u %*u %zu", &bytes);
    return bytes;
  }
  static void connect(jobs::Job& job) {
    job.use_devices(first_devices(job.size()));
    job.make("world");
    job.all("check world" + counts());
  }
};

TEST_F(HostMemory, PauseThatNeedsMoreThanTheLimitIsRefused) {
  AMEM_NEEDS_GPUS(2);
  setup_.environment["AMEM_HOST_LIMIT"] = "1";
  jobs::Job job(setup_, 2);
  connect(job);
  const Totals before = totals(job[0]);

  job[0].order("pause");
  const jobs::RankProcess::Outcome outcome = job[0].outcome();

  ASSERT_FALSE(outcome.ok);
  EXPECT_NE(outcome.text.find("AMEM_HOST_LIMIT allows 1 MiB: raise it"), std::string::npos)
      << outcome.text;
  EXPECT_EQ(job[0].ask("state"), "0");
  EXPECT_EQ(totals(job[0]).resident, before.resident);
  EXPECT_EQ(capacity_bytes(job[0]), 0u);
  job.all("check world" + counts());
}

/// A memory cgroup for one process; empty where this user cannot make one.
class MemoryCgroup {
 public:
  MemoryCgroup() {
    const std::string name = "amem-test-" + std::to_string(getpid());
    for (const auto& [root, limit] : {std::pair{"/sys/fs/cgroup/memory/", "memory.limit_in_bytes"},
                                      std::pair{"/sys/fs/cgroup/", "memory.max"}}) {
      std::error_code error;
      folder_ = root + name;
      limit_ = limit;
      if (std::filesystem::create_directory(folder_, error) && set_limit_mib(64)) return;
      std::filesystem::remove(folder_, error);
      folder_.clear();
    }
  }
  ~MemoryCgroup() {
    std::error_code error;
    if (!folder_.empty()) std::filesystem::remove(folder_, error);
  }
  bool exists() const { return !folder_.empty(); }
  bool set_limit_mib(size_t mib) { return write(limit_, mib << 20); }
  bool add(pid_t pid) { return write("cgroup.procs", static_cast<size_t>(pid)); }

 private:
  bool write(const std::string& file, size_t number) {
    std::ofstream stream(folder_ + "/" + file);
    return static_cast<bool>(stream << number << std::flush);
  }

  std::string folder_, limit_;
};

// Past its limit the kernel ends a process of the cgroup.
TEST_F(HostMemory, PauseThatNeedsMoreThanItsCgroupHasIsRefused) {
  if (real_gpu()) GTEST_SKIP() << "other processes of a real driver have other memory";
  if (kSanitized) GTEST_SKIP() << "mappings and host memory: a sanitizer's are not told from ours";
  MemoryCgroup cgroup;
  if (!cgroup.exists()) GTEST_SKIP() << "this user cannot create a memory cgroup";
  jobs::Job job(setup_, 1);
  job.use_devices({0});
  constexpr size_t kMiB = 200;
  job[0].ask("tag_malloc weights keep " + std::to_string(kMiB << 20));
  job[0].ask("tag_write weights");
  ASSERT_TRUE(cgroup.set_limit_mib(128));
  ASSERT_TRUE(cgroup.add(job[0].pid()));

  const std::string text = job[0].ask_failing("tag_pause weights");

  EXPECT_NE(text.find("MiB of host memory, but"), std::string::npos) << text;
  ASSERT_TRUE(cgroup.set_limit_mib(8 * kMiB));
  EXPECT_EQ(job[0].ask("tag_check weights"), std::to_string(kMiB << 20));
  job[0].ask("tag_pause weights");
  job[0].ask("tag_resume weights");
  EXPECT_EQ(job[0].ask("tag_check weights"), std::to_string(kMiB << 20));
}

TEST_F(HostMemory, OfWhichThereIsTooLittleIsNoticedBeforePeersAreAsked) {
  if (real_gpu()) GTEST_SKIP() << "a real driver does not count its calls";
  setup_.environment["AMEM_HOST_LIMIT"] = "1";
  jobs::Job job(setup_, 2);
  connect(job);
  const std::string unmapped = job[1].ask("calls_of cuMemUnmap");

  job[0].order("pause");

  EXPECT_FALSE(job[0].outcome().ok);
  EXPECT_EQ(job[1].ask("calls_of cuMemUnmap"), unmapped);
}

TEST_F(HostMemory, IsMadeReadyBeforePeersAreAsked) {
  if (real_gpu()) GTEST_SKIP() << "a real driver does not wait on request";
  constexpr long kDelayMs = 300 * kSlowdown;
  setup_.environment["AMEM_SIM_DELAY_US"] = "cuMemHostRegister=" + std::to_string(1000 * kDelayMs);
  jobs::Job job(setup_, 2);
  connect(job);

  job[0].ask("pause");

  std::istringstream times(job[0].ask("times"));
  double all_ms = 0, wait_ms = 0;
  times >> all_ms >> wait_ms;
  EXPECT_GE(wait_ms, kDelayMs);
  EXPECT_LT(all_ms, wait_ms + kDelayMs) << "more was made later";
  job[0].ask("resume");
  job.all("check world" + counts());
}

TEST_F(HostMemory, IsReadyBeforeTheFirstPause) {
  AMEM_NEEDS_GPUS(2);
  constexpr size_t kReady = size_t{512} << 20;
  setup_.environment["AMEM_HOST_PREALLOC"] = "512";
  jobs::Job job(setup_, 2);
  connect(job);
  wait_for("host memory is ready", [&] { return capacity_bytes(job[0]) >= kReady; });

  job.all("pause");
  EXPECT_EQ(capacity_bytes(job[0]), kReady);
  job.all("resume");
  job.all("check world" + counts());
}

TEST_F(HostMemory, IsGivenBackOnRequestButNotWhileItIsNeeded) {
  AMEM_NEEDS_GPUS(2);
  jobs::Job job(setup_, 2);
  connect(job);
  EXPECT_EQ(job[0].ask("trim"), "0");
  job.all("pause");
  const size_t kept = capacity_bytes(job[0]);
  ASSERT_GT(kept, 0u);

  job[0].order("trim");
  const jobs::RankProcess::Outcome refused = job[0].outcome();
  EXPECT_FALSE(refused.ok);
  EXPECT_NE(refused.text.find("the host memory holds contents of released memory; resume first"),
            std::string::npos)
      << refused.text;

  job.all("resume");
  EXPECT_EQ(job[0].ask("trim"), std::to_string(kept));
  EXPECT_EQ(capacity_bytes(job[0]), 0u);
  job.all("pause");
  job.all("resume");
  job.all("check world" + counts());
}

}  // namespace
}  // namespace amem
