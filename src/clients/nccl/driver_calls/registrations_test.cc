// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Tables of network plugins as NCCL's versions look them up, and the memory that they register.
#include "clients/nccl/driver_calls/registrations.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "clients/nccl/driver_calls/testdata/slab_fixture.h"

namespace amem {
namespace {

constexpr size_t kMembers = 24;  // more than the largest table has

/// What a plugin was called with.
struct Call {
  int count = 0, result = 0;
  void *comm = nullptr, *address = nullptr, **handle = nullptr, **gin_handle = nullptr;
  size_t size_bytes = 0;
  uint64_t offset = 0, flags = 0;
  int type = 0, fd = 0;
};
Call g_call;
std::function<void()> g_during = [] {};  ///< what happens during the call

int reg_mr(void* comm, void* address, size_t size_bytes, int type, void** handle) {
  g_call = {g_call.count + 1, g_call.result, comm, address, handle,
            nullptr,          size_bytes,    0,    0,       type};
  g_during();
  return g_call.result;
}
int reg_mr_of_int(void* comm, void* address, int size_bytes, int type, void** handle) {
  return reg_mr(comm, address, static_cast<size_t>(size_bytes), type, handle);
}
int reg_mr_sym_dma_buf(void* comm, void* address, size_t size_bytes, int type, uint64_t offset,
                       int fd, uint64_t flags, void** handle, void** gin_handle) {
  g_call = {g_call.count + 1, g_call.result, comm,  address, handle, gin_handle,
            size_bytes,       offset,        flags, type,    fd};
  return g_call.result;
}

/// A table with these functions at `at` and behind it; the others must not be called.
template <typename Register, typename DmaBuf>
std::array<uintptr_t, kMembers> table_of(size_t at, Register* reg, DmaBuf* dma_buf) {
  std::array<uintptr_t, kMembers> table;
  for (size_t i = 0; i < table.size(); ++i) table[i] = 1000 + i;
  table[at] = reinterpret_cast<uintptr_t>(reg);
  table[at + 1] = reinterpret_cast<uintptr_t>(dma_buf);
  return table;
}

class NetPlugins : public SlabCalls {
 protected:
  NetPlugins() { g_call = {}; }
  ~NetPlugins() override {
    g_during = [] {};
  }

  const uintptr_t* wrapped(const char* name, std::array<uintptr_t, kMembers>& table) {
    return static_cast<const uintptr_t*>(registration_hook(name, table.data()));
  }
  const char* reason_of(const Buffer& buffer) {
    MutexLock lock(registry_.mutex);
    return registry_.find(allocation_of(buffer.handle))->persistent_because;
  }
};

struct Version {
  const char* name;
  size_t at;
  bool size_is_int;
};
class NetPluginVersions : public NetPlugins, public testing::WithParamInterface<Version> {
 protected:
  /// The table of this version, which stays: plugins stay loaded.
  static std::array<uintptr_t, kMembers>& table_of_version() {
    static std::map<std::string, std::array<uintptr_t, kMembers>> tables;
    const Version version = GetParam();
    const auto table = version.size_is_int ? table_of(version.at, reg_mr_of_int, reg_mr_sym_dma_buf)
                                           : table_of(version.at, reg_mr, reg_mr_sym_dma_buf);
    return tables.try_emplace(version.name, table).first->second;
  }
};

TEST_P(NetPluginVersions, RegisteredMemoryStays) {
  const Version version = GetParam();
  auto& table = table_of_version();
  const Buffer buffer = allocate(1000), other = allocate(1000);
  const uintptr_t* const copy = wrapped(version.name, table);
  ASSERT_NE(copy, table.data());
  for (size_t i = 0; i < version.at; ++i) EXPECT_EQ(copy[i], table[i]);

  void *handle = nullptr, *const comm = &table;
  auto* const address = reinterpret_cast<void*>(buffer.address);
  if (version.size_is_int) {
    auto* const call = reinterpret_cast<decltype(&reg_mr_of_int)>(copy[version.at]);
    EXPECT_EQ(call(comm, address, 1000, 2, &handle), 0);
  } else {
    auto* const call = reinterpret_cast<decltype(&reg_mr)>(copy[version.at]);
    EXPECT_EQ(call(comm, address, 1000, 2, &handle), 0);
  }

  EXPECT_EQ(g_call.count, 1);
  EXPECT_EQ(g_call.comm, comm);
  EXPECT_EQ(g_call.address, address);
  EXPECT_EQ(g_call.size_bytes, 1000u);
  EXPECT_EQ(g_call.type, 2);
  EXPECT_EQ(g_call.handle, &handle);
  EXPECT_STREQ(reason_of(buffer), "registered with a NIC");
  EXPECT_EQ(reason_of(other), nullptr);
}

INSTANTIATE_TEST_SUITE_P(
    All, NetPluginVersions,
    testing::Values(Version{"ncclNetPlugin_v5", 7, true}, Version{"ncclNetPlugin_v6", 7, true},
                    Version{"ncclNetPlugin_v7", 7, true}, Version{"ncclNetPlugin_v8", 7, false},
                    Version{"ncclNetPlugin_v9", 7, false}, Version{"ncclNetPlugin_v10", 7, false},
                    Version{"ncclNetPlugin_v11", 7, false}, Version{"ncclNetPlugin_v12", 7, false},
                    Version{"ncclCollNetPlugin_v5", 7, true},
                    Version{"ncclCollNetPlugin_v8", 7, false},
                    Version{"ncclCollNetPlugin_v12", 7, false},
                    Version{"ncclGinPlugin_v11", 7, false}, Version{"ncclGinPlugin_v13", 7, false},
                    Version{"ncclGinPlugin_v14", 8, false}, Version{"ncclRmaPlugin_v14", 7, false},
                    Version{"ncclRmaPlugin_v15", 7, false}, Version{"ncclRmaPlugin_v16", 8, false}),
    [](const auto& version) { return std::string(version.param.name); });

// regMrDmaBuf has the same parameters in all versions: its size is a size_t where that of regMr is
// an int.
class NetPluginDmaBufs : public NetPluginVersions {};

TEST_P(NetPluginDmaBufs, RegisteredMemoryStays) {
  const Version version = GetParam();
  const Buffer buffer = allocate(1000);
  const uintptr_t* const copy = wrapped(version.name, table_of_version());
  void* handle = nullptr;
  constexpr size_t kFourGiB = size_t{1} << 32;  // 0 as an int
  auto* const address = reinterpret_cast<void*>(buffer.address);

  auto* const call = reinterpret_cast<decltype(&reg_mr_sym_dma_buf)>(copy[version.at + 1]);
  EXPECT_EQ(call(&handle, address, kFourGiB, 2, 77, 5, 0, &handle, nullptr), 0);

  EXPECT_EQ(g_call.count, 1);
  EXPECT_EQ(g_call.address, address);
  EXPECT_EQ(g_call.size_bytes, kFourGiB);
  EXPECT_EQ(g_call.offset, 77u);
  EXPECT_EQ(g_call.fd, 5);
  EXPECT_STREQ(reason_of(buffer), "registered with a NIC");
}

INSTANTIATE_TEST_SUITE_P(
    All, NetPluginDmaBufs,
    testing::Values(
        Version{"ncclNetPlugin_v6", 7, true}, Version{"ncclNetPlugin_v7", 7, true},
        Version{"ncclNetPlugin_v8", 7, false}, Version{"ncclNetPlugin_v9", 7, false},
        Version{"ncclNetPlugin_v12", 7, false}, Version{"ncclCollNetPlugin_v6", 7, true},
        Version{"ncclCollNetPlugin_v7", 7, true}, Version{"ncclCollNetPlugin_v8", 7, false},
        Version{"ncclCollNetPlugin_v12", 7, false}, Version{"ncclGinPlugin_v11", 7, false},
        Version{"ncclGinPlugin_v13", 7, false}, Version{"ncclGinPlugin_v14", 8, false},
        Version{"ncclRmaPlugin_v15", 7, false}, Version{"ncclRmaPlugin_v16", 8, false}),
    [](const auto& version) { return std::string(version.param.name); });

// The form with the most parameters, of which three are on the stack.
TEST_F(NetPlugins, AllParametersArrive) {
  static auto table = table_of(8, reg_mr, reg_mr_sym_dma_buf);
  const Buffer buffer = allocate(1000);
  const uintptr_t* const copy = wrapped("ncclGinPlugin_v14", table);
  void *handle = nullptr, *gin_handle = nullptr;
  auto* const address = reinterpret_cast<void*>(buffer.address);

  auto* const call = reinterpret_cast<decltype(&reg_mr_sym_dma_buf)>(copy[9]);
  EXPECT_EQ(call(&table, address, 1000, 2, 77, 5, 99, &handle, &gin_handle), 0);

  EXPECT_EQ(g_call.offset, 77u);
  EXPECT_EQ(g_call.fd, 5);
  EXPECT_EQ(g_call.flags, 99u);
  EXPECT_EQ(g_call.handle, &handle);
  EXPECT_EQ(g_call.gin_handle, &gin_handle);
  EXPECT_STREQ(reason_of(buffer), "registered with a NIC");
}

// Its next member is deregMr.
TEST_F(NetPlugins, TableWithoutDmaBufsKeepsItsNextMember) {
  static auto table = table_of(7, reg_mr_of_int, reg_mr);
  EXPECT_EQ(wrapped("ncclNetPlugin_v5", table)[8], table[8]);
}

TEST_F(NetPlugins, MemoryIsFreeWhereThePluginFails) {
  static auto table = table_of(7, reg_mr, reg_mr_sym_dma_buf);
  const Buffer buffer = allocate(1000);
  const uintptr_t* const copy = wrapped("ncclNetPlugin_v12", table);
  g_call.result = 3;

  auto* const call = reinterpret_cast<decltype(&reg_mr)>(copy[7]);
  EXPECT_EQ(call(nullptr, reinterpret_cast<void*>(buffer.address), 1000, 2, nullptr), 3);

  EXPECT_EQ(reason_of(buffer), nullptr);
}

// A pause may reach the memory meanwhile.
TEST_F(NetPlugins, MemoryIsNotReleasedDuringTheCall) {
  static auto table = table_of(7, reg_mr, reg_mr_sym_dma_buf);
  const Buffer buffer = allocate(1000);
  auto* const call = reinterpret_cast<decltype(&reg_mr)>(wrapped("ncclNetPlugin_v12", table)[7]);
  auto* const address = reinterpret_cast<void*>(buffer.address);
  const auto stays = [&] {
    MutexLock lock(registry_.mutex);
    const Backing& backing = registry_.backing_of(*registry_.find(allocation_of(buffer.handle)));
    return is_persistent(backing, registry_.allocations());
  };
  bool stays_during = false;
  g_during = [&] { stays_during = stays(); };

  g_call.result = 3;
  EXPECT_EQ(call(nullptr, address, 1000, 2, nullptr), 3);
  EXPECT_TRUE(stays_during);
  EXPECT_FALSE(stays());

  // One of two registrations at the same time fails.
  g_call.result = 0;
  bool is_nested = false;
  g_during = [&] {
    if (std::exchange(is_nested, true)) return;
    g_call.result = 3;
    EXPECT_EQ(call(nullptr, address, 1000, 2, nullptr), 3);
    stays_during = stays();
    g_call.result = 0;
  };
  EXPECT_EQ(call(nullptr, address, 1000, 2, nullptr), 0);
  EXPECT_TRUE(stays_during);
  EXPECT_TRUE(stays());
}

TEST_F(NetPlugins, WhatAPluginLeavesOutStaysEmpty) {
  static auto table = table_of<int(), int()>(7, nullptr, nullptr);

  const uintptr_t* const copy = wrapped("ncclNetPlugin_v12", table);

  EXPECT_EQ(copy[7], 0u);
  EXPECT_EQ(copy[8], 0u);
}

TEST_F(NetPlugins, ATableHasOneCopy) {
  static auto table = table_of(7, reg_mr, reg_mr_sym_dma_buf);

  EXPECT_EQ(wrapped("ncclNetPlugin_v12", table), wrapped("ncclNetPlugin_v12", table));
}

TEST_F(NetPlugins, ATableIsCopiedToItsLastMember) {
  static auto before = table_of(7, reg_mr, reg_mr), with_properties = table_of(8, reg_mr, reg_mr);
  EXPECT_EQ(wrapped("ncclRmaPlugin_v15", before)[20], before[20]);
  EXPECT_EQ(wrapped("ncclRmaPlugin_v16", with_properties)[21], with_properties[21]);
}

class UnknownNetPlugins : public NetPlugins, public testing::WithParamInterface<const char*> {};

TEST_P(UnknownNetPlugins, RefuseThePause) {
  std::array<uintptr_t, kMembers> table{};
  EXPECT_TRUE(registers_memory(GetParam()));

  EXPECT_EQ(wrapped(GetParam(), table), table.data());

  MutexLock lock(registry_.mutex);
  EXPECT_NE(registry_.refusal.find(GetParam()), std::string::npos) << registry_.refusal;
}

INSTANTIATE_TEST_SUITE_P(Newer, UnknownNetPlugins,
                         testing::Values("ncclNetPlugin_v13", "ncclCollNetPlugin_v13",
                                         "ncclGinPlugin_v15", "ncclRmaPlugin_v17"),
                         [](const auto& name) { return std::string(name.param); });

void* ibv_reg_mr(void*, void*, size_t size_bytes, int) {
  return size_bytes == 1000 ? &g_call : nullptr;
}
int gdr_pin_buffer(void*, unsigned long, size_t size_bytes, uint64_t token, uint32_t, void*) {
  g_call.offset = token;
  return size_bytes == 1000 ? 0 : -1;
}

TEST_F(NetPlugins, NicsAndGdrcopyKeepMemoryToo) {
  const Buffer first = allocate(1000), second = allocate(1000);
  const auto reg = reinterpret_cast<decltype(&ibv_reg_mr)>(
      registration_hook("ibv_reg_mr", reinterpret_cast<void*>(&ibv_reg_mr)));
  const auto pin = reinterpret_cast<decltype(&gdr_pin_buffer)>(
      registration_hook("gdr_pin_buffer", reinterpret_cast<void*>(&gdr_pin_buffer)));
  auto* const address = reinterpret_cast<void*>(first.address);

  EXPECT_EQ(reg(nullptr, address, 999, 0), nullptr);
  EXPECT_EQ(reason_of(first), nullptr);
  EXPECT_EQ(reg(nullptr, address, 1000, 0), &g_call);
  EXPECT_STREQ(reason_of(first), "registered with a NIC");
  EXPECT_EQ(pin(nullptr, second.address, 999, 0, 0, nullptr), -1);
  EXPECT_EQ(reason_of(second), nullptr);
  EXPECT_EQ(pin(nullptr, second.address, 1000, 7, 0, nullptr), 0);
  EXPECT_EQ(g_call.offset, 7u);
  EXPECT_STREQ(reason_of(second), "mapped for the CPU (gdrcopy)");
}

TEST(NetPluginNames, OthersAreNotTouched) {
  for (const char* name : {"ncclNetPlugin_v", "ncclNetPlugin_vX", "ncclNetPlugin_v8x",
                           "ncclTunerPlugin_v4", "ncclProfiler_v4", "ncclNet", "cuMemCreate"})
    EXPECT_FALSE(registers_memory(name)) << name;
}

}  // namespace
}  // namespace amem
