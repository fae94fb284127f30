// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// amem/symmetric.hpp on the simulated GPU. The ranks are processes that are linked with amem.
#include <regex>
#include <thread>
#include <type_traits>

#include "amem/mpi_group.hpp"
#include "amem/symmetric.hpp"
#include "tests/process/symmetric_ranks.h"

/// A communicator of the MPI of this test: ranks that meet in a folder.
struct MpiCommunicator {
  amem::symmetric::FileGroup files;
  bool is_revoked = false;
};
int MPI_Comm_rank(MPI_Comm comm, int* rank) {
  *rank = comm->files.rank();
  return MPI_SUCCESS;
}
int MPI_Comm_size(MPI_Comm comm, int* size) {
  *size = comm->files.world_size();
  return MPI_SUCCESS;
}
int MPI_Allgather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                  int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  if (comm->is_revoked || sendcount != recvcount || sendtype != MPI_BYTE || recvtype != MPI_BYTE)
    return MPI_ERR_COMM;
  comm->files.all_gather(sendbuf, static_cast<size_t>(sendcount), recvbuf);
  return MPI_SUCCESS;
}

namespace amem::symmetric {
namespace {

static_assert(std::is_nothrow_move_constructible_v<Handle> &&
              !std::is_copy_constructible_v<Handle>);
static_assert(std::is_nothrow_move_constructible_v<Buffer> &&
              !std::is_copy_constructible_v<Buffer>);

class CppSymmetric : public SymmetricRanks {};

/// The text of what the call throws.
template <typename Exception>
std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_F(CppSymmetric, GetBufferHasTheElementsOfARank) {
  run(2, [](Rank& self) {
    FileGroup group = self.files("group");
    const Buffer buffer = empty(kBytes);
    const Handle handle = rendezvous(buffer, group);
    EXPECT_EQ(handle.rank(), self.rank);
    EXPECT_EQ(handle.world_size(), 2);
    EXPECT_EQ(handle.get_buffer<float>(self.rank, std::array{size_t{1}}).data, buffer.data());
    const std::array<size_t, 2> shape{3, 5};
    const Tensor own = handle.get_buffer<int>(self.rank, shape, 7);
    EXPECT_EQ(own.count(), 15u);
    EXPECT_EQ(own.data, static_cast<int*>(buffer.data()) + 7);
    std::vector<int> values(15);
    for (size_t i = 0; i < values.size(); ++i) values[i] = 100 * self.rank + static_cast<int>(i);
    JOB_CUDA(to_device(address_of(own.data), values.data(), 60));
    handle.barrier(0, self.stream, kTimeoutMs);
    self.synchronize();
    const std::vector<int> its = read(handle.get_buffer<int>(self.next(), shape, 7));
    EXPECT_EQ(its.front(), 100 * self.next());
    EXPECT_EQ(its.back(), 100 * self.next() + 14);
    self.wait_for_all();
  });
}

TEST_F(CppSymmetric, WhatIsNotInsideABufferOrPadIsRefused) {
  run(1, [](Rank& self) {
    FileGroup group = self.files("group");
    const Buffer buffer = empty(kBytes);
    const Handle handle = rendezvous(buffer, group);
    using Shape = std::array<size_t, 2>;
    constexpr size_t kWords = kBytes / 4, kPadWords = 1024;
    const auto refuses = [&](int rank, const Shape& shape, size_t offset) {
      return text_of<std::out_of_range>([&] {
               (void)handle.get_buffer<int>(rank, shape, offset);
             }) != "nothing was thrown";
    };
    EXPECT_FALSE(refuses(0, {kWords / 2, 2}, 0));
    EXPECT_FALSE(refuses(0, {0, SIZE_MAX}, kWords));
    EXPECT_TRUE(refuses(1, {1, 1}, 0));
    EXPECT_TRUE(refuses(-1, {1, 1}, 0));
    EXPECT_TRUE(refuses(0, {kWords / 2, 2}, 1));
    EXPECT_TRUE(refuses(0, {1, 1}, kWords));
    EXPECT_TRUE(refuses(0, {1, 1}, SIZE_MAX));
    EXPECT_TRUE(refuses(0, {SIZE_MAX / 2 + 1, 2}, 0)) << "the product is 0 modulo 2^64";
    EXPECT_NO_THROW((void)handle.get_signal_pad<1>(0, {kPadWords}));
    EXPECT_THROW((void)handle.get_signal_pad<1>(0, {kPadWords}, 1), std::out_of_range);
    EXPECT_THROW((void)handle.get_signal_pad<1>(1, {1}), std::out_of_range);
  });
}

TEST_F(CppSymmetric, SignalsAreInThePadOfTheirReceiver) {
  run(2, [](Rank& self) {
    FileGroup group = self.files("group");
    const Buffer buffer = empty(kBytes);
    const Handle handle = rendezvous(buffer, group);
    // Channel 3 of two ranks.
    const auto word_of = [&](int receiver, int sender) {
      return read(handle.get_signal_pad<1>(receiver, {1}, 3 * 2 + static_cast<size_t>(sender)))[0];
    };
    handle.put_signal(self.next(), 3, self.stream, kTimeoutMs);
    self.wait_for_all();
    EXPECT_EQ(word_of(self.rank, self.next()), 1u);
    EXPECT_EQ(word_of(self.next(), self.rank), 1u);
    EXPECT_EQ(word_of(self.rank, self.rank), 0u);
    self.wait_for_all();
    handle.wait_signal(self.next(), 3, self.stream, kTimeoutMs);
    self.wait_for_all();
    const Tensor pad = handle.get_signal_pad<2>(self.rank, {2, 512});
    EXPECT_EQ(read(pad), std::vector<uint32_t>(1024, 0));
    self.wait_for_all();
  });
}

TEST_F(CppSymmetric, PointersAreAlsoInDeviceMemory) {
  run(3, [](Rank& self) {
    FileGroup group = self.files("group");
    const Buffer buffer = empty(kBytes);
    const Handle handle = rendezvous(buffer, group);
    const amemSymmetricInfo_t& info = handle.info();
    for (int time = 0; time < 2; ++time) {
      EXPECT_EQ(read(info.device_buffers, 3), std::vector<void*>(info.buffers, info.buffers + 3));
      EXPECT_EQ(read(info.device_signal_pads, 3),
                std::vector<uint32_t*>(info.signal_pads, info.signal_pads + 3));
      const amemSymmetricView_t view = handle.view();
      for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(view.buffers[rank], info.buffers[rank]);
      self.wait_for_all();
      memory::pause("symmetric");
      memory::resume("symmetric");
      self.wait_for_all();
    }
  });
}

TEST_F(CppSymmetric, FunctionOfTheApplicationGathers) {
  run(2, [](Rank& self) {
    FileGroup files = self.files("group");
    int exchanges = 0;
    const auto gather = [&](const void* mine, size_t size_bytes, void* all) {
      ++exchanges;
      files.all_gather(mine, size_bytes, all);
    };
    FunctionGroup group(self.rank, 2, gather);
    const Buffer buffer = empty(kBytes);
    const Handle handle = rendezvous(buffer, group);
    EXPECT_EQ(exchanges, 2);
    handle.barrier(0, self.stream, kTimeoutMs);
    self.wait_for_all();
    FunctionGroup refuses(self.rank, 2, [](const void*, size_t, void*) {
      throw std::runtime_error("no exchange today");
    });
    EXPECT_EQ(text_of<Error>([&] { rendezvous(buffer, refuses); }), "no exchange today");
    self.wait_for_all();
  });
}

// All ranks notice, those that are processes of their own too: none waits for the others.
TEST_F(CppSymmetric, TwoRanksOfOneProcessAreRefusedOnAllRanks) {
  run(2, [](Rank& self) {
    const std::regex refused(
        "rank 0: it is process ([0-9]+), and process \\1 is rank 1: each rank is one process");
    const auto meet_as = [&](int rank) {
      JOB_CUDA(set_current(self.context));
      FileGroup group = self.files("group", rank, 3);
      const Buffer buffer = empty(kBytes);
      const std::string text = text_of<Error>([&] { rendezvous(buffer, group); });
      EXPECT_TRUE(std::regex_search(text, refused)) << "rank " << rank << ": " << text;
    };
    std::thread second;
    if (self.rank == 0) second = std::thread(meet_as, 1);
    meet_as(self.rank == 0 ? 0 : 2);
    if (second.joinable()) second.join();
    self.wait_for_all();
  });
}

TEST_F(CppSymmetric, BufferIsNotFreedWhileItsRanksMeet) {
  run(2, [](Rank& self) {
    FileGroup files = self.files("group");
    const Buffer buffer = empty(kBytes);
    int refused = 0;
    FunctionGroup group(self.rank, 2, [&](const void* mine, size_t size_bytes, void* all) {
      refused += amemSymmetricFree(buffer.data()) != 0 ? 1 : 0;
      files.all_gather(mine, size_bytes, all);
    });
    {
      const Handle handle = rendezvous(buffer, group);
      EXPECT_EQ(refused, 2);
      handle.barrier(0, self.stream, kTimeoutMs);
      self.wait_for_all();
    }
    FunctionGroup fails(self.rank, 2, [](auto...) { throw std::runtime_error("no"); });
    EXPECT_THROW(rendezvous(buffer, fails), Error);
    EXPECT_EQ(amemSymmetricFree(buffer.data()), 0) << amemGetLastError();
    EXPECT_EQ(allocated_bytes(), 0u);
    self.wait_for_all();
  });
}

TEST_F(CppSymmetric, RanksOfAnMpiCommunicatorMeet) {
  run(3, [](Rank& self) {
    MpiCommunicator communicator{self.files("mpi")};
    MpiGroup group(&communicator);
    const Buffer buffer = empty(kBytes);
    const Handle handle = rendezvous(buffer, group);
    EXPECT_EQ(handle.rank(), self.rank);
    EXPECT_EQ(handle.world_size(), 3);
    handle.barrier(0, self.stream, kTimeoutMs);
    self.wait_for_all();
    communicator.is_revoked = true;
    EXPECT_EQ(text_of<Error>([&] { rendezvous(buffer, group); }), "MPI_Allgather() failed");
    self.wait_for_all();
  });
}

TEST_F(CppSymmetric, HandlesOfSeveralGroupsShareABuffer) {
  run(3, [](Rank& self) {
    FileGroup group = self.files("group");
    const Buffer buffer = empty(kBytes);
    const Handle all = rendezvous(buffer, group);
    if (self.rank != 1) {
      FileGroup two = self.files("pair", self.rank == 2 ? 0 : 1, 2);
      const Handle pair = rendezvous(buffer, two);
      EXPECT_EQ(pair.info().buffers[0], all.info().buffers[2]);
      EXPECT_EQ(pair.info().buffers[1], all.info().buffers[0]);
      EXPECT_NE(pair.info().signal_pads[0], all.info().signal_pads[2]);
      pair.barrier(0, self.stream, kTimeoutMs);
      EXPECT_NE(amemSymmetricFree(buffer.data()), 0);
      self.synchronize();
      two.all_gather("x", 1, std::array<char, 2>().data());
    }
    all.barrier(0, self.stream, kTimeoutMs);  // also after the other handle's destruction
    self.wait_for_all();
  });
}

TEST_F(CppSymmetric, ScopeFreesOnceAndMovedObjectsThrow) {
  run(2, [](Rank& self) {
    FileGroup group = self.files("group"), other = self.files("other");
    {
      Buffer first = empty(kBytes);
      const Buffer& empty_buffer = first;  // what the move leaves
      const Buffer buffer = std::move(first);
      EXPECT_EQ(empty_buffer.data(), nullptr);
      EXPECT_EQ(empty_buffer.size_bytes(), 0u);
      const std::string text = text_of<Error>([&] { rendezvous(empty_buffer, other); });
      EXPECT_NE(text.find("0x0 is not the start of a buffer"), std::string::npos) << text;
      Handle met = rendezvous(buffer, group);
      const Handle& moved = met;
      const Handle handle = std::move(met);
      const auto is_refused = [&](const std::function<void()>& call) {
        return text_of<Error>(call).find("this is not a handle") != std::string::npos;
      };
      EXPECT_TRUE(is_refused([&] { moved.barrier(0, self.stream); }));
      EXPECT_TRUE(is_refused([&] { (void)moved.view(); }));
      EXPECT_THROW((void)moved.get_buffer<int>(0, std::array{size_t{1}}), std::out_of_range);
      EXPECT_THROW((void)moved.get_signal_pad<1>(0, {1}), std::out_of_range);
      handle.barrier(0, self.stream, kTimeoutMs);
      self.wait_for_all();
      EXPECT_GT(allocated_bytes(), kBytes);
    }
    EXPECT_EQ(allocated_bytes(), 0u);
    self.wait_for_all();
  });
}

}  // namespace
}  // namespace amem::symmetric
