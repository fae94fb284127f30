// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/call_orders.h"

#include <dlfcn.h>

#include <map>
#include <stdexcept>

#include "jobs/by_name.h"
#include "jobs/non_blocking_config.h"

namespace jobs {

namespace {

using Arguments = CallOrders::Arguments;
using Call = ncclResult_t (*)(Arguments&);

constexpr size_t kCount = 16, kUserBytes = 2 << 20;
constexpr int kFloat = ncclFloat32, kSum = ncclSum;
constexpr void* kNoConfig = nullptr;

/// ncclSimInfo_t as NCCL wants it from its caller (nccl.h.in@v2.28.9-1).
struct SimulationInfo {
  size_t size_bytes = sizeof(SimulationInfo);
  unsigned magic = 0x74685283;
  unsigned version = 22809;
  float estimated_us = -1;
};

const std::pair<const char*, Call> kCollectives[] = {
    {"ncclAllReduce",
     [](Arguments& a) {
       return ncclAllReduce(a.buffer, a.buffer, kCount, ncclFloat32, ncclSum, a.comm, a.stream);
     }},
    {"ncclReduce",
     [](Arguments& a) {
       return ncclReduce(a.buffer, a.buffer, kCount, ncclFloat32, ncclSum, 0, a.comm, a.stream);
     }},
    {"ncclBroadcast",
     [](Arguments& a) {
       return ncclBroadcast(a.buffer, a.buffer, kCount, ncclFloat32, 0, a.comm, a.stream);
     }},
    {"ncclBcast",
     [](Arguments& a) { return ncclBcast(a.buffer, kCount, ncclFloat32, 0, a.comm, a.stream); }},
    {"ncclAllGather",
     [](Arguments& a) {
       return ncclAllGather(a.buffer, a.buffer, kCount, ncclFloat32, a.comm, a.stream);
     }},
    {"ncclReduceScatter",
     [](Arguments& a) {
       return ncclReduceScatter(a.buffer, a.buffer, kCount, ncclFloat32, ncclSum, a.comm, a.stream);
     }},
    {"ncclSend",
     [](Arguments& a) { return ncclSend(a.buffer, kCount, ncclFloat32, 0, a.comm, a.stream); }},
    {"ncclRecv",
     [](Arguments& a) { return ncclRecv(a.buffer, kCount, ncclFloat32, 0, a.comm, a.stream); }},
    {"ncclAlltoAll",
     [](Arguments& a) {
       return by_name("ncclAlltoAll", a.buffer, a.buffer, kCount, kFloat, a.comm, a.stream);
     }},
    {"ncclGather",
     [](Arguments& a) {
       return by_name("ncclGather", a.buffer, a.buffer, kCount, kFloat, 0, a.comm, a.stream);
     }},
    {"ncclScatter",
     [](Arguments& a) {
       return by_name("ncclScatter", a.buffer, a.buffer, kCount, kFloat, 0, a.comm, a.stream);
     }},
    {"ncclAllReduceConfig",
     [](Arguments& a) {
       return by_name("ncclAllReduceConfig", a.buffer, a.buffer, kCount, kFloat, kSum, a.comm,
                      a.stream, kNoConfig);
     }},
    {"ncclBroadcastConfig",
     [](Arguments& a) {
       return by_name("ncclBroadcastConfig", a.buffer, a.buffer, kCount, kFloat, 0, a.comm,
                      a.stream, kNoConfig);
     }},
    {"ncclReduceConfig",
     [](Arguments& a) {
       return by_name("ncclReduceConfig", a.buffer, a.buffer, kCount, kFloat, kSum, 0, a.comm,
                      a.stream, kNoConfig);
     }},
    {"ncclAllGatherConfig",
     [](Arguments& a) {
       return by_name("ncclAllGatherConfig", a.buffer, a.buffer, kCount, kFloat, a.comm, a.stream,
                      kNoConfig);
     }},
    {"ncclReduceScatterConfig",
     [](Arguments& a) {
       return by_name("ncclReduceScatterConfig", a.buffer, a.buffer, kCount, kFloat, kSum, a.comm,
                      a.stream, kNoConfig);
     }},
    {"ncclAlltoAllConfig",
     [](Arguments& a) {
       return by_name("ncclAlltoAllConfig", a.buffer, a.buffer, kCount, kFloat, a.comm, a.stream,
                      kNoConfig);
     }},
    {"ncclGatherConfig",
     [](Arguments& a) {
       return by_name("ncclGatherConfig", a.buffer, a.buffer, kCount, kFloat, 0, a.comm, a.stream,
                      kNoConfig);
     }},
    {"ncclScatterConfig",
     [](Arguments& a) {
       return by_name("ncclScatterConfig", a.buffer, a.buffer, kCount, kFloat, 0, a.comm, a.stream,
                      kNoConfig);
     }},
    {"ncclPutSignal",
     [](Arguments& a) {
       const size_t offset_bytes = 0;
       return by_name("ncclPutSignal", a.buffer, kCount, kFloat, 0, a.window, offset_bytes, 0, 0,
                      0u, a.comm, a.stream);
     }},
    {"ncclSignal",
     [](Arguments& a) { return by_name("ncclSignal", 0, 0, 0, 0u, a.comm, a.stream); }},
    {"ncclWaitSignal",
     [](Arguments& a) {
       int signals[] = {1, 0, 0, 0};  // one, of rank 0
       return by_name("ncclWaitSignal", 1, &signals[0], a.comm, a.stream);
     }},
    // Of minccl alone, in place of a function of a future NCCL.
    {"mincclUnknownAllReduce",
     [](Arguments& a) {
       return by_name("mincclUnknownAllReduce", a.buffer, size_t{kCount}, a.comm, a.stream);
     }},
    {"ncclGroupStart", [](Arguments&) { return ncclGroupStart(); }},
    {"ncclGroupEnd", [](Arguments&) { return ncclGroupEnd(); }},
    {"ncclGroupSimulateEnd",
     [](Arguments&) {
       SimulationInfo info;
       return by_name("ncclGroupSimulateEnd", &info);
     }},
};

const std::pair<const char*, Call> kCommunicators[] = {
    {"ncclGetUniqueId",
     [](Arguments&) {
       ncclUniqueId id;
       return ncclGetUniqueId(&id);
     }},
    {"ncclCommInitRank",
     [](Arguments&) {
       ncclComm_t made = nullptr;
       return ncclCommInitRank(&made, 1, ncclUniqueId{}, 0);
     }},
    {"ncclCommInitRankConfig",
     [](Arguments&) {
       ncclComm_t made = nullptr;
       NonBlockingConfig config;
       return ncclCommInitRankConfig(&made, 1, ncclUniqueId{}, 0,
                                     reinterpret_cast<ncclConfig_t*>(&config));
     }},
    {"ncclCommInitRankScalable",
     [](Arguments&) {
       ncclComm_t made = nullptr;
       ncclUniqueId id{};
       void* const config = nullptr;
       return by_name("ncclCommInitRankScalable", &made, 1, 0, 1, &id, config);
     }},
    {"ncclCommInitAll",
     [](Arguments&) {
       ncclComm_t made = nullptr;
       return ncclCommInitAll(&made, 1, nullptr);
     }},
    {"ncclCommSplit",
     [](Arguments& a) {
       ncclComm_t made = nullptr;
       return ncclCommSplit(a.comm, 0, 0, &made, nullptr);
     }},
    {"ncclCommShrink",
     [](Arguments& a) {
       ncclComm_t made = nullptr;
       int excluded = 1;
       void* const config = nullptr;
       return by_name("ncclCommShrink", a.comm, &excluded, 1, &made, config, 0);
     }},
    {"ncclCommGrow",
     [](Arguments& a) {
       ncclComm_t made = nullptr;
       void *const id = nullptr, *const config = nullptr;
       return by_name("ncclCommGrow", a.comm, 3, id, -1, &made, config);
     }},
    {"ncclCommCount",
     [](Arguments& a) {
       int count = 0;
       return ncclCommCount(a.comm, &count);
     }},
    {"ncclCommCuDevice",
     [](Arguments& a) {
       int device = 0;
       return ncclCommCuDevice(a.comm, &device);
     }},
    {"ncclCommUserRank",
     [](Arguments& a) {
       int rank = 0;
       return ncclCommUserRank(a.comm, &rank);
     }},
    {"ncclCommGetAsyncError",
     [](Arguments& a) {
       ncclResult_t state = ncclSuccess;
       return ncclCommGetAsyncError(a.comm, &state);
     }},
};

const std::pair<const char*, Call> kMemory[] = {
    {"ncclMemAlloc", [](Arguments& a) { return ncclMemAlloc(&a.user_memory, kUserBytes); }},
    {"ncclMemFree", [](Arguments& a) { return ncclMemFree(a.user_memory); }},
    {"ncclCommRegister",
     [](Arguments& a) {
       return by_name("ncclCommRegister", a.comm, a.user_memory, kUserBytes, &a.registration);
     }},
    {"ncclCommDeregister",
     [](Arguments& a) { return by_name("ncclCommDeregister", a.comm, a.registration); }},
    {"ncclCommWindowRegister",
     [](Arguments& a) {
       return by_name("ncclCommWindowRegister", a.comm, a.user_memory, kUserBytes, &a.window, 0);
     }},
    {"ncclCommWindowDeregister",
     [](Arguments& a) { return by_name("ncclCommWindowDeregister", a.comm, a.window); }},
};

const std::map<std::string, Call>& calls() {
  static const std::map<std::string, Call> all = [] {
    std::map<std::string, Call> by_function;
    by_function.insert(std::begin(kCollectives), std::end(kCollectives));
    by_function.insert(std::begin(kCommunicators), std::end(kCommunicators));
    by_function.insert(std::begin(kMemory), std::end(kMemory));
    return by_function;
  }();
  return all;
}

}  // namespace

Orders CallOrders::orders() {
  return {{"call", [this](Words& words) { return call(words); }}};
}

std::string CallOrders::call(Words& words) {
  std::string function, communicator;
  words >> function >> communicator;
  const auto found = calls().find(function);
  if (found == calls().end()) throw std::runtime_error("no call of " + function + " is known");
  arguments_.comm = communicators_.handle(communicator);
  arguments_.stream = communicators_.stream();
  if (arguments_.buffer == nullptr) {
    constexpr size_t kBufferBytes = 64 << 10;  // kCount floats of more ranks than there are
    Address address = 0;
    JOB_CUDA(mem_alloc(&address, kBufferBytes));
    arguments_.buffer = reinterpret_cast<void*>(address);
  }
  check_nccl(found->second(arguments_), function.c_str());
  return "";
}

}  // namespace jobs
