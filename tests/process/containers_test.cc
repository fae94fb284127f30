// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Ranks in containers of their own, made with unshare(1), on the simulated GPU.
#include <signal.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/process/meeting.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

struct Container {
  const char* name;
  const char* command;  ///< runs its last words inside
};

void PrintTo(const Container& container, std::ostream* out) { *out << container.name; }

/// Each rank starts in a container.
class ContainerTest : public JobTest {
 protected:
  void SetUp() override {
    if (real_gpu()) GTEST_SKIP() << "a driver wants more of a container than its namespaces";
  }
  ContainerTest() { setup_.deadline_ms = 20000 * kSlowdown; }
  ~ContainerTest() override { std::filesystem::remove(script_); }

  /// Skips the test where the kernel lets this user make no such container.
  void put_ranks_into(const std::string& command) {
    if (system((command + " true > /dev/null 2>&1").c_str()) != 0)
      GTEST_SKIP() << "this user cannot run: " << command;
    script_ = folder_for_gpus() / ("amem-container-" + std::to_string(getpid()));
    std::ofstream(script_) << "#!/bin/sh\nexec " << command << " " << setup_.rank_program << "\n";
    chmod(script_.c_str(), 0755);
    setup_.rank_program = script_;
  }

  /// Two ranks cannot connect, and one of them logs this text.
  void expect_no_connection(const char* reason) {
    jobs::Job job(setup_, 2);
    job.use_devices({0, 1});
    EXPECT_THROW(
        {
          job.make("world");
          job.all("check world" + counts());
        },
        std::runtime_error);
    EXPECT_TRUE(has(job[0].log() + job[1].log(), reason)) << job[0].log();
    for (int rank : {0, 1}) {
      if (!has(job[rank].log(), reason)) continue;
      const std::string peer = "process " + std::to_string(job[1 - rank].pid()) +
                               ", the owner of 1 imported allocations, cannot be reached: ";
      EXPECT_TRUE(has(job[rank].log(), peer)) << job[rank].log();
      EXPECT_TRUE(has(job[rank].log(), "need one /dev/shm (docker run --ipc=...) and one user id"));
    }
  }

  std::filesystem::path script_;
};

class Containers : public ContainerTest, public testing::WithParamInterface<Container> {
 protected:
  void SetUp() override {
    ContainerTest::SetUp();
    if (kSanitized && std::string(GetParam().name) == "WithoutProc")
      GTEST_SKIP() << "sanitizers read /proc/self/maps";
    // Without /proc the loader knows no $ORIGIN.
    setup_.environment["LD_LIBRARY_PATH"] += std::string(":") + AMEM_BUILD_DIR + "/lib";
    if (!IsSkipped()) put_ranks_into(GetParam().command);
  }
};

TEST_P(Containers, PauseAndResumeInAnyOrder) {
  auto job = pair();

  for (const std::vector<int>& order : {std::vector{0, 1}, std::vector{1, 0}}) {
    for (int rank : order) (*job)[rank].ask("pause");
    for (int rank : order) EXPECT_EQ(totals((*job)[rank]).resident, 0u);
    for (int rank : order) (*job)[rank].ask("resume");
    job->all("check world" + counts());
  }
  // A call waits for the peer that is paused.
  (*job)[0].ask("pause");
  (*job)[1].order("all_reduce world 2000");
  (*job)[0].ask("resume");
  (*job)[0].ask("all_reduce world 2000");
  (*job)[1].answer();
}

TEST_P(Containers, DeathOfAPausedPeerIsNoticed) {
  setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(10000);
  auto job = pair();
  job->all("pause");

  (*job)[1].kill(SIGKILL);
  (*job)[1].wait_until_ended();
  (*job)[0].ask("resume");

  const std::string text = (*job)[0].ask_failing("all_reduce world 2000");
  EXPECT_TRUE(has(text, "has ended")) << text;
  (*job)[0].ask("abort world");
}

// The root is an empty tmpfs into which the folders of the host's root are mounted.
constexpr const char* kTmpfsRoot =
    "unshare --mount sh -c 'mount -t tmpfs none /mnt && cd /mnt && mkdir old mnt && "
    "for path in /*; do if [ -L $path ]; then cp -P $path .; "
    "elif [ -d $path ] && [ $path != /mnt ]; then mkdir -p .$path && mount --rbind $path .$path; "
    "fi; done && pivot_root . old && mount --rbind old/mnt mnt && umount -l old && "
    "exec chroot . \"$@\"' sh";

// amem's sockets are files, for which the network namespace does not count (decision 0010);
// minccl's bootstrap needs one network.
constexpr Container kContainers[] = {
    {"OwnPids", "unshare --pid --fork --kill-child --mount-proc"},
    {"OwnPidsAndTheProcOfTheHost", "unshare --pid --fork --kill-child"},
    {"OwnIpc", "unshare --ipc --uts"},
    {"AllOfThese", "unshare --pid --ipc --uts --cgroup --fork --kill-child --mount-proc"},
    {"WithoutProc", "unshare --mount sh -c 'mount -t tmpfs none /proc && exec \"$@\"' sh"},
    {"ReadOnlyRoot",
     "unshare --mount sh -c 'mount --bind / / && mount -o remount,bind,ro / && exec \"$@\"' sh"},
    {"TmpfsRoot", kTmpfsRoot},
    {"OwnUsersAsRoot", "unshare --user --map-root-user"},
    {"OwnUsersWithoutAName", "unshare --user"},
    {"WithoutCapabilities",
     "setpriv --no-new-privs --inh-caps=-all --ambient-caps=-all --bounding-set=-all"},
};

INSTANTIATE_TEST_SUITE_P(Kinds, Containers, testing::ValuesIn(kContainers),
                         [](const auto& kind) { return std::string(kind.param.name); });

// Without NCCL, whose bootstrap needs a network: amem's sockets are files.
TEST_F(ContainerTest, OfItsOwnNetworkSharesMemoryOverPauses) {
  put_ranks_into("unshare --net --uts");
  if (IsSkipped()) return;
  const Meeting meeting;
  jobs::Job job(setup_, 2);
  job.use_devices({0, 1});
  job.all("sym_malloc b 5000000");
  meeting.meet(job, "h", {0, 1});
  for (const std::vector<int>& order : {std::vector{0}, std::vector{1}, std::vector{0, 1}}) {
    job[1].ask("sym_write h 0 4711");
    job.some(order, "tag_pause");
    for (int rank : order) EXPECT_EQ(job[rank].ask("tag_totals symmetric").substr(0, 2), "2 ");
    job.some(order, "tag_resume");
    EXPECT_EQ(job[0].ask("sym_read b"), "4711");
    job.all("sym_barrier h 0 20000");
  }
}

// Processes of different users cannot reach each other: each user has a folder of its own.
TEST_F(ContainerTest, MemoryOfAProcessOfAnotherUserIsRefusedWithAReason) {
  std::filesystem::permissions(gpus_, std::filesystem::perms::all);
  put_ranks_into(
      "sh -c 'umask 0; exec setpriv --reuid $((20000 + $$ % 10000)) --clear-groups \"$@\"' sh");
  if (!IsSkipped()) expect_no_connection("or belongs to another user");
}

// The kernel takes them for one user; each believes to be another one.
TEST_F(ContainerTest, MemoryOfAProcessWithAnotherNameOfTheUserIsRefusedWithAReason) {
  std::filesystem::permissions(gpus_, std::filesystem::perms::all);
  put_ranks_into(
      "sh -c 'umask 0; exec unshare --user --map-user=$((20000 + $$ % 10000)) \"$@\"' sh");
  if (!IsSkipped()) expect_no_connection("or belongs to another user");
}

// NCCL would connect such ranks through the network. minccl has none.
TEST_F(ContainerTest, MemoryOfAProcessWithAnotherDevShmIsRefusedWithAReason) {
  const std::filesystem::path gpus =
      std::filesystem::temp_directory_path() / ("amem-container-gpus-" + std::to_string(getpid()));
  std::filesystem::create_directories(gpus);
  setup_.environment["AMEM_SIM_DIR"] = gpus;
  put_ranks_into("unshare --mount sh -c 'mount -t tmpfs none /dev/shm && exec \"$@\"' sh");
  if (!IsSkipped()) expect_no_connection("has another /dev/shm than this one");
  std::filesystem::remove_all(gpus);
}

}  // namespace
}  // namespace amem
