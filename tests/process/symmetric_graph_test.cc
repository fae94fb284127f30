// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Synchronization of symmetric memory in captured graphs, on the simulated GPU.
#include "tests/process/symmetric_ranks.h"

namespace amem::symmetric {
namespace {

class SymmetricGraph : public SymmetricRanks {};

TEST_F(SymmetricGraph, SignalsAndWritesAreReplayedAlsoAfterAPause) {
  run(3, [](Rank& self) {
    FileGroup group = self.files("group");
    const Buffer buffer = empty(kBytes);
    const Handle handle = rendezvous(buffer, group);
    int* const own = handle.get_buffer<int>(self.rank, std::array{size_t{1}}).data;
    int* const next = handle.get_buffer<int>(self.next(), std::array{size_t{1}}).data;
    const auto value_of = [](int rank) { return 700 + rank; };
    const jobs::GraphExec graph = self.capture([&] {
      handle.stream_write_value32(next, static_cast<uint32_t>(value_of(self.rank)), self.stream);
      handle.put_signal(self.next(), 4, self.stream, kTimeoutMs);
      handle.wait_signal(self.previous(), 4, self.stream, kTimeoutMs);
    });
    for (int cycle = 0; cycle < 6; ++cycle) {
      JOB_CUDA(fill32(address_of(own), 0, 1));
      self.wait_for_all();
      self.replay(graph);
      EXPECT_EQ(read(own, 1)[0], value_of(self.previous())) << "cycle " << cycle;
      self.wait_for_all();
      const Tensor pad = handle.get_signal_pad<1>(self.rank, {1024});
      EXPECT_EQ(read(pad), std::vector<uint32_t>(1024, 0)) << "cycle " << cycle;
      if (cycle % 3 == self.rank) {
        memory::pause("symmetric");
        memory::resume("symmetric");
      }
      EXPECT_EQ(amemSymmetricGetError(handle.get()), 0);
      self.wait_for_all();
    }
  });
}

TEST_F(SymmetricGraph, MemsetOfAPeersWordsIsReplayed) {
  run(2, [](Rank& self) {
    FileGroup group = self.files("group");
    const Buffer buffer = empty(kBytes);
    const Handle handle = rendezvous(buffer, group);
    constexpr std::array<size_t, 1> kAll{6};
    const Tensor own = handle.get_buffer<uint32_t>(self.rank, kAll);
    uint32_t* const next = handle.get_buffer<uint32_t>(self.next(), kAll).data;
    const jobs::GraphExec graph =
        self.capture([&] { handle.memset32(next + 1, 8, 4, self.stream); });
    for (int cycle = 0; cycle < 2; ++cycle) {
      JOB_CUDA(fill32(address_of(own.data), 5, 6));
      self.wait_for_all();
      self.replay(graph);
      self.wait_for_all();
      EXPECT_EQ(read(own), (std::vector<uint32_t>{5, 8, 8, 8, 8, 5}));
      self.wait_for_all();
    }
    uint32_t* const last = next + kBytes / 4 - 1;
    handle.memset32(last, 1, 1, self.stream);
    EXPECT_THROW(handle.memset32(last, 1, 2, self.stream), Error);
    EXPECT_THROW(handle.memset32(next, 1, SIZE_MAX / 2, self.stream), Error);
    EXPECT_THROW(handle.memset32(reinterpret_cast<char*>(next) + 2, 1, 1, self.stream), Error);
    EXPECT_THROW(handle.stream_write_value32(last + 1, 1, self.stream), Error);
    self.wait_for_all();
  });
}

// A null stream cannot be queried then. The call has enqueued nothing, and can be repeated.
TEST_F(SymmetricGraph, CallOnTheNullStreamNextToACaptureDoesNotFailTheHandle) {
  run(2, [](Rank& self) {
    FileGroup group = self.files("group");
    const Buffer buffer = empty(kBytes);
    const Handle handle = rendezvous(buffer, group);
    constexpr int kBlocking = 0, kRelaxed = 2;
    jobs::Stream other = nullptr;
    jobs::Graph graph = nullptr;
    JOB_CUDA(stream_create(&other, kBlocking));
    JOB_CUDA(begin_capture(other, kRelaxed));
    EXPECT_THROW(handle.barrier(0, nullptr, kTimeoutMs), Error);
    JOB_CUDA(end_capture(other, &graph));
    JOB_CUDA(graph_destroy(graph));
    EXPECT_EQ(amemSymmetricGetError(handle.get()), 0) << amemGetLastError();
    handle.barrier(0, nullptr, kTimeoutMs);
    JOB_CUDA(stream_synchronize(nullptr));
    self.wait_for_all();
  });
}

TEST_F(SymmetricGraph, ClearOfThePadIsReplayed) {
  run(2, [](Rank& self) {
    FileGroup group = self.files("group");
    const Buffer buffer = empty(kBytes);
    const Handle handle = rendezvous(buffer, group);
    const jobs::GraphExec clear = self.capture([&] { handle.clear_signal_pad(self.stream); });
    for (int cycle = 0; cycle < 4; ++cycle) {
      // Would wait for its timeout if the pad still had the last one.
      handle.put_signal(self.next(), 9, self.stream, kTimeoutMs);
      self.wait_for_all();
      const Tensor pad = handle.get_signal_pad<1>(self.rank, {1024});
      EXPECT_NE(read(pad), std::vector<uint32_t>(1024, 0));
      self.replay(clear);
      EXPECT_EQ(read(pad), std::vector<uint32_t>(1024, 0));
      if (cycle == self.rank) {
        memory::pause("symmetric");
        memory::resume("symmetric");
      }
      EXPECT_EQ(amemSymmetricGetError(handle.get()), 0);
      self.wait_for_all();
    }
  });
}

}  // namespace
}  // namespace amem::symmetric
