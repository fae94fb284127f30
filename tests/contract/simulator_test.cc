// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The simulated driver's own: exact figures, faults on purpose, addresses that really fault.
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>

#include "tests/contract/gate.h"
#include "tests/contract/remote_process.h"
#include "tests/contract/simulator_case.h"

namespace amem::contract {
namespace {

class Simulator : public SimulatorCase {};
class SimulatorFault : public SimulatorCase {};
class SimulatorEnvironment : public SimulatorCase {
 protected:
  // Sets a variable for the processes that start meanwhile.
  class Variable {
   public:
    Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
    ~Variable() { unsetenv(name_); }

   private:
    const char* name_;
  };
};

volatile char* at(CuDevicePtr address) { return reinterpret_cast<volatile char*>(address); }

TEST_F(Simulator, ExportsEveryFunctionOfItsTableAndFindsIt) {
  using LookUp = CuResult (*)(const char*, void**, int, uint64_t, int*);
  const auto look_up = reinterpret_cast<LookUp>(driver_symbol("cuGetProcAddress_v2"));
  struct Row {
    const char* name;
    const char* symbol;
    int since;
  };
  const Row rows[] = {
#define AMEM_SIM_FUNCTION(name, symbol, since, kind) {#name, #symbol, since},
#include "sim/functions.def"
#undef AMEM_SIM_FUNCTION
  };
  for (const Row& row : rows) {
    void* found = nullptr;
    int status = -1;
    EXPECT_NE(nullptr, driver_symbol(row.symbol)) << row.symbol;
    EXPECT_EQ(kSuccess, look_up(row.name, &found, row.since, 0, &status)) << row.name;
    EXPECT_EQ(driver_symbol(row.symbol), found) << row.symbol;
  }
}

TEST_F(Simulator, CountsUsedBytesExactly) {
  const long long before = api_.used_bytes(0);
  const CuMemHandle handle = create(3 * granularity());
  CuDevicePtr small = 0;
  ASSERT_EQ(kSuccess, driver().cuMemAlloc(&small, 100));

  EXPECT_EQ(before + 4 * static_cast<long long>(granularity()), api_.used_bytes(0));

  EXPECT_EQ(kSuccess, driver().cuMemFree(small));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  EXPECT_EQ(before, api_.used_bytes(0));
  EXPECT_EQ(-1, api_.used_bytes(-1));
  EXPECT_EQ(-1, api_.used_bytes(1000));
}

TEST_F(Simulator, HandsOutWhatAnotherProgramLeft) {
  const size_t size_bytes = 3 * granularity();
  for (const unsigned word : {0u, 7u, 0u}) {
    api_.set_leftover(word);
    const CuDevicePtr address = allocate(size_bytes);
    EXPECT_TRUE(filled(address, word, size_bytes)) << word;
    free(address, size_bytes);
  }
}

TEST_F(Simulator, HandsOutAllOfItsMemoryAndNoMore) {
  const size_t free = free_bytes();
  const CuMemHandle all = create(free);
  CuMemHandle more = 0;
  const CuAllocationProp wanted = properties();

  EXPECT_EQ(kErrorOutOfMemory, driver().cuMemCreate(&more, granularity(), &wanted, 0));
  EXPECT_EQ(0u, free_bytes());

  EXPECT_EQ(kSuccess, driver().cuMemRelease(all));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(create(free)));
}

TEST_F(Simulator, DoesNotSufferFromFragments) {
  const size_t piece = free_bytes() / 64 / granularity() * granularity();
  std::vector<CuMemHandle> pieces;
  for (int i = 0; i < 64; ++i) pieces.push_back(create(piece));
  for (size_t i = 0; i < pieces.size(); i += 2) {
    ASSERT_EQ(kSuccess, driver().cuMemRelease(pieces[i]));
  }

  const CuMemHandle large = create(32 * piece);

  EXPECT_EQ(kSuccess, driver().cuMemRelease(large));
  for (size_t i = 1; i < pieces.size(); i += 2) {
    EXPECT_EQ(kSuccess, driver().cuMemRelease(pieces[i]));
  }
}

TEST_F(Simulator, SharesItsMemoryBetweenProcesses) {
  const long long alone = api_.used_bytes(0);
  RemoteProcess remote;
  ASSERT_EQ(kSuccess, remote.tell(Command::kStart).result);
  const long long before = api_.used_bytes(0);
  const CuMemHandle handle = create(granularity());
  int fd = -1;
  ASSERT_EQ(kSuccess, driver().cuMemExportToShareableHandle(&fd, handle, kHandleTypePosixFd, 0));
  UniqueFd exported(fd);
  ASSERT_EQ(kSuccess, remote.tell(Command::kImport, 0, fd).result);
  exported.reset();
  ASSERT_EQ(kSuccess, driver().cuMemRelease(handle));
  ASSERT_EQ(before + static_cast<long long>(granularity()), api_.used_bytes(0));

  remote.kill();

  EXPECT_TRUE(eventually([&] { return api_.used_bytes(0) == alone; }));
}

TEST_F(Simulator, LetsTheProcessorUseMappedMemory) {
  const CuDevicePtr address = allocate(granularity());
  *at(address) = 42;
  char byte = 0;

  ASSERT_EQ(kSuccess, driver().cuMemcpyDtoH(&byte, address, 1));

  EXPECT_EQ(42, byte);
  free(address, granularity());
}

TEST_F(Simulator, FaultsWhereNothingIsMapped) {
  const CuDevicePtr address = reserve(granularity());

  EXPECT_DEATH(*at(address) = 1, "");

  EXPECT_EQ(kSuccess, driver().cuMemAddressFree(address, granularity()));
}

TEST_F(Simulator, FaultsWhereNoAccessIsGranted) {
  const CuMemHandle handle = create(granularity());
  const CuDevicePtr address = reserve(granularity());
  ASSERT_EQ(kSuccess, driver().cuMemMap(address, granularity(), 0, handle, 0));

  EXPECT_DEATH(*at(address) = 1, "");

  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  free(address, granularity());
}

TEST_F(Simulator, FaultsOnAWriteWhereOnlyReadingIsGranted) {
  const CuDevicePtr address = allocate(granularity());
  const CuAccessDesc read_only{{kLocationDevice, 0}, kAccessRead};
  ASSERT_EQ(kSuccess, driver().cuMemSetAccess(address, granularity(), &read_only, 1));

  EXPECT_EQ(0, *at(address));
  EXPECT_DEATH(*at(address) = 1, "");
  EXPECT_EQ(kErrorInvalidValue, driver().cuMemsetD8(address, 1, 1));

  free(address, granularity());
}

TEST_F(Simulator, FaultsAfterMemoryIsUnmapped) {
  const CuDevicePtr address = allocate(granularity());
  *at(address) = 1;
  ASSERT_EQ(kSuccess, driver().cuMemUnmap(address, granularity()));

  EXPECT_DEATH(*at(address) = 1, "");

  EXPECT_EQ(kSuccess, driver().cuMemAddressFree(address, granularity()));
}

// The context is lost, as after an illegal access of a kernel: that of another device, because it
// stays so.
TEST_F(Simulator, LosesTheContextWhenACopyRunsIntoNothing) {
  CuContext second = nullptr;
  CuStream stream = nullptr;
  ASSERT_EQ(kSuccess, driver().cuDevicePrimaryCtxRetain(&second, 1));
  ASSERT_EQ(kSuccess, driver().cuCtxPushCurrent(second));
  ASSERT_EQ(kSuccess, driver().cuStreamCreate(&stream, kStreamNonBlocking));
  const CuDevicePtr address = allocate(granularity());
  Gate gate;
  ASSERT_EQ(kSuccess, driver().cuLaunchHostFunc(stream, &Gate::hold, &gate));
  ASSERT_EQ(kSuccess, driver().cuMemsetD8Async(address, 1, granularity(), stream));
  ASSERT_EQ(kSuccess, driver().cuMemUnmap(address, granularity()));
  gate.open();

  EXPECT_EQ(kErrorIllegalAddress, driver().cuStreamSynchronize(stream));
  EXPECT_EQ(kErrorIllegalAddress, driver().cuLaunchHostFunc(stream, &Gate::hold, &gate));

  EXPECT_EQ(kSuccess, driver().cuStreamDestroy(stream));
  CuContext popped = nullptr;
  EXPECT_EQ(kSuccess, driver().cuCtxPopCurrent(&popped));
  EXPECT_EQ(kSuccess, driver().cuDevicePrimaryCtxRelease(1));
  EXPECT_EQ(kSuccess, driver().cuMemAddressFree(address, granularity()));
}

TEST_F(Simulator, TellsAnImporterThatMemoryIsForNetworkCards) {
  CuAllocationProp wanted = properties();
  for (const bool capable : {true, false}) {
    wanted.gpu_direct_rdma_capable = capable ? 1 : 0;
    CuMemHandle handle = 0;
    CuMemHandle imported = 0;
    CuAllocationProp told = {};
    int fd = -1;
    ASSERT_EQ(kSuccess, driver().cuMemCreate(&handle, granularity(), &wanted, 0));
    ASSERT_EQ(kSuccess, driver().cuMemExportToShareableHandle(&fd, handle, kHandleTypePosixFd, 0));
    const UniqueFd exported(fd);
    ASSERT_EQ(kSuccess, driver().cuMemImportFromShareableHandle(
                            &imported, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                            kHandleTypePosixFd));

    ASSERT_EQ(kSuccess, driver().cuMemGetAllocationPropertiesFromHandle(&told, imported));

    EXPECT_EQ(capable, told.gpu_direct_rdma_capable != 0);
    EXPECT_EQ(kSuccess, driver().cuMemRelease(imported));
    EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  }
}

TEST_F(Simulator, LosesNoDescriptor) {
  const auto count = [] {
    const std::filesystem::directory_iterator open("/proc/self/fd");
    return std::distance(begin(open), end(open));
  };
  const auto before = count();
  for (int round = 0; round < 3; ++round) {
    const CuMemHandle handle = create(granularity());
    int fd = -1;
    ASSERT_EQ(kSuccess, driver().cuMemExportToShareableHandle(&fd, handle, kHandleTypePosixFd, 0));
    const UniqueFd exported(fd);
    const CuDevicePtr address = reserve(granularity());
    map(address, granularity(), handle);
    EXPECT_EQ(before + 2, count()) << "one for the handle and its mapping, one exported";
    EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
    free(address, granularity());
  }

  EXPECT_EQ(before, count());
}

TEST_F(Simulator, RefusesFabricHandles) {
  CuAllocationProp wanted = properties();
  wanted.requested_handle_types = kHandleTypeFabric;
  CuMemHandle handle = 0;

  EXPECT_EQ(kErrorNotPermitted, driver().cuMemCreate(&handle, granularity(), &wanted, 0));
}

TEST_F(Simulator, KeepsHostMemoryApart) {
  CuAllocationProp wanted = properties();
  wanted.location = {kLocationHostNuma, 0};
  const size_t before = free_bytes();
  CuMemHandle handle = 0;
  ASSERT_EQ(kSuccess, driver().cuMemCreate(&handle, granularity(), &wanted, 0));
  const CuDevicePtr address = reserve(granularity());
  const CuAccessDesc access[] = {read_write(), {{kLocationHostNuma, 0}, kAccessReadWrite}};
  ASSERT_EQ(kSuccess, driver().cuMemMap(address, granularity(), 0, handle, 0));

  ASSERT_EQ(kSuccess, driver().cuMemSetAccess(address, granularity(), access, 2));

  EXPECT_EQ(before, free_bytes());
  fill(address, 5, granularity());
  EXPECT_EQ(5, *at(address));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  free(address, granularity());
}

TEST_F(SimulatorFault, FailsTheCallThatWasAskedFor) {
  const CuAllocationProp wanted = properties();
  CuMemHandle handle = 0;
  ASSERT_EQ(0, api_.set_fault("cuMemCreate:2=2,cuMemMap:1=999"));

  EXPECT_EQ(kSuccess, driver().cuMemCreate(&handle, granularity(), &wanted, 0));
  CuMemHandle second = 0;
  EXPECT_EQ(kErrorOutOfMemory, driver().cuMemCreate(&second, granularity(), &wanted, 0));
  EXPECT_EQ(0u, second) << "a failed call has no effect";
  EXPECT_EQ(kSuccess, driver().cuMemCreate(&second, granularity(), &wanted, 0));

  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(second));
}

TEST_F(SimulatorFault, FailsAllLaterCalls) {
  const CuAllocationProp wanted = properties();
  CuMemHandle handle = 0;
  ASSERT_EQ(0, api_.set_fault("cuMemCreate:2..=800"));

  EXPECT_EQ(kSuccess, driver().cuMemCreate(&handle, granularity(), &wanted, 0));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(kErrorNotPermitted, driver().cuMemCreate(&handle, granularity(), &wanted, 0));
  }

  ASSERT_EQ(0, api_.set_fault(nullptr));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(create(granularity())));
}

TEST_F(SimulatorFault, CountsAnyMemoryCall) {
  CuDevicePtr address = 0;
  CuMemHandle handle = 0;
  const CuAllocationProp wanted = properties();
  ASSERT_EQ(0, api_.set_fault("*:2=304"));

  EXPECT_EQ(kSuccess, driver().cuMemAddressReserve(&address, granularity(), 0, 0, 0));
  EXPECT_EQ(kErrorOperatingSystem, driver().cuMemCreate(&handle, granularity(), &wanted, 0));

  EXPECT_EQ(kSuccess, driver().cuMemAddressFree(address, granularity()));
}

TEST_F(SimulatorFault, IsRefusedWhenItCannotBeUnderstood) {
  ASSERT_EQ(0, api_.set_fault("cuMemCreate:1=2"));
  for (const char* wrong : {"cuMemCreate", "cuMemCreate:0=2", "cuMemCreate:x=2", "cuMemCreate:1=",
                            "cuMemNothing:1=2", "cuMemCreate:1=2,,", "cuMemCreate:1.=2"}) {
    EXPECT_EQ(1, api_.set_fault(wrong)) << wrong;
  }

  CuMemHandle handle = 0;
  const CuAllocationProp wanted = properties();
  EXPECT_EQ(kErrorOutOfMemory, driver().cuMemCreate(&handle, granularity(), &wanted, 0))
      << "the one before still holds";
}

TEST_F(SimulatorFault, CallsAreCounted) {
  const long long all = api_.call_count("*");

  EXPECT_EQ(kSuccess, driver().cuMemRelease(create(granularity())));

  EXPECT_EQ(1, api_.call_count("cuMemCreate"));
  EXPECT_EQ(1, api_.call_count("cuMemRelease"));
  EXPECT_EQ(all + 2, api_.call_count("*"));
  EXPECT_EQ(-1, api_.call_count("cuMemNothing"));
  api_.reset();
  EXPECT_EQ(0, api_.call_count("cuMemCreate"));
}

TEST_F(SimulatorEnvironment, SetsFaults) {
  Variable fault("AMEM_SIM_FAULT", "cuMemAddressReserve:1=2");
  RemoteProcess remote;
  ASSERT_EQ(kSuccess, remote.tell(Command::kStart).result);

  EXPECT_EQ(kErrorOutOfMemory, remote.tell(Command::kMap, granularity()).result);
}

TEST_F(SimulatorEnvironment, SetsDelays) {
  Variable delay("AMEM_SIM_DELAY_US", "cuMemAddressReserve=20000");
  RemoteProcess remote;
  ASSERT_EQ(kSuccess, remote.tell(Command::kStart).result);
  const auto before = std::chrono::steady_clock::now();

  remote.tell(Command::kMap, granularity());

  EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(20));
}

TEST_F(SimulatorEnvironment, MakesAMachineThatHoldsUntilTheLastProcessHasEnded) {
  const std::string folder = std::string(getenv("AMEM_SIM_DIR")) + "/other";
  Variable machine("AMEM_SIM_OTHER_DIR", folder.c_str());
  const auto start_with = [&](const char* memory_mb) {
    Variable memory("AMEM_SIM_MEMORY_MB", memory_mb);
    auto remote = std::make_unique<RemoteProcess>();
    EXPECT_EQ(kSuccess, remote->tell(Command::kStartOnOtherMachine).result);
    return remote;
  };
  const auto total_mb = [](RemoteProcess& remote) { return remote.tell(Command::kTotalMb).value; };

  auto first = start_with("64");
  auto second = start_with("128");
  EXPECT_EQ(64u, total_mb(*first));
  EXPECT_EQ(64u, total_mb(*second)) << "the first process decides";
  first.reset();
  EXPECT_EQ(64u, total_mb(*start_with("128"))) << "there is still somebody";
  second.reset();
  EXPECT_EQ(128u, total_mb(*start_with("128")));
}

TEST_F(SimulatorEnvironment, IsRefusedWhenItCannotBeUnderstood) {
  Variable fault("AMEM_SIM_FAULT", "cuMemMapp:1=2");
  RemoteProcess remote;

  EXPECT_EQ(kErrorInvalidValue, remote.tell(Command::kStart).result);
}

}  // namespace
}  // namespace amem::contract
