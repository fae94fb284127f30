// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// multimem instructions on the simulated GPU, in the kernels that have them: they reach what is
// bound at a multicast address, and nothing at any other address.
#include <cstddef>
#include <utility>

#include "symmetric/kernels.h"
#include "tests/contract/simulator_case.h"

namespace amem::contract {
namespace {

using symmetric::Arguments;
using symmetric::detail::Workspace;

/// All that the simulated GPU reads of the text of a kernel.
constexpr char kPtx[] = R"(
.version 8.2
.target sm_90
.entry amem_symmetric_multimem_all_gather(
.entry amem_symmetric_multimem_all_reduce_float32(
)";

/// This process is both ranks of a group. It runs kernels of rank 0, for which rank 1 has arrived.
class SimulatorMultimem : public SimulatorCase {
 protected:
  void SetUp() override {
    SimulatorCase::SetUp();
    if (IsSkipped()) return;
    int supported = 0;
    ASSERT_EQ(kSuccess, driver().cuDeviceGetAttribute(&supported, kAttributeMulticast, 0));
    if (supported == 0) GTEST_SKIP() << "AMEM_SIM_MULTICAST is not 1";
    const CuMulticastProp wanted{2, kBytes, kHandleTypePosixFd, 0};
    ASSERT_EQ(kSuccess, driver().cuMulticastCreate(&object_, &wanted));
    ASSERT_EQ(kSuccess, driver().cuMulticastAddDevice(object_, 0));
    ASSERT_EQ(kSuccess, driver().cuMulticastAddDevice(object_, 1));
    multicast_ = reserve(kBytes);
    map(multicast_, kBytes, object_);
    for (int rank = 0; rank < 2; ++rank) {
      CuAllocationProp of_device = properties();
      of_device.location.id = rank;
      ASSERT_EQ(kSuccess, driver().cuMemCreate(&memory_[rank], kBytes, &of_device, 0));
      buffer_[rank] = reserve(kBytes);
      map(buffer_[rank], kBytes, memory_[rank]);
      workspace_[rank] = allocate(kBytes);
    }
    fill(workspace_[0] + offsetof(Workspace, block_flags), 1000, sizeof Workspace{}.block_flags);
    input_ = allocate(kBytes);
    ASSERT_EQ(kSuccess, driver().cuMemHostAlloc(&report_, 64, 3));
    ASSERT_EQ(kSuccess, driver().cuModuleLoadData(&module_, kPtx));
  }

  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(kSuccess, driver().cuModuleUnload(module_));
    EXPECT_EQ(kSuccess, driver().cuMemFreeHost(report_));
    for (int rank = 0; rank < 2; ++rank) {
      free(buffer_[rank], kBytes);
      free(workspace_[rank], kBytes);
      EXPECT_EQ(kSuccess, driver().cuMemRelease(memory_[rank]));
    }
    free(input_, kBytes);
    free(multicast_, kBytes);
    EXPECT_EQ(kSuccess, driver().cuMemRelease(object_));
    SimulatorCase::TearDown();
  }

  void bind(int rank) {
    ASSERT_EQ(kSuccess, driver().cuMulticastBindMem(object_, 0, memory_[rank], 0, kBytes, 0));
  }

  Arguments arguments() const {
    const auto pointer = [](CuDevicePtr address) {
      return reinterpret_cast<unsigned char*>(address);
    };
    Arguments all{};
    for (int rank = 0; rank < 2; ++rank) {
      all.view.buffers[rank] = pointer(buffer_[rank]);
      all.view.workspaces[rank] = pointer(workspace_[rank]);
    }
    all.multicast = pointer(multicast_);
    all.view.report = report_;
    all.view.buffer_bytes = kBytes;
    all.view.world_size = 2;
    all.size_bytes = kMb;
    all.part_bytes = kMb / 2;
    all.timeout_ns = 1'000'000'000;
    return all;
  }

  /// The result of the kernel, in the current context.
  CuResult run(const char* kernel, Arguments all) {
    CuFunction function = nullptr;
    CuStream stream = nullptr;
    EXPECT_EQ(kSuccess, driver().cuModuleGetFunction(&function, module_, kernel));
    EXPECT_EQ(kSuccess, driver().cuStreamCreate(&stream, 1));
    void* parameters[] = {&all};
    EXPECT_EQ(kSuccess, driver().cuLaunchKernel(function, 2, 1, 1, symmetric::kThreads, 1, 1, 0,
                                                stream, parameters, nullptr));
    const CuResult result = driver().cuStreamSynchronize(stream);
    driver().cuStreamDestroy(stream);
    return result;
  }
  CuResult gather(const Arguments& all) { return run("amem_symmetric_multimem_all_gather", all); }

  /// The same in a context that the error ends.
  CuResult gather_on_another_device(const Arguments& all) {
    constexpr int kDevice = 3;
    CuContext other = nullptr;
    CuModule module = nullptr;
    EXPECT_EQ(kSuccess, driver().cuDevicePrimaryCtxRetain(&other, kDevice));
    EXPECT_EQ(kSuccess, driver().cuCtxSetCurrent(other));
    EXPECT_EQ(kSuccess, driver().cuModuleLoadData(&module, kPtx));
    std::swap(module, module_);
    const CuResult result = gather(all);
    std::swap(module, module_);
    EXPECT_EQ(kSuccess, driver().cuCtxSetCurrent(context_));
    EXPECT_EQ(kSuccess, driver().cuDevicePrimaryCtxRelease(kDevice));
    return result;
  }

  static constexpr size_t kBytes = 4 * kMb;
  CuMemHandle object_ = 0, memory_[2] = {};
  CuDevicePtr multicast_ = 0, buffer_[2] = {}, workspace_[2] = {}, input_ = 0;
  void* report_ = nullptr;
  CuModule module_ = nullptr;
};

TEST_F(SimulatorMultimem, StoreReachesTheMemoryOfAllDevices) {
  for (const int rank : {0, 1}) bind(rank);
  for (const CuDevicePtr buffer : buffer_) fill(buffer, 7, kBytes);
  fill(input_, 42, kMb);
  Arguments all = arguments();
  all.input = reinterpret_cast<const unsigned char*>(input_);
  all.offset_bytes = kMb;
  ASSERT_EQ(kSuccess, gather(all));
  for (const CuDevicePtr buffer : buffer_) {
    EXPECT_TRUE(filled(buffer, 7, kMb));
    EXPECT_TRUE(filled(buffer + kMb, 42, kMb));
    EXPECT_TRUE(filled(buffer + 2 * kMb, 7, 2 * kMb));
  }
}

TEST_F(SimulatorMultimem, ReductionSumsTheMemoryOfAllDevices) {
  constexpr uint32_t kOne = 0x3f800000, kTwo = 0x40000000, kThree = 0x40400000;
  for (const int rank : {0, 1}) bind(rank);
  fill(buffer_[0], kOne, kBytes);
  fill(buffer_[1], kTwo, kBytes);
  ASSERT_EQ(kSuccess, run("amem_symmetric_multimem_all_reduce_float32", arguments()));
  for (const CuDevicePtr buffer : buffer_) EXPECT_TRUE(filled(buffer, kThree, kMb / 2));
  // The other half is the part of rank 1.
  EXPECT_TRUE(filled(buffer_[0] + kMb / 2, kOne, kMb / 2));
  EXPECT_TRUE(filled(buffer_[1] + kMb / 2, kTwo, kMb / 2));
}

TEST_F(SimulatorMultimem, AddressWithoutTheMemoryOfAllDevicesIsIllegal) {
  Arguments all = arguments();
  all.input = reinterpret_cast<const unsigned char*>(input_);
  bind(0);
  EXPECT_EQ(kErrorIllegalAddress, gather_on_another_device(all)) << "one rank has not bound any";
  bind(1);
  all.multicast = all.view.buffers[0];
  EXPECT_EQ(kErrorIllegalAddress, gather_on_another_device(all)) << "no multicast address";
  all.multicast = reinterpret_cast<unsigned char*>(multicast_) + kMb;
  EXPECT_EQ(kErrorIllegalAddress, gather_on_another_device(all)) << "the end is outside";
  ASSERT_EQ(kSuccess, driver().cuMulticastUnbind(object_, 1, 0, kBytes));
  EXPECT_EQ(kErrorIllegalAddress, gather_on_another_device(arguments())) << "unbound again";
}

}  // namespace
}  // namespace amem::contract
