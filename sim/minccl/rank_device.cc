// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/rank_device.h"

#include <dlfcn.h>
#include <poll.h>

#include <cstdlib>

#include "base/deadline.h"

namespace amem::minccl {
namespace {

template <typename Function>
void find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr) fail_rank("libcuda.so.1 has no %s", name);
}

TestDriver load_test_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) fail_rank("%s", dlerror());
  TestDriver driver{};
  find(library, "cuInit", &driver.init);
  find(library, "cuDeviceGetCount", &driver.device_get_count);
  find(library, "cuDevicePrimaryCtxRetain", &driver.primary_context_retain);
  find(library, "cuCtxSetCurrent", &driver.context_set_current);
  find(library, "cuCtxGetLimit", &driver.context_get_limit);
  find(library, "cuMemAlloc_v2", &driver.mem_alloc);
  find(library, "cuMemFree_v2", &driver.mem_free);
  find(library, "cuMemcpyHtoD_v2", &driver.copy_to_device);
  find(library, "cuMemcpyDtoH_v2", &driver.copy_to_host);
  find(library, "cuStreamCreate", &driver.stream_create);
  find(library, "cuStreamDestroy_v2", &driver.stream_destroy);
  find(library, "cuStreamSynchronize", &driver.stream_synchronize);
  find(library, "cuStreamQuery", &driver.stream_query);
  find(library, "cuStreamBeginCapture_v2", &driver.begin_capture);
  find(library, "cuStreamEndCapture", &driver.end_capture);
  find(library, "cuGraphInstantiateWithFlags", &driver.graph_instantiate);
  find(library, "cuGraphLaunch", &driver.graph_launch);
  find(library, "cuGraphDestroy", &driver.graph_destroy);
  find(library, "cuGraphExecDestroy", &driver.graph_exec_destroy);
  find(library, "amemSimUsedBytes", &driver.used_bytes);
  return driver;
}

}  // namespace

const TestDriver& test_driver() {
  static const TestDriver driver = load_test_driver();
  return driver;
}

void check_driver(CuResult code, const char* what) {
  if (code != kSuccess) fail_rank("%s: driver error %d", what, code);
}

void check_nccl(ncclResult_t result, const char* what) {
  if (result != ncclSuccess)
    fail_rank("%s: %s: %s", what, ncclGetErrorString(result), ncclGetLastError(nullptr));
}

void use_device(int device) {
  CuContext context = nullptr;
  CHECK_DRIVER(init(0));
  CHECK_DRIVER(primary_context_retain(&context, device));
  CHECK_DRIVER(context_set_current(context));
}

void use_device_of(int rank) {
  CHECK_DRIVER(init(0));
  int devices = 0;
  CHECK_DRIVER(device_get_count(&devices));
  const char* wanted = getenv("MINCCL_TEST_DEVICE");
  use_device(wanted == nullptr ? rank % devices : atoi(wanted));
}

ncclComm_t make_communicator(RankContext& context) {
  ncclUniqueId id{};
  if (context.rank() == 0) CHECK_NCCL(ncclGetUniqueId(&id));
  std::vector<char> ids = context.exchange(&id, sizeof id);
  memcpy(&id, ids.data(), sizeof id);
  ncclComm_t comm = nullptr;
  CHECK_NCCL(ncclCommInitRank(&comm, context.ranks(), id, context.rank()));
  return comm;
}

bool TestStream::ends_within(long timeout_ms) const {
  Deadline deadline = Deadline::after_ms(timeout_ms);
  while (true) {
    CuResult code = test_driver().stream_query(stream_);
    if (code == kSuccess) return true;
    if (code != kErrorNotReady) check_driver(code, "cuStreamQuery");
    if (deadline.passed()) return false;
    poll(nullptr, 0, 1);
  }
}

void check_all_reduce(ncclComm_t comm, int rank, int ranks, size_t size, const TestStream& stream) {
  DeviceArray<float> send(numbers_of<float>(rank, size));
  DeviceArray<float> recv(size);
  CHECK_NCCL(ncclAllReduce(send.get(), recv.get(), size, ncclFloat32, ncclSum, comm, stream.get()));
  stream.synchronize();
  recv.expect(sums_of<float>(ranks, size), "AllReduce");
}

}  // namespace amem::minccl
