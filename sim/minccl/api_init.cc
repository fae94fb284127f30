// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <utility>
#include <vector>

#include "sim/minccl/api.h"

namespace amem::minccl {
namespace {

// The first fields of ncclConfig_t, the same since NCCL 2.14.
struct ConfigHead {
  size_t size_bytes;
  unsigned magic;
  unsigned version;
  int blocking;
};
constexpr unsigned kConfigMagic = 0xcafebeef;

ncclResult_t read_config(const ncclConfig_t* config, bool* blocking) {
  if (config == nullptr) return ncclSuccess;
  auto* head = reinterpret_cast<const ConfigHead*>(config);
  if (head->size_bytes < sizeof *head || head->magic != kConfigMagic)
    return fail(ncclInvalidArgument, "the ncclConfig_t was not initialized");
  if (head->blocking == INT_MIN) return ncclSuccess;  // NCCL_CONFIG_UNDEF_INT
  if (head->blocking != 0 && head->blocking != 1)
    return fail(ncclInvalidArgument, "ncclConfig_t.blocking is %d", head->blocking);
  *blocking = head->blocking == 1;
  return ncclSuccess;
}

ncclResult_t open(std::unique_ptr<ncclComm> comm, ncclComm** opened) {
  ncclResult_t result = comm->open();
  // What open() made before it failed goes first; should even that fail, it is left behind.
  if (result != ncclSuccess && comm->free(FreeMode::abort) == ncclSuccess) return result;
  *opened = comm.release();
  return result;
}

ncclResult_t begin_init(ncclComm_t* place, int ranks, const ncclUniqueId& id, int rank,
                        const ncclConfig_t* config) {
  if (place == nullptr || ranks < 1 || ranks > kMaxRanks || rank < 0 || rank >= ranks)
    return fail(ncclInvalidArgument, "rank %d of %d (1 to %d ranks)", rank, ranks, kMaxRanks);
  MINCCL_TRY(load_driver());
  RootAddress root{};
  memcpy(&root, id.internal, sizeof root);
  auto comm = std::make_unique<ncclComm>(rank, ranks);
  MINCCL_TRY(read_config(config, &comm->blocking));
  ncclComm* started = nullptr;
  MINCCL_TRY(open(std::move(comm), &started));
  *place = started;
  Group::current().add_initialization(nullptr, started, place,
                                      [started, root] { return started->init_root(root); });
  return ncclSuccess;
}

ncclResult_t begin_split(ncclComm_t parent, int color, int key, ncclComm_t* place,
                         const ncclConfig_t* config) {
  MINCCL_TRY(check_usable(parent));
  if (place == nullptr || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
    return fail(ncclInvalidArgument, "ncclCommSplit with colour %d", color);
  *place = nullptr;
  ncclComm* child = nullptr;
  if (color != NCCL_SPLIT_NOCOLOR) {
    auto comm = std::make_unique<ncclComm>(parent->rank(), parent->ranks());
    comm->blocking = parent->blocking;
    MINCCL_TRY(read_config(config, &comm->blocking));
    ContextScope scope(parent->context());
    MINCCL_TRY(open(std::move(comm), &child));
  }
  // The caller learns of the child when it is complete.
  Group::current().add_initialization(parent, child, place, [parent, color, key, child, place] {
    MINCCL_TRY(parent->split(color, key, child));
    std::atomic_ref(*place).store(child, std::memory_order_release);
    return ncclSuccess;
  });
  return ncclSuccess;
}

ncclResult_t begin_shrink(ncclComm_t parent, std::vector<int> excluded, ncclComm_t* place,
                          const ncclConfig_t* config) {
  MINCCL_TRY(check_usable(parent));
  if (place == nullptr ||
      std::find(excluded.begin(), excluded.end(), parent->rank()) != excluded.end())
    return fail(ncclInvalidArgument, "ncclCommShrink by a rank that is excluded");
  auto comm = std::make_unique<ncclComm>(parent->rank(), parent->ranks());
  comm->blocking = parent->blocking;
  MINCCL_TRY(read_config(config, &comm->blocking));
  ContextScope scope(parent->context());
  ncclComm* child = nullptr;
  MINCCL_TRY(open(std::move(comm), &child));
  *place = nullptr;
  Group::current().add_initialization(
      parent, child, place, [parent, excluded = std::move(excluded), child, place] {
        MINCCL_TRY(parent->shrink(excluded, child));
        std::atomic_ref(*place).store(child, std::memory_order_release);
        return ncclSuccess;
      });
  return ncclSuccess;
}

// One rank for each device of the list, with the device's primary context current.
ncclResult_t begin_init_all(ncclComm_t* comms, int devices, const int* list) {
  ncclUniqueId id;
  MINCCL_TRY(ncclGetUniqueId(&id));
  for (int rank = 0; rank < devices; ++rank) {
    CuDevice device = 0;
    CuContext context = nullptr;
    MINCCL_CU(device_get(&device, list == nullptr ? rank : list[rank]));
    MINCCL_CU(primary_context_retain(&context, device));
    ContextScope scope(context);
    MINCCL_TRY(begin_init(&comms[rank], devices, id, rank, nullptr));
  }
  return ncclSuccess;
}

ncclResult_t destroy(ncclComm_t comm, FreeMode mode) {
  if (comm == nullptr) return ncclSuccess;
  if (mode == FreeMode::abort) comm->abort();
  comm->join_background();
  {
    std::lock_guard lock(comm->busy());
    MINCCL_TRY(comm->free(mode));
  }
  delete comm;  // allow: NCCL hands communicators out as raw pointers
  return ncclSuccess;
}

}  // namespace
}  // namespace amem::minccl

using namespace amem::minccl;

MINCCL_API(ncclResult_t, ncclGetVersion, int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = settings().version;
  return ncclSuccess;
}

MINCCL_API(ncclResult_t, ncclGetUniqueId, ncclUniqueId* unique_id) {
  if (unique_id == nullptr) return fail(ncclInvalidArgument, "ncclGetUniqueId(NULL)");
  RootAddress root{};
  MINCCL_TRY(start_root(&root));
  static_assert(sizeof root <= sizeof unique_id->internal);
  memset(unique_id->internal, 0, sizeof unique_id->internal);
  memcpy(unique_id->internal, &root, sizeof root);
  return ncclSuccess;
}

MINCCL_API(const char*, ncclGetErrorString, ncclResult_t result) {
  static const char* const kTexts[] = {"no error",
                                       "unhandled cuda error",
                                       "unhandled system error",
                                       "internal error",
                                       "invalid argument",
                                       "invalid usage",
                                       "remote process exited or there was a network error",
                                       "in progress"};
  bool known = result >= ncclSuccess && result <= ncclInProgress;
  return known ? kTexts[result] : "unknown result code";
}

MINCCL_API(const char*, ncclGetLastError, ncclComm_t) { return last_error(); }

MINCCL_API(ncclResult_t, ncclCommInitRankConfig, ncclComm_t* comm, int ranks, ncclUniqueId id,
           int rank, ncclConfig_t* config) {
  Group::current().begin();
  return Group::current().end_call(begin_init(comm, ranks, id, rank, config));
}

MINCCL_API(ncclResult_t, ncclCommInitRank, ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  Group::current().begin();
  return Group::current().end_call(begin_init(comm, ranks, id, rank, nullptr));
}

MINCCL_API(ncclResult_t, ncclCommInitRankScalable, ncclComm_t* comm, int ranks, int rank, int ids,
           ncclUniqueId* id_list, ncclConfig_t* config) {
  if (id_list == nullptr || ids < 1) return fail(ncclInvalidArgument, "no unique id");
  Group::current().begin();
  return Group::current().end_call(begin_init(comm, ranks, id_list[0], rank, config));
}

MINCCL_API(ncclResult_t, ncclCommInitAll, ncclComm_t* comms, int devices, const int* device_list) {
  if (comms == nullptr || devices < 1) return fail(ncclInvalidArgument, "%d devices", devices);
  MINCCL_TRY(load_driver());
  Group::current().begin();
  return Group::current().end_call(begin_init_all(comms, devices, device_list));
}

MINCCL_API(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t* new_comm,
           ncclConfig_t* config) {
  Group::current().begin();
  const ncclResult_t result =
      Group::current().end_call(begin_split(comm, color, key, new_comm, config));
  // The parent has the state of the work in the background (init.cc, ncclCommSplit@v2.30.7-1).
  return result == ncclInProgress ? ncclSuccess : result;
}

MINCCL_API(ncclResult_t, ncclCommShrink, ncclComm_t comm, int* excluded, int count,
           ncclComm_t* new_comm, ncclConfig_t* config, int) {
  if (excluded == nullptr || count < 1) return fail(ncclInvalidArgument, "no rank is excluded");
  Group::current().begin();
  const ncclResult_t result = Group::current().end_call(
      begin_shrink(comm, std::vector(excluded, excluded + count), new_comm, config));
  return result == ncclInProgress ? ncclSuccess : result;
}

MINCCL_API(ncclResult_t, ncclCommFinalize, ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  comm->join_background();
  return comm->finalize();
}

MINCCL_API(ncclResult_t, ncclCommDestroy, ncclComm_t comm) {
  return destroy(comm, FreeMode::orderly);
}

MINCCL_API(ncclResult_t, ncclCommAbort, ncclComm_t comm) { return destroy(comm, FreeMode::abort); }

MINCCL_API(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t* async_error) {
  if (comm == nullptr || async_error == nullptr)
    return fail(ncclInvalidArgument, "ncclCommGetAsyncError: NULL argument");
  *async_error = comm->async_error();
  return ncclSuccess;
}

MINCCL_API(ncclResult_t, ncclCommCount, const ncclComm_t comm, int* count) {
  MINCCL_TRY(check_usable(comm));
  *count = comm->ranks();
  return ncclSuccess;
}

MINCCL_API(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int* device) {
  MINCCL_TRY(check_usable(comm));
  *device = comm->device();
  return ncclSuccess;
}

MINCCL_API(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int* rank) {
  MINCCL_TRY(check_usable(comm));
  *rank = comm->rank();
  return ncclSuccess;
}
