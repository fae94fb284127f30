// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <gtest/gtest.h>

#include "sim/minccl/rank_device.h"

extern "C" ncclResult_t ncclAlltoAll(const void* send, void* recv, size_t count,
                                     ncclDataType_t type, ncclComm_t comm, amemStream_t stream);

namespace amem::minccl {
namespace {

constexpr size_t kSize = 40000;
constexpr int kReplays = 20;

std::vector<float> input_of(int rank, int round) { return numbers_of<float>(rank + round, kSize); }

/// An AllReduce and an AlltoAll in one graph.
class CapturedOperations {
 public:
  CapturedOperations(ncclComm_t comm, RankContext& context)
      : context_(context), sum_(kSize), send_(kSize), recv_(kSize) {
    CHECK_DRIVER(begin_capture(stream_.get(), kCaptureGlobal));
    CHECK_NCCL(
        ncclAllReduce(send_.get(), sum_.get(), kSize, ncclFloat32, ncclSum, comm, stream_.get()));
    CHECK_NCCL(ncclAlltoAll(send_.get(), recv_.get(), kSize / context.ranks(), ncclFloat32, comm,
                            stream_.get()));
    CuGraph graph = nullptr;
    CHECK_DRIVER(end_capture(stream_.get(), &graph));
    CHECK_DRIVER(graph_instantiate(&executable_, graph, 0));
    CHECK_DRIVER(graph_destroy(graph));
  }
  ~CapturedOperations() { CHECK_DRIVER(graph_exec_destroy(executable_)); }

  void replay(int round) {
    send_.fill(input_of(context_.rank(), round));
    CHECK_DRIVER(graph_launch(executable_, stream_.get()));
    stream_.synchronize();
    sum_.expect(expected_sum(round), "captured AllReduce");
    recv_.expect(expected_blocks(round), "captured AlltoAll");
  }

  const TestStream& stream() const { return stream_; }

 private:
  std::vector<float> expected_sum(int round) const {
    std::vector<float> sum(kSize);
    for (int rank = 0; rank < context_.ranks(); ++rank) {
      std::vector<float> input = input_of(rank, round);
      for (size_t i = 0; i < kSize; ++i) sum[i] += input[i];
    }
    return sum;
  }

  std::vector<float> expected_blocks(int round) const {
    size_t block = kSize / context_.ranks();
    std::vector<float> blocks;
    for (int rank = 0; rank < context_.ranks(); ++rank) {
      std::vector<float> input = input_of(rank, round);
      auto begin = input.begin() + context_.rank() * block;
      blocks.insert(blocks.end(), begin, begin + block);
    }
    return blocks;
  }

  RankContext& context_;
  TestStream stream_;
  DeviceArray<float> sum_;
  DeviceArray<float> send_;
  DeviceArray<float> recv_;
  CuGraphExec executable_ = nullptr;
};

// The connections are made while the stream is being captured: nothing has run before.
RegisterScenario replays("graph_replays", [](RankContext& context) {
  use_device_of(context.rank());
  ncclComm_t comm = make_communicator(context);
  {
    CapturedOperations captured(comm, context);
    for (int round = 0; round < kReplays; ++round) {
      captured.replay(round);
      if (round % 3 == 0)
        check_all_reduce(comm, context.rank(), context.ranks(), kSize + round, captured.stream());
    }
    ncclResult_t state = ncclSuccess;
    CHECK_NCCL(ncclCommGetAsyncError(comm, &state));
    check_nccl(state, "state after the replays");
  }
  CHECK_NCCL(ncclCommDestroy(comm));
});

class Graphs : public testing::TestWithParam<const char*> {};

TEST_P(Graphs, ReplayBetweenOtherOperations) {
  RankOutcome outcome =
      run_ranks("graph_replays", {.ranks = 2, .environment = {{"NCCL_PROTO", GetParam()}}});

  EXPECT_TRUE(outcome.finished) << outcome.text;
}

INSTANTIATE_TEST_SUITE_P(Protocols, Graphs, testing::Values("LL", "LL128", "Simple"),
                         [](const auto& test) { return std::string(test.param); });

/// What a context has of local memory is one thing that a paused process can return.
RegisterScenario deep_stack("deep_stack", [](RankContext& context) {
  use_device_of(context.rank());
  const auto stack_bytes = [] {
    size_t bytes = 0;
    CHECK_DRIVER(context_get_limit(&bytes, kLimitStackSize));
    return bytes;
  };
  if (stack_bytes() != 1024) fail_rank("a context begins with %zu bytes of stack", stack_bytes());
  const ncclComm_t comm = make_communicator(context);
  {
    TestStream stream;
    check_all_reduce(comm, context.rank(), context.ranks(), 1000, stream);
  }
  if (stack_bytes() != 1984) fail_rank("collectives need %zu bytes of stack", stack_bytes());
  CHECK_NCCL(ncclCommDestroy(comm));
});

TEST(Kernels, HaveTheDeepStackOfNcclsKernels) {
  RankOutcome outcome =
      run_ranks("deep_stack", {.ranks = 2, .environment = {{"AMEM_SIM_LOCAL_MB", "8"}}});
  EXPECT_TRUE(outcome.finished) << outcome.text;
}

}  // namespace
}  // namespace amem::minccl
