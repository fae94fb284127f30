// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "sim/minccl/rank_device.h"

extern "C" ncclResult_t ncclAlltoAll(const void* send, void* recv, size_t count,
                                     ncclDataType_t type, ncclComm_t comm, amemStream_t stream);

namespace amem::minccl {
namespace {

/// All collectives of one communicator, with sizes in elements.
class AllCollectives {
 public:
  AllCollectives(ncclComm_t comm, int rank, int ranks) : comm_(comm), rank_(rank), ranks_(ranks) {}

  void run(size_t size) {
    check_all_reduce(comm_, rank_, ranks_, size, stream_);
    all_reduce_in_place(size);
    broadcast(size);
    reduce(size);
    all_gather(std::max<size_t>(size / ranks_, 1));
    reduce_scatter(std::max<size_t>(size / ranks_, 1));
    all_to_all(std::max<size_t>(size / ranks_, 1));
    send_to_next(size);
  }

  template <typename T>
  void reduce_all_ways(ncclDataType_t type) {
    constexpr size_t kSize = 17;
    auto check = [&](ncclRedOp_t op, auto combine, const char* what) {
      DeviceArray<T> data(numbers_of<T>(rank_, kSize));
      std::vector<T> expected = numbers_of<T>(0, kSize);
      for (int rank = 1; rank < ranks_; ++rank) {
        std::vector<T> more = numbers_of<T>(rank, kSize);
        for (size_t i = 0; i < kSize; ++i) expected[i] = combine(expected[i], more[i]);
      }
      if (op == ncclAvg)
        for (T& value : expected) value = static_cast<T>(value / static_cast<T>(ranks_));
      CHECK_NCCL(ncclAllReduce(data.get(), data.get(), kSize, type, op, comm_, stream_.get()));
      stream_.synchronize();
      data.expect(expected, what);
    };
    check(
        ncclSum, [](T a, T b) { return static_cast<T>(a + b); }, "sum");
    check(
        ncclProd, [](T a, T b) { return static_cast<T>(a * b); }, "product");
    check(
        ncclMax, [](T a, T b) { return std::max(a, b); }, "maximum");
    check(
        ncclMin, [](T a, T b) { return std::min(a, b); }, "minimum");
    check(
        ncclAvg, [](T a, T b) { return static_cast<T>(a + b); }, "average");
  }

 private:
  void all_reduce_in_place(size_t size) {
    DeviceArray<float> data(numbers_of<float>(rank_, size));
    CHECK_NCCL(
        ncclAllReduce(data.get(), data.get(), size, ncclFloat32, ncclSum, comm_, stream_.get()));
    stream_.synchronize();
    data.expect(sums_of<float>(ranks_, size), "AllReduce in place");
  }

  void broadcast(size_t size) {
    int root = ranks_ - 1;
    DeviceArray<float> send(numbers_of<float>(rank_, size));
    DeviceArray<float> recv(size);
    CHECK_NCCL(
        ncclBroadcast(send.get(), recv.get(), size, ncclFloat32, root, comm_, stream_.get()));
    stream_.synchronize();
    recv.expect(numbers_of<float>(root, size), "Broadcast");
  }

  void reduce(size_t size) {
    int root = ranks_ / 2;
    DeviceArray<float> send(numbers_of<float>(rank_, size));
    DeviceArray<float> recv(size);
    CHECK_NCCL(
        ncclReduce(send.get(), recv.get(), size, ncclFloat32, ncclSum, root, comm_, stream_.get()));
    stream_.synchronize();
    if (rank_ == root) recv.expect(sums_of<float>(ranks_, size), "Reduce");
  }

  void all_gather(size_t part) {
    DeviceArray<float> send(numbers_of<float>(rank_, part));
    DeviceArray<float> recv(part * ranks_);
    CHECK_NCCL(ncclAllGather(send.get(), recv.get(), part, ncclFloat32, comm_, stream_.get()));
    stream_.synchronize();
    std::vector<float> expected;
    for (int rank = 0; rank < ranks_; ++rank) {
      std::vector<float> numbers = numbers_of<float>(rank, part);
      expected.insert(expected.end(), numbers.begin(), numbers.end());
    }
    recv.expect(expected, "AllGather");
  }

  void reduce_scatter(size_t part) {
    DeviceArray<float> send(numbers_of<float>(rank_, part * ranks_));
    DeviceArray<float> recv(part);
    CHECK_NCCL(ncclReduceScatter(send.get(), recv.get(), part, ncclFloat32, ncclSum, comm_,
                                 stream_.get()));
    stream_.synchronize();
    std::vector<float> sums = sums_of<float>(ranks_, part * ranks_);
    recv.expect({sums.begin() + rank_ * part, sums.begin() + (rank_ + 1) * part}, "ReduceScatter");
  }

  void all_to_all(size_t part) {
    DeviceArray<float> send(numbers_of<float>(rank_, part * ranks_));
    DeviceArray<float> recv(part * ranks_);
    CHECK_NCCL(ncclAlltoAll(send.get(), recv.get(), part, ncclFloat32, comm_, stream_.get()));
    stream_.synchronize();
    std::vector<float> expected;
    for (int rank = 0; rank < ranks_; ++rank) {
      std::vector<float> numbers = numbers_of<float>(rank, part * ranks_);
      expected.insert(expected.end(), numbers.begin() + rank_ * part,
                      numbers.begin() + (rank_ + 1) * part);
    }
    recv.expect(expected, "AlltoAll");
  }

  // Two sends and two receives a rank, the receives named in the other order: one kernel has to
  // move them all.
  void send_to_next(size_t size) {
    int next = (rank_ + 1) % ranks_;
    int previous = (rank_ + ranks_ - 1) % ranks_;
    DeviceArray<float> send(numbers_of<float>(rank_, size));
    DeviceArray<float> first(size);
    DeviceArray<float> second(size);
    CHECK_NCCL(ncclGroupStart());
    CHECK_NCCL(ncclSend(send.get(), size, ncclFloat32, next, comm_, stream_.get()));
    CHECK_NCCL(ncclSend(send.get(), size, ncclFloat32, previous, comm_, stream_.get()));
    CHECK_NCCL(ncclRecv(first.get(), size, ncclFloat32, next, comm_, stream_.get()));
    CHECK_NCCL(ncclRecv(second.get(), size, ncclFloat32, previous, comm_, stream_.get()));
    CHECK_NCCL(ncclGroupEnd());
    stream_.synchronize();
    first.expect(numbers_of<float>(next, size), "Recv from the next rank");
    second.expect(numbers_of<float>(previous, size), "Recv from the previous rank");
  }

  ncclComm_t comm_;
  int rank_;
  int ranks_;
  TestStream stream_;
};

RegisterScenario collectives("collectives", [](RankContext& context) {
  use_device_of(context.rank());
  ncclComm_t comm = make_communicator(context);
  {
    AllCollectives all(comm, context.rank(), context.ranks());
    for (size_t size : {1, 17, 16384, 1 << 20}) all.run(size);
    all.reduce_all_ways<int8_t>(ncclInt8);
    all.reduce_all_ways<uint8_t>(ncclUint8);
    all.reduce_all_ways<int32_t>(ncclInt32);
    all.reduce_all_ways<uint32_t>(ncclUint32);
    all.reduce_all_ways<int64_t>(ncclInt64);
    all.reduce_all_ways<uint64_t>(ncclUint64);
    all.reduce_all_ways<float>(ncclFloat32);
    all.reduce_all_ways<double>(ncclFloat64);
  }
  CHECK_NCCL(ncclCommDestroy(comm));
});

struct Transport {
  const char* name;
  const char* log;  ///< NCCL's words for it
  std::map<std::string, std::string> environment;
};

void PrintTo(const Transport& transport, std::ostream* out) { *out << transport.name; }

const Transport kTransports[] = {{"P2p", "via P2P/CUMEM", {}},
                                 {"Shm", "via SHM/direct", {{"NCCL_P2P_DISABLE", "1"}}}};
const Transport kNvls = {
    "Nvls",
    "NVLS, ",
    // Each process maps the files of all GPUs whole, and qemu-user keeps a record of every page.
    {{"NCCL_NVLS_ENABLE", "1"}, {"AMEM_SIM_MULTICAST", "1"}, {"AMEM_SIM_MEMORY_MB", "512"}}};

const Transport kFabric = {
    "Fabric", "MNNVL 1", {{"NCCL_MNNVL_ENABLE", "1"}, {"AMEM_SIM_FABRIC", "domain"}}};

using Parameters = std::tuple<int, const char*, Transport>;

class Collectives : public testing::TestWithParam<Parameters> {};

TEST_P(Collectives, AreBitExact) {
  const auto& [ranks, protocol, transport] = GetParam();
  RankOptions options{.ranks = ranks, .environment = transport.environment};
  options.environment["NCCL_PROTO"] = protocol;
  options.environment["NCCL_DEBUG"] = "INFO";

  RankOutcome outcome = run_ranks("collectives", options);

  EXPECT_TRUE(outcome.finished) << outcome.text;
  if (ranks > 1) {
    EXPECT_NE(outcome.text.find(transport.log), std::string::npos) << outcome.text;
  }
}

std::string name_of(const testing::TestParamInfo<Parameters>& info) {
  const auto& [ranks, protocol, transport] = info.param;
  return std::string(transport.name) + protocol + std::to_string(ranks) + "Ranks";
}

INSTANTIATE_TEST_SUITE_P(OneRank, Collectives,
                         testing::Combine(testing::Values(1), testing::Values("Simple"),
                                          testing::Values(kTransports[0])),
                         name_of);
INSTANTIATE_TEST_SUITE_P(SeveralRanks, Collectives,
                         testing::Combine(testing::Values(2, 4),
                                          testing::Values("LL", "LL128", "Simple"),
                                          testing::ValuesIn(kTransports)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(WithNvls, Collectives,
                         testing::Combine(testing::Values(2, 4), testing::Values("Simple"),
                                          testing::Values(kNvls)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(WithFabric, Collectives,
                         testing::Combine(testing::Values(2, 4), testing::Values("Simple"),
                                          testing::Values(kFabric)),
                         name_of);

// NCCL_CUMEM_ENABLE=0: no memory of another process can be had, so the data takes the host.
TEST(WithoutCumem, FallsBackToSharedMemory) {
  RankOptions options{.environment = {{"NCCL_CUMEM_ENABLE", "0"}, {"NCCL_DEBUG", "INFO"}}};

  RankOutcome outcome = run_ranks("collectives", options);

  EXPECT_TRUE(outcome.finished) << outcome.text;
  EXPECT_NE(outcome.text.find("via SHM/direct"), std::string::npos) << outcome.text;
}

TEST(TwoRanksOnOneGpu, AreRefused) {
  RankOutcome outcome = run_ranks(
      "collectives", {.environment = {{"MINCCL_TEST_DEVICE", "1"}, {"NCCL_DEBUG", "WARN"}}});

  EXPECT_FALSE(outcome.finished);
  EXPECT_NE(outcome.text.find("use the same GPU"), std::string::npos) << outcome.text;
}

TEST(TwoRanksOnOneGpu, ImportEachOthersMemoryWhereTheyMayShareIt) {
  RankOptions options{.environment = {{"MINCCL_TEST_DEVICE", "1"},
                                      {"NCCL_MULTI_RANK_GPU_ENABLE", "1"},
                                      {"NCCL_DEBUG", "INFO"}}};

  RankOutcome outcome = run_ranks("collectives", options);

  EXPECT_TRUE(outcome.finished) << outcome.text;
  EXPECT_NE(outcome.text.find("via P2P/CUMEM"), std::string::npos) << outcome.text;
}

}  // namespace
}  // namespace amem::minccl
