// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Limits of the process (getrlimit(2)) that leave a pause or a resume too little: no byte is lost,
// and the call succeeds when the limit is raised.
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "tests/process/simulated_job.h"

namespace amem {
namespace {

constexpr size_t kBytes = size_t{48} << 20;

/// A limit at its value of a process that has just what it uses.
struct Limit {
  const char* name;
  decltype(RLIMIT_NOFILE) resource;
  rlim_t (*value)(pid_t pid);
};
void PrintTo(const Limit& limit, std::ostream* out) { *out << limit.name; }

rlim_t none(pid_t) { return 0; }

rlim_t descriptors_in_use(pid_t pid) {
  const std::filesystem::directory_iterator all("/proc/" + std::to_string(pid) + "/fd"), end;
  return static_cast<rlim_t>(std::distance(all, end));
}

/// Enough for what malloc() needs, not for contents.
rlim_t address_space_in_use(pid_t pid) {
  size_t pages = 0;
  std::ifstream("/proc/" + std::to_string(pid) + "/statm") >> pages;
  return pages * static_cast<size_t>(getpagesize()) + kBytes / 2;
}

rlim_t half_of_the_contents(pid_t) { return kBytes / 2; }

constexpr Limit kLimits[] = {
    {"Descriptors", RLIMIT_NOFILE, descriptors_in_use},
    {"AddressSpace", RLIMIT_AS, address_space_in_use},
    {"FileSize", RLIMIT_FSIZE, half_of_the_contents},
    {"NoFiles", RLIMIT_FSIZE, none},
    {"LockedMemory", RLIMIT_MEMLOCK, none},
    {"Threads", RLIMIT_NPROC, none},
    {"MessageQueues", RLIMIT_MSGQUEUE, none},
    {"PendingSignals", RLIMIT_SIGPENDING, none},
};

class ProcessLimits : public JobTest, public testing::WithParamInterface<Limit> {
 protected:
  void SetUp() override {
    if (real_gpu()) GTEST_SKIP() << "a real driver needs descriptors and address space of its own";
    if (kSanitized && GetParam().resource == RLIMIT_AS)
      GTEST_SKIP() << "a sanitizer's allocator ends the process when it has no address space";
    setup_.environment["AMEM_BACKUP_DIR"] = folder_for_gpus();
    job_ = std::make_unique<jobs::Job>(setup_, 1);
    job_->use_devices({0});
    rank().ask("tag_malloc weights keep " + std::to_string(kBytes));
    rank().ask("tag_malloc optimizer disk " + std::to_string(kBytes));
    rank().ask("tag_write weights");
    rank().ask("tag_write optimizer");
  }
  jobs::RankProcess& rank() { return (*job_)[0]; }

  /// The outcome of an order at the limit, which is then as before.
  bool succeeds_at_the_limit(const std::string& order) {
    const auto [name, resource, value] = GetParam();
    rlimit before{};
    EXPECT_EQ(prlimit(rank().pid(), resource, nullptr, &before), 0);
    const rlimit low{std::min(value(rank().pid()), before.rlim_max), before.rlim_max};
    EXPECT_EQ(prlimit(rank().pid(), resource, &low, nullptr), 0);
    rank().order(order);
    const jobs::RankProcess::Outcome outcome = rank().outcome();
    EXPECT_EQ(prlimit(rank().pid(), resource, &before, nullptr), 0);
    EXPECT_TRUE(outcome.ok || has(outcome.text, "amem")) << outcome.text;
    return outcome.ok;
  }
  void expect_right_contents() {
    for (const char* tag : {"weights", "optimizer"})
      EXPECT_EQ(rank().ask(std::string("tag_check ") + tag), std::to_string(kBytes)) << tag;
  }

  std::unique_ptr<jobs::Job> job_;
};

TEST_P(ProcessLimits, OfAPauseLoseNothing) {
  if (!succeeds_at_the_limit("tag_pause")) {
    rank().ask("tag_resume");
    expect_right_contents();
    rank().ask("tag_pause");
  }
  rank().ask("tag_resume");
  expect_right_contents();
}

TEST_P(ProcessLimits, OfAResumeLoseNothing) {
  rank().ask("tag_pause");
  if (!succeeds_at_the_limit("tag_resume")) rank().ask("tag_resume");
  expect_right_contents();
}

INSTANTIATE_TEST_SUITE_P(Kinds, ProcessLimits, testing::ValuesIn(kLimits),
                         [](const auto& limit) { return std::string(limit.param.name); });

}  // namespace
}  // namespace amem
