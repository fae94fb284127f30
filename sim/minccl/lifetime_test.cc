// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/deadline.h"
#include "sim/minccl/rank_device.h"

namespace amem::minccl {
namespace {

constexpr long kHangMs = 200;

// The peer takes no part in the second operation: the kernel waits for ever, until the abort.
RegisterScenario abort_hung("abort_hung_operation", [](RankContext& context) {
  use_device_of(context.rank());
  ncclComm_t comm = make_communicator(context);
  {
    TestStream stream;
    check_all_reduce(comm, context.rank(), context.ranks(), 1000, stream);
    context.barrier();
    DeviceArray<float> data(1000);
    if (context.rank() == 0) {
      CHECK_NCCL(
          ncclAllReduce(data.get(), data.get(), 1000, ncclFloat32, ncclSum, comm, stream.get()));
      if (stream.ends_within(kHangMs)) fail_rank("the operation ended without its peer");
    }
    context.barrier();
    CHECK_NCCL(ncclCommAbort(comm));
    if (!stream.ends_within(5000 * kSlowdown)) fail_rank("the kernel did not end with the abort");
  }
  context.barrier();
  for (int device = 0; device < 2; ++device)
    if (test_driver().used_bytes(device) != 0) fail_rank("device %d has memory in use", device);
});

// The peer does not come to connect: the call itself waits, and a second thread aborts.
RegisterScenario abort_connecting("abort_connecting", [](RankContext& context) {
  use_device_of(context.rank());
  ncclComm_t comm = make_communicator(context);
  if (context.rank() == 0) {
    TestStream stream;
    DeviceArray<float> data(1000);
    long long before = test_driver().used_bytes(0);
    auto begin = std::chrono::steady_clock::now();
    std::thread caller([&] {
      use_device_of(0);
      if (ncclAllReduce(data.get(), data.get(), 1000, ncclFloat32, ncclSum, comm, stream.get()) ==
          ncclSuccess)
        fail_rank("AllReduce succeeded without its peer");
    });
    // Until it has allocated its ends of the connection, so that it waits for the peer's.
    for (Deadline deadline = Deadline::after_ms(5000 * kSlowdown);
         test_driver().used_bytes(0) == before;)
      if (poll(nullptr, 0, 1); deadline.passed()) fail_rank("AllReduce does not connect");
    CHECK_NCCL(ncclCommAbort(comm));
    caller.join();
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(10) * kSlowdown)
      fail_rank("the abort did not end the wait");
  }
  context.barrier();
  if (context.rank() != 0) CHECK_NCCL(ncclCommAbort(comm));
});

size_t entries_of(const char* folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

struct Footprint {
  size_t fds = entries_of("/proc/self/fd");
  size_t threads = entries_of("/proc/self/task");
  long long used_bytes = test_driver().used_bytes(0) + test_driver().used_bytes(1);
  bool fits(const Footprint& other) const {
    return fds <= other.fds && threads <= other.threads && used_bytes <= other.used_bytes;
  }
};

void work_and_destroy(RankContext& context) {
  ncclComm_t comm = make_communicator(context);
  {
    TestStream stream;
    check_all_reduce(comm, context.rank(), context.ranks(), 100000, stream);
    DeviceArray<float> data(1000);
    CHECK_NCCL(ncclGroupStart());
    CHECK_NCCL(ncclSend(data.get(), 500, ncclFloat32, 1 - context.rank(), comm, stream.get()));
    CHECK_NCCL(
        ncclRecv(data.get() + 500, 500, ncclFloat32, 1 - context.rank(), comm, stream.get()));
    CHECK_NCCL(ncclGroupEnd());
    stream.synchronize();
    if (test_driver().used_bytes(context.rank()) < 10 << 20)
      fail_rank("a communicator without memory?");
  }
  CHECK_NCCL(ncclCommFinalize(comm));
  CHECK_NCCL(ncclCommDestroy(comm));
  context.barrier();
}

// The first round may leave what a process has once: the null stream's thread and the like.
RegisterScenario leaves_nothing("destroy_leaves_nothing", [](RankContext& context) {
  use_device_of(context.rank());
  work_and_destroy(context);
  Footprint before;
  if (before.used_bytes != 0) fail_rank("%lld bytes in use after destroy", before.used_bytes);
  context.barrier();
  for (int round = 0; round < 3; ++round) work_and_destroy(context);
  // A thread that was joined, and the root's, which ends on its own, may be listed a moment longer:
  // before, too, hence three rounds and the deadline.
  Deadline deadline = Deadline::after_ms(3000 * kSlowdown);
  while (!Footprint().fits(before) && !deadline.passed()) poll(nullptr, 0, 1);
  Footprint after;
  if (!after.fits(before))
    fail_rank("fds %zu -> %zu, threads %zu -> %zu, bytes %lld -> %lld", before.fds, after.fds,
              before.threads, after.threads, before.used_bytes, after.used_bytes);
});

TEST(Abort, EndsAnOperationThatWaitsForItsPeer) {
  RankOutcome outcome = run_ranks("abort_hung_operation", {.ranks = 2});
  EXPECT_TRUE(outcome.finished) << outcome.text;
}

TEST(Abort, EndsACallThatWaitsForItsPeer) {
  RankOutcome outcome = run_ranks("abort_connecting", {.ranks = 2});
  EXPECT_TRUE(outcome.finished) << outcome.text;
}

struct Setting {
  const char* name;
  std::map<std::string, std::string> variables;
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

class Destroy : public testing::TestWithParam<Setting> {};

TEST_P(Destroy, LeavesNeitherMemoryNorFilesNorThreads) {
  RankOutcome outcome =
      run_ranks("destroy_leaves_nothing", {.ranks = 2, .environment = GetParam().variables});
  EXPECT_TRUE(outcome.finished) << outcome.text;
}

INSTANTIATE_TEST_SUITE_P(Transports, Destroy,
                         testing::Values(Setting{"P2p", {}},
                                         Setting{"Shm", {{"NCCL_P2P_DISABLE", "1"}}},
                                         Setting{"WithoutCumem", {{"NCCL_CUMEM_ENABLE", "0"}}}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace amem::minccl
