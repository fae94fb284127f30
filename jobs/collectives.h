// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <string>
#include <vector>

#include "jobs/device.h"
#include "nccl.h"

namespace jobs {

/// Throws std::runtime_error with the name of the call if `result` is not ncclSuccess.
void check_nccl(ncclResult_t result, const char* call);
#define JOB_NCCL(call) ::jobs::check_nccl(call, #call)

/// A communicator of a rank, with buffers for the largest count of its checks. Every check runs one
/// collective on new inputs into poisoned outputs and compares every element with its expected
/// value. Values are small integers, so that sums are exact in any order. A wrong element throws
/// std::runtime_error with the collective, the element and both values.
class Communicator {
 public:
  Communicator(ncclComm_t comm, int rank, int ranks, Stream stream)
      : comm_(comm), rank_(rank), ranks_(ranks), stream_(stream) {}
  ~Communicator();
  Communicator(const Communicator&) = delete;

  ncclComm_t get() const { return comm_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  /// The collectives of collectives.def, each with every count (floats for each rank).
  void check_all(const std::vector<size_t>& counts);
  void all_reduce(size_t count);
  void all_gather(size_t count);
  void reduce_scatter(size_t count);
  void broadcast(size_t count, int root);
  void all_to_all(size_t count);
  /// A ring: to the next rank, from the previous one.
  void send_recv(size_t count);
  /// The two halves of a message, each with its own wait: a small message is sent before it is
  /// received.
  void send(size_t count, int receiver);
  void receive(size_t count, int sender);

  /// The sum of `mine` (a small integer) over all ranks, which lets the ranks agree on a value.
  int sum(int mine);

  /// Captures one all_reduce into a CUDA graph. replay() runs it on new inputs and checks the
  /// result.
  void capture(size_t count);
  void replay();
  /// capture() in two parts, for calls during a capture.
  void begin_capture(size_t count);
  void end_capture();
  /// A new stream takes the place of the stream, which is destroyed.
  void replace_stream();

  /// The collectives of check_all(), queued and waited for without a check. Frees the buffers, so
  /// that the remaining memory on the device is NCCL's.
  void use_all(const std::vector<size_t>& counts);

  /// Queues a collective of collectives.def `repeats` times without a check, for load and timing.
  /// Returns the seconds until they are complete. The warm-ups before them are not timed and
  /// synchronize the ranks.
  double time(const std::string& collective, size_t count, int repeats, int warm_ups = 0);
  /// Makes the buffers large enough for every collective with this number of floats.
  void make_buffers(size_t count);
  /// One all_reduce, without a wait.
  void enqueue_all_reduce(size_t count);

 private:
  struct Collective;
  static const Collective kCollectives[];
  /// Throws std::runtime_error for an unknown name.
  static const Collective& collective(const std::string& name);

  void enqueue_all_gather(size_t count);
  void enqueue_reduce_scatter(size_t count);
  void enqueue_broadcast(size_t count);
  void enqueue_broadcast_of(int root, size_t count);
  void enqueue_all_to_all(size_t count);
  void enqueue_send_recv(size_t count);
  void enqueue_send(Address from, size_t count, int receiver);
  void enqueue_receive(Address to, size_t count, int sender);
  /// check_nccl() after NCCL has started the call, which a communicator with blocking = 0 leaves to
  /// a thread of NCCL.
  void check_started(ncclResult_t result, const char* call) const;
  /// The root of broadcasts without a given root: each rank in turn.
  int root_of(size_t count) const { return static_cast<int>(count % static_cast<size_t>(ranks_)); }
  void reserve(size_t send_floats, size_t recv_floats);
  void release_buffers();
  void put_inputs(size_t floats);
  void put(size_t floats, auto input);
  void compare(const char* what, size_t floats, auto expected);
  float value(int rank, size_t index) const;
  static float value_in(unsigned round, int rank, size_t index);

  ncclComm_t comm_;
  int rank_, ranks_;
  Stream stream_;
  Address send_ = 0, recv_ = 0;
  size_t send_floats_ = 0, recv_floats_ = 0;
  std::vector<float> host_;
  unsigned round_ = 0;
  std::map<int, unsigned> sent_, received_;  ///< messages, by the other rank

  GraphExec graph_ = nullptr;
  Address graph_send_ = 0, graph_recv_ = 0;
  size_t graph_floats_ = 0;
};

}  // namespace jobs
