// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <memory>

#include "base/deadline.h"
#include "sim/minccl/rank_device.h"

namespace amem::minccl {
namespace {

RegisterScenario several("several_communicators", [](RankContext& context) {
  use_device_of(context.rank());
  std::array<ncclComm_t, 3> comms{};
  for (ncclComm_t& comm : comms) comm = make_communicator(context);
  {
    TestStream stream;
    for (size_t size : {17, 100000})
      for (ncclComm_t comm : comms)
        check_all_reduce(comm, context.rank(), context.ranks(), size, stream);
  }
  for (ncclComm_t comm : comms) CHECK_NCCL(ncclCommDestroy(comm));
});

// Operations of one communicator on several streams without a word in between: its kernels still
// run one at a time and in order.
RegisterScenario several_streams("several_streams", [](RankContext& context) {
  use_device_of(context.rank());
  constexpr size_t kSize = 50000;
  ncclComm_t comm = make_communicator(context);
  {
    TestStream first;
    TestStream second;
    DeviceArray<float> data(numbers_of<float>(context.rank(), kSize));
    DeviceArray<float> maximum(numbers_of<float>(context.rank(), kSize));
    auto reduce = [&](DeviceArray<float>& array, ncclRedOp_t op, CuStream stream) {
      CHECK_NCCL(ncclAllReduce(array.get(), array.get(), kSize, ncclFloat32, op, comm, stream));
    };
    reduce(data, ncclSum, first.get());
    reduce(data, ncclMax, second.get());
    reduce(data, ncclMin, nullptr);
    CHECK_NCCL(ncclGroupStart());
    reduce(maximum, ncclSum, first.get());
    reduce(data, ncclAvg, second.get());
    CHECK_NCCL(ncclGroupEnd());
    second.synchronize();
    data.expect(sums_of<float>(context.ranks(), kSize), "AllReduces on three streams");
    first.synchronize();
    maximum.expect(sums_of<float>(context.ranks(), kSize), "AllReduce on the group's first stream");
  }
  CHECK_NCCL(ncclCommDestroy(comm));
});

// Even and odd ranks, in reversed order; the last rank takes no part in the second split.
RegisterScenario splits("splits", [](RankContext& context) {
  use_device_of(context.rank());
  ncclComm_t world = make_communicator(context);
  int ranks = context.ranks();
  int rank = context.rank();
  ncclComm_t parity = nullptr;
  CHECK_NCCL(ncclCommSplit(world, rank % 2, ranks - rank, &parity, nullptr));
  int parity_rank = -1;
  int parity_ranks = 0;
  CHECK_NCCL(ncclCommUserRank(parity, &parity_rank));
  CHECK_NCCL(ncclCommCount(parity, &parity_ranks));
  if (parity_ranks != ranks / 2 || parity_rank != parity_ranks - 1 - rank / 2)
    fail_rank("rank %d of %d in the split", parity_rank, parity_ranks);

  ncclComm_t most = nullptr;
  bool left_out = rank == ranks - 1;
  CHECK_NCCL(ncclCommSplit(world, left_out ? NCCL_SPLIT_NOCOLOR : 7, rank, &most, nullptr));
  if (left_out != (most == nullptr)) fail_rank("NCCL_SPLIT_NOCOLOR gave a communicator");
  {
    TestStream stream;
    for (size_t size : {17, 100000}) {
      check_all_reduce(parity, parity_rank, parity_ranks, size, stream);
      if (most != nullptr) check_all_reduce(most, rank, ranks - 1, size, stream);
      check_all_reduce(world, rank, ranks, size, stream);
    }
  }
  CHECK_NCCL(ncclCommDestroy(world));
  CHECK_NCCL(ncclCommDestroy(parity));
  CHECK_NCCL(ncclCommDestroy(most));
});

// The first fields of ncclConfig_t as NCCL_CONFIG_INITIALIZER sets them.
struct Config {
  size_t size_bytes = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 22809;
  int blocking = 0;
};

void wait_until_ready(ncclComm_t comm) {
  Deadline deadline = Deadline::after_ms(10000 * kSlowdown);
  for (ncclResult_t state = ncclInProgress; state == ncclInProgress; poll(nullptr, 0, 1)) {
    CHECK_NCCL(ncclCommGetAsyncError(comm, &state));
    if (state != ncclInProgress) check_nccl(state, "initialization in the background");
    if (deadline.passed()) fail_rank("initialization does not end");
  }
}

RegisterScenario nonblocking("nonblocking", [](RankContext& context) {
  use_device_of(context.rank());
  ncclUniqueId id{};
  if (context.rank() == 0) CHECK_NCCL(ncclGetUniqueId(&id));
  std::vector<char> ids = context.exchange(&id, sizeof id);
  memcpy(&id, ids.data(), sizeof id);
  Config config;
  auto* generic = reinterpret_cast<ncclConfig_t*>(&config);
  ncclComm_t comm = nullptr;
  if (context.rank() == 0) {
    // Nobody else is there yet, so this must come back before it is done.
    if (ncclCommInitRankConfig(&comm, context.ranks(), id, 0, generic) != ncclInProgress)
      fail_rank("a communicator with blocking = 0 was not in progress");
    ncclResult_t state = ncclSuccess;
    CHECK_NCCL(ncclCommGetAsyncError(comm, &state));
    if (state != ncclInProgress) fail_rank("its state was %d", state);
  }
  context.barrier();
  if (context.rank() != 0)
    ncclCommInitRankConfig(&comm, context.ranks(), id, context.rank(), generic);
  wait_until_ready(comm);
  {
    TestStream stream;
    check_all_reduce(comm, context.rank(), context.ranks(), 1000, stream);
  }
  CHECK_NCCL(ncclCommDestroy(comm));
});

RegisterScenario missing_rank("missing_rank", [](RankContext&) {
  use_device(0);
  ncclUniqueId id{};
  CHECK_NCCL(ncclGetUniqueId(&id));
  ncclComm_t comm = nullptr;
  if (ncclCommInitRank(&comm, 2, id, 0) != ncclRemoteError)
    fail_rank("waiting for a rank that never comes did not end in ncclRemoteError");
  if (comm != nullptr || *ncclGetLastError(nullptr) == '\0') fail_rank("no word of what failed");
});

// One thread that drives four GPUs, in groups.
void all_reduce_in_group(const std::vector<ncclComm_t>& comms, const std::vector<int>& devices,
                         size_t size) {
  int ranks = static_cast<int>(comms.size());
  std::vector<std::unique_ptr<TestStream>> streams;
  std::vector<std::unique_ptr<DeviceArray<float>>> arrays;
  for (int rank = 0; rank < ranks; ++rank) {
    use_device(devices[rank]);
    streams.push_back(std::make_unique<TestStream>());
    arrays.push_back(std::make_unique<DeviceArray<float>>(numbers_of<float>(rank, size)));
  }
  CHECK_NCCL(ncclGroupStart());
  for (int rank = 0; rank < ranks; ++rank)
    CHECK_NCCL(ncclAllReduce(arrays[rank]->get(), arrays[rank]->get(), size, ncclFloat32, ncclSum,
                             comms[rank], streams[rank]->get()));
  CHECK_NCCL(ncclGroupEnd());
  for (int rank = 0; rank < ranks; ++rank) {
    streams[rank]->synchronize();
    arrays[rank]->expect(sums_of<float>(ranks, size), "AllReduce of one process");
  }
}

void use_one_process(const std::vector<int>& devices) {
  CHECK_DRIVER(init(0));
  std::vector<ncclComm_t> comms(devices.size());
  CHECK_NCCL(ncclCommInitAll(comms.data(), static_cast<int>(devices.size()), devices.data()));
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    int device = -1;
    CHECK_NCCL(ncclCommCuDevice(comms[rank], &device));
    if (device != devices[rank]) fail_rank("rank %zu is on device %d", rank, device);
  }
  for (size_t size : {17, 200000}) all_reduce_in_group(comms, devices, size);
  for (ncclComm_t comm : comms) CHECK_NCCL(ncclCommDestroy(comm));
  for (int device : devices)
    if (long long used = test_driver().used_bytes(device); used != 0)
      fail_rank("device %d still has %lld bytes in use", device, used);
}

RegisterScenario one_process("one_process", [](RankContext&) { use_one_process({0, 1, 2, 3}); });
RegisterScenario one_gpu("one_process_one_gpu", [](RankContext&) { use_one_process({2, 2}); });

RegisterScenario misuse("misuse", [](RankContext& context) {
  use_device(0);
  if (ncclGroupEnd() != ncclInvalidUsage) fail_rank("ncclGroupEnd without a group");
  ncclComm_t comm = make_communicator(context);
  auto refused = [](ncclResult_t result, const char* what) {
    if (result != ncclInvalidArgument) fail_rank("%s: result %d", what, result);
  };
  {
    DeviceArray<double> data(16);
    TestStream stream;
    auto all_reduce = [&](ncclDataType_t type, ncclRedOp_t op) {
      return ncclAllReduce(data.get(), data.get(), 16, type, op, comm, stream.get());
    };
    refused(all_reduce(ncclFloat16, ncclSum), "sum of float16");
    refused(all_reduce(static_cast<ncclDataType_t>(15), ncclSum), "unknown type");
    refused(all_reduce(ncclFloat32, static_cast<ncclRedOp_t>(7)), "unknown operation");
    refused(ncclBroadcast(data.get(), data.get(), 16, ncclFloat32, 5, comm, stream.get()), "root");
    refused(ncclAllReduce(data.get(), data.get(), 1, ncclInt8, ncclSum, nullptr, stream.get()),
            "no communicator");
    if (ncclSend(data.get(), 1, ncclInt8, 0, comm, stream.get()) != ncclInvalidUsage)
      fail_rank("a send to oneself that nobody receives");
    // The failures have left nothing behind.
    check_all_reduce(comm, 0, 1, 100, stream);
  }
  CHECK_NCCL(ncclCommDestroy(comm));
});

RegisterScenario user_memory("user_memory", [](RankContext&) {
  use_device(1);
  void* memory = nullptr;
  CHECK_NCCL(ncclMemAlloc(&memory, 3 << 20));
  long long used = test_driver().used_bytes(1);
  if (used < 3 << 20) fail_rank("ncclMemAlloc of 3 MiB took %lld bytes", used);
  std::vector<char> bytes(3 << 20, 'x');
  CHECK_DRIVER(copy_to_device(reinterpret_cast<CuDevicePtr>(memory), bytes.data(), bytes.size()));
  CHECK_NCCL(ncclMemFree(memory));
  if (test_driver().used_bytes(1) != 0) fail_rank("ncclMemFree left memory behind");
});

void expect_finished(const char* scenario, const RankOptions& options) {
  RankOutcome outcome = run_ranks(scenario, options);
  EXPECT_TRUE(outcome.finished) << outcome.text;
}

TEST(Communicators, WorkSideBySide) { expect_finished("several_communicators", {.ranks = 3}); }
TEST(Communicators, OrderTheirKernelsAcrossStreams) {
  expect_finished("several_streams", {.ranks = 2});
}
TEST(Communicators, SplitByColourAndKey) { expect_finished("splits", {.ranks = 4}); }
TEST(Communicators, InitializeInTheBackground) { expect_finished("nonblocking", {.ranks = 2}); }
TEST(Communicators, GiveUpOnARankThatNeverComes) {
  expect_finished("missing_rank", {.ranks = 1, .environment = {{"MINCCL_TIMEOUT_MS", "300"}}});
}
TEST(Communicators, RefuseWhatNcclRefuses) { expect_finished("misuse", {.ranks = 1}); }
TEST(Communicators, AllocateAndFreeUserMemory) { expect_finished("user_memory", {.ranks = 1}); }

TEST(OneProcess, MapsTheHandlesOfItsOtherGpusAgain) {
  RankOutcome outcome =
      run_ranks("one_process", {.ranks = 1, .environment = {{"NCCL_DEBUG", "INFO"}}});
  EXPECT_TRUE(outcome.finished) << outcome.text;
  EXPECT_NE(outcome.text.find("via P2P/direct pointer (alias)"), std::string::npos);
}
TEST(OneProcess, SharesTheAddressesOfOneGpu) {
  expect_finished("one_process_one_gpu",
                  {.ranks = 1, .environment = {{"NCCL_MULTI_RANK_GPU_ENABLE", "1"}}});
}
TEST(OneProcess, WorksWithoutCumem) {
  expect_finished("one_process", {.ranks = 1, .environment = {{"NCCL_CUMEM_ENABLE", "0"}}});
}
TEST(OneProcess, WorksOverSharedMemory) {
  expect_finished("one_process", {.ranks = 1, .environment = {{"NCCL_P2P_DISABLE", "1"}}});
}

}  // namespace
}  // namespace amem::minccl
