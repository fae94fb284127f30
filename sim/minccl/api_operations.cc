// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <utility>

#include "sim/minccl/api.h"
#include "sim/minccl/reduction.h"

namespace amem::minccl {
namespace {

ncclResult_t check_type(ncclDataType_t type) {
  return element_bytes(type) == 0 ? fail(ncclInvalidArgument, "data type %d", type) : ncclSuccess;
}

ncclResult_t check_reduction(const CollectiveWork& work) {
  bool reduces = work.kind == CollectiveKind::all_reduce || work.kind == CollectiveKind::reduce ||
                 work.kind == CollectiveKind::reduce_scatter;
  if (!reduces || reduce_function(work.type, work.op) != nullptr) return ncclSuccess;
  return fail(ncclInvalidArgument, "operation %d on data type %d is not simulated", work.op,
              work.type);
}

ncclResult_t check_peer(const ncclComm* comm, int peer) {
  if (peer >= 0 && peer < comm->ranks()) return ncclSuccess;
  return fail(ncclInvalidArgument, "rank %d of %d", peer, comm->ranks());
}

ncclResult_t add_operation(ncclComm_t comm, PendingOperation operation) {
  MINCCL_TRY(comm->ask_about_capture(operation.stream));
  Group::current().add_operation(comm, std::move(operation));
  return ncclSuccess;
}

ncclResult_t enqueue_collective(CollectiveWork work, ncclComm_t comm, amemStream_t stream) {
  MINCCL_TRY(check_usable(comm));
  MINCCL_TRY(check_type(work.type));
  MINCCL_TRY(check_reduction(work));
  MINCCL_TRY(check_peer(comm, work.root));
  if (work.count == 0) return ncclSuccess;  // as NCCL, which looks at nothing else then
  work.protocol = protocol_for(work.count * element_bytes(work.type));
  PendingOperation operation;
  operation.stream = stream;
  operation.collectives.push_back(work);
  return add_operation(comm, std::move(operation));
}

ncclResult_t run_collective_call(CollectiveWork work, ncclComm_t comm, amemStream_t stream) {
  Group::current().begin();
  return Group::current().end_call(enqueue_collective(work, comm, stream));
}

CollectiveWork work_of(CollectiveKind kind, const void* send, void* recv, size_t count,
                       ncclDataType_t type) {
  return {kind,
          static_cast<const std::byte*>(send),
          static_cast<std::byte*>(recv),
          count,
          type,
          ncclSum,
          0,
          Protocol::simple};
}

ncclResult_t enqueue_pair(Direction direction, void* data, size_t bytes, int peer, ncclComm_t comm,
                          amemStream_t stream) {
  MINCCL_TRY(check_peer(comm, peer));
  PendingOperation operation;
  operation.stream = stream;
  if (bytes > 0) operation.pairs.push_back({direction, peer, static_cast<std::byte*>(data), bytes});
  return add_operation(comm, std::move(operation));
}

ncclResult_t check_pair(ncclComm_t comm, ncclDataType_t type) {
  MINCCL_TRY(check_usable(comm));
  return check_type(type);
}

ncclResult_t enqueue_all_to_all(const void* send, void* recv, size_t block_bytes, ncclComm_t comm,
                                amemStream_t stream) {
  PendingOperation operation;
  operation.stream = stream;
  operation.all_to_all = true;
  auto* from = static_cast<std::byte*>(const_cast<void*>(send));
  auto* to = static_cast<std::byte*>(recv);
  for (int peer = 0; peer < comm->ranks() && block_bytes > 0; ++peer) {
    operation.pairs.push_back({Direction::send, peer, from + peer * block_bytes, block_bytes});
    operation.pairs.push_back({Direction::recv, peer, to + peer * block_bytes, block_bytes});
  }
  return add_operation(comm, std::move(operation));
}

}  // namespace
}  // namespace amem::minccl

using namespace amem::minccl;

MINCCL_API(ncclResult_t, ncclAllReduce, const void* send, void* recv, size_t count,
           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, amemStream_t stream) {
  CollectiveWork work = work_of(CollectiveKind::all_reduce, send, recv, count, type);
  work.op = op;
  return run_collective_call(work, comm, stream);
}

extern "C" [[gnu::visibility("default")]] ncclResult_t mincclUnknownAllReduce(void* buffer,
                                                                              size_t count,
                                                                              ncclComm_t comm,
                                                                              amemStream_t stream) {
  CollectiveWork work = work_of(CollectiveKind::all_reduce, buffer, buffer, count, ncclFloat32);
  work.op = ncclSum;
  return run_collective_call(work, comm, stream);
}

MINCCL_API(ncclResult_t, ncclReduce, const void* send, void* recv, size_t count,
           ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm, amemStream_t stream) {
  CollectiveWork work = work_of(CollectiveKind::reduce, send, recv, count, type);
  work.op = op;
  work.root = root;
  return run_collective_call(work, comm, stream);
}

MINCCL_API(ncclResult_t, ncclBroadcast, const void* send, void* recv, size_t count,
           ncclDataType_t type, int root, ncclComm_t comm, amemStream_t stream) {
  CollectiveWork work = work_of(CollectiveKind::broadcast, send, recv, count, type);
  work.root = root;
  return run_collective_call(work, comm, stream);
}

MINCCL_API(ncclResult_t, ncclBcast, void* buffer, size_t count, ncclDataType_t type, int root,
           ncclComm_t comm, amemStream_t stream) {
  CollectiveWork work = work_of(CollectiveKind::broadcast, buffer, buffer, count, type);
  work.root = root;
  return run_collective_call(work, comm, stream);
}

MINCCL_API(ncclResult_t, ncclAllGather, const void* send, void* recv, size_t send_count,
           ncclDataType_t type, ncclComm_t comm, amemStream_t stream) {
  return run_collective_call(work_of(CollectiveKind::all_gather, send, recv, send_count, type),
                             comm, stream);
}

MINCCL_API(ncclResult_t, ncclReduceScatter, const void* send, void* recv, size_t recv_count,
           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, amemStream_t stream) {
  CollectiveWork work = work_of(CollectiveKind::reduce_scatter, send, recv, recv_count, type);
  work.op = op;
  return run_collective_call(work, comm, stream);
}

MINCCL_API(ncclResult_t, ncclSend, const void* send, size_t count, ncclDataType_t type, int peer,
           ncclComm_t comm, amemStream_t stream) {
  MINCCL_TRY(check_pair(comm, type));
  Group::current().begin();
  return Group::current().end_call(enqueue_pair(Direction::send, const_cast<void*>(send),
                                                count * element_bytes(type), peer, comm, stream));
}

MINCCL_API(ncclResult_t, ncclRecv, void* recv, size_t count, ncclDataType_t type, int peer,
           ncclComm_t comm, amemStream_t stream) {
  MINCCL_TRY(check_pair(comm, type));
  Group::current().begin();
  return Group::current().end_call(
      enqueue_pair(Direction::recv, recv, count * element_bytes(type), peer, comm, stream));
}

MINCCL_API(ncclResult_t, ncclAlltoAll, const void* send, void* recv, size_t count,
           ncclDataType_t type, ncclComm_t comm, amemStream_t stream) {
  MINCCL_TRY(check_pair(comm, type));
  Group::current().begin();
  return Group::current().end_call(
      enqueue_all_to_all(send, recv, count * element_bytes(type), comm, stream));
}

MINCCL_API(ncclResult_t, ncclGroupStart) {
  Group::current().begin();
  return ncclSuccess;
}

MINCCL_API(ncclResult_t, ncclGroupEnd) { return Group::current().end(); }

MINCCL_API(ncclResult_t, ncclGroupSimulateEnd, void*) { return Group::current().end_simulated(); }
