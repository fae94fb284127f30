// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/collectives.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>

namespace jobs {

struct Communicator::Collective {
  const char* name;
  void (Communicator::*enqueue)(size_t count);
};

const Communicator::Collective Communicator::kCollectives[] = {
#define COLLECTIVE(name) {#name, &Communicator::enqueue_##name},
#include "jobs/collectives.def"
#undef COLLECTIVE
};

void check_nccl(ncclResult_t result, const char* call) {
  if (result != ncclSuccess)
    throw std::runtime_error(std::string(call) + " failed: " + ncclGetErrorString(result) + ": " +
                             ncclGetLastError(nullptr));
}

void Communicator::check_started(ncclResult_t result, const char* call) const {
  while (result == ncclInProgress) JOB_NCCL(ncclCommGetAsyncError(comm_, &result));
  check_nccl(result, call);
}

// ncclCommDestroy() waits until no graph has work of the communicator (init.cc@v2.30.7-1).
Communicator::~Communicator() {
  release_buffers();
  if (graph_ == nullptr) return;
  device_calls().graph_exec_destroy(graph_);
  device_calls().mem_free(graph_send_);
  device_calls().mem_free(graph_recv_);
}

void Communicator::release_buffers() {
  if (send_ != 0) device_calls().mem_free(send_);
  if (recv_ != 0) device_calls().mem_free(recv_);
  send_ = recv_ = 0;
  send_floats_ = recv_floats_ = 0;
}

float Communicator::value(int rank, size_t index) const { return value_in(round_, rank, index); }

float Communicator::value_in(unsigned round, int rank, size_t index) {
  return static_cast<float>((index * 7 + static_cast<size_t>(rank) * 13 + round * 31) % 97);
}

void Communicator::reserve(size_t send_floats, size_t recv_floats) {
  // Work that was enqueued without being waited for may still use the buffers.
  JOB_CUDA(stream_synchronize(stream_));
  const auto grow = [](Address* address, size_t* have, size_t want) {
    if (*have >= want) return;
    if (*address != 0) JOB_CUDA(mem_free(*address));
    JOB_CUDA(mem_alloc(address, want * sizeof(float)));
    *have = want;
  };
  grow(&send_, &send_floats_, send_floats);
  grow(&recv_, &recv_floats_, recv_floats);
  ++round_;
  JOB_CUDA(fill8(recv_, 0xCD, recv_floats * sizeof(float)));
}

void Communicator::put_inputs(size_t floats) {
  put(floats, [this](size_t i) { return value(rank_, i); });
}

void Communicator::put(size_t floats, auto input) {
  host_.resize(floats);
  for (size_t i = 0; i < floats; ++i) host_[i] = input(i);
  JOB_CUDA(to_device(send_, host_.data(), floats * sizeof(float)));
  // Neither the copy from pageable memory nor the fill before it need be complete when they return
  // (CUDA Driver API, "API synchronization behavior"), and our stream does not wait for theirs.
  JOB_CUDA(stream_synchronize(nullptr));
}

void Communicator::compare(const char* what, size_t floats, auto expected) {
  JOB_CUDA(stream_synchronize(stream_));
  host_.resize(floats);
  JOB_CUDA(to_host(host_.data(), recv_, floats * sizeof(float)));
  for (size_t i = 0; i < floats; ++i) {
    const float want = expected(i);
    if (host_[i] == want) continue;
    throw std::runtime_error(std::string(what) + " of rank " + std::to_string(rank_) +
                             ": element " + std::to_string(i) + " of " + std::to_string(floats) +
                             " is " + std::to_string(host_[i]) + " instead of " +
                             std::to_string(want));
  }
}

void Communicator::all_reduce(size_t count) {
  reserve(count, count);
  put_inputs(count);
  enqueue_all_reduce(count);
  compare("all_reduce", count, [&](size_t i) {
    float sum = 0;
    for (int r = 0; r < ranks_; ++r) sum += value(r, i);
    return sum;
  });
}

int Communicator::sum(int mine) {
  reserve(1, 1);
  const auto value = static_cast<float>(mine);
  JOB_CUDA(to_device(send_, &value, sizeof value));
  JOB_CUDA(stream_synchronize(nullptr));  // see put()
  enqueue_all_reduce(1);
  JOB_CUDA(stream_synchronize(stream_));
  float total = 0;
  JOB_CUDA(to_host(&total, recv_, sizeof total));
  return static_cast<int>(total);
}

void Communicator::all_gather(size_t count) {
  const size_t all = count * static_cast<size_t>(ranks_);
  reserve(count, all);
  put_inputs(count);
  enqueue_all_gather(count);
  compare("all_gather", all,
          [&](size_t i) { return value(static_cast<int>(i / count), i % count); });
}

void Communicator::reduce_scatter(size_t count) {
  const size_t all = count * static_cast<size_t>(ranks_);
  reserve(all, count);
  put_inputs(all);
  enqueue_reduce_scatter(count);
  compare("reduce_scatter", count, [&](size_t i) {
    float sum = 0;
    for (int r = 0; r < ranks_; ++r) sum += value(r, i + count * static_cast<size_t>(rank_));
    return sum;
  });
}

void Communicator::broadcast(size_t count, int root) {
  reserve(count, count);
  put_inputs(count);
  enqueue_broadcast_of(root, count);
  compare("broadcast", count, [&](size_t i) { return value(root, i); });
}

void Communicator::all_to_all(size_t count) {
  const size_t all = count * static_cast<size_t>(ranks_);
  reserve(all, all);
  put_inputs(all);
  enqueue_all_to_all(count);
  compare("all_to_all", all, [&](size_t i) {
    return value(static_cast<int>(i / count), i % count + count * static_cast<size_t>(rank_));
  });
}

void Communicator::send_recv(size_t count) {
  const int previous = (rank_ + ranks_ - 1) % ranks_;
  reserve(count, count);
  put_inputs(count);
  enqueue_send_recv(count);
  compare("send_recv", count, [&](size_t i) { return value(previous, i); });
}

void Communicator::send(size_t count, int receiver) {
  reserve(count, count);
  const unsigned message = ++sent_[receiver];
  put(count, [&](size_t i) { return value_in(message, rank_, i); });
  enqueue_send(send_, count, receiver);
  JOB_CUDA(stream_synchronize(stream_));
}

void Communicator::receive(size_t count, int sender) {
  reserve(count, count);
  JOB_CUDA(stream_synchronize(nullptr));  // see put()
  const unsigned message = ++received_[sender];
  enqueue_receive(recv_, count, sender);
  compare("receive", count, [&](size_t i) { return value_in(message, sender, i); });
}

void Communicator::check_all(const std::vector<size_t>& counts) {
  for (size_t count : counts) {
    all_reduce(count);
    all_gather(count);
    reduce_scatter(count);
    broadcast(count, root_of(count));
    all_to_all(count);
    send_recv(count);
  }
}

void Communicator::enqueue_all_reduce(size_t count) {
  check_started(ncclAllReduce(reinterpret_cast<void*>(send_), reinterpret_cast<void*>(recv_), count,
                              ncclFloat32, ncclSum, comm_, stream_),
                "ncclAllReduce");
}

void Communicator::enqueue_all_gather(size_t count) {
  check_started(ncclAllGather(reinterpret_cast<void*>(send_), reinterpret_cast<void*>(recv_), count,
                              ncclFloat32, comm_, stream_),
                "ncclAllGather");
}

void Communicator::enqueue_reduce_scatter(size_t count) {
  check_started(ncclReduceScatter(reinterpret_cast<void*>(send_), reinterpret_cast<void*>(recv_),
                                  count, ncclFloat32, ncclSum, comm_, stream_),
                "ncclReduceScatter");
}

void Communicator::enqueue_broadcast(size_t count) { enqueue_broadcast_of(root_of(count), count); }

void Communicator::enqueue_broadcast_of(int root, size_t count) {
  check_started(ncclBroadcast(reinterpret_cast<void*>(send_), reinterpret_cast<void*>(recv_), count,
                              ncclFloat32, root, comm_, stream_),
                "ncclBroadcast");
}

void Communicator::enqueue_all_to_all(size_t count) {
  check_started(ncclGroupStart(), "ncclGroupStart");
  for (int peer = 0; peer < ranks_; ++peer) {
    const size_t offset = count * static_cast<size_t>(peer) * sizeof(float);
    enqueue_send(send_ + offset, count, peer);
    enqueue_receive(recv_ + offset, count, peer);
  }
  check_started(ncclGroupEnd(), "ncclGroupEnd");
}

void Communicator::enqueue_send_recv(size_t count) {
  check_started(ncclGroupStart(), "ncclGroupStart");
  enqueue_send(send_, count, (rank_ + 1) % ranks_);
  enqueue_receive(recv_, count, (rank_ + ranks_ - 1) % ranks_);
  check_started(ncclGroupEnd(), "ncclGroupEnd");
}

void Communicator::enqueue_send(Address from, size_t count, int receiver) {
  check_started(
      ncclSend(reinterpret_cast<void*>(from), count, ncclFloat32, receiver, comm_, stream_),
      "ncclSend");
}

void Communicator::enqueue_receive(Address to, size_t count, int sender) {
  check_started(ncclRecv(reinterpret_cast<void*>(to), count, ncclFloat32, sender, comm_, stream_),
                "ncclRecv");
}

void Communicator::use_all(const std::vector<size_t>& counts) {
  make_buffers(*std::max_element(counts.begin(), counts.end()));
  // What NCCL holds afterwards must look as after a job: zeros would cost a pause nothing.
  JOB_CUDA(fill8(send_, 0x3c, send_floats_ * sizeof(float)));
  JOB_CUDA(stream_synchronize(nullptr));  // see put()
  for (size_t count : counts)
    for (const Collective& each : kCollectives) (this->*each.enqueue)(count);
  JOB_CUDA(stream_synchronize(stream_));
  release_buffers();
}

const Communicator::Collective& Communicator::collective(const std::string& name) {
  for (const Collective& each : kCollectives)
    if (name == each.name) return each;
  throw std::runtime_error("there is no collective " + name);
}

void Communicator::make_buffers(size_t count) {
  const size_t all = count * static_cast<size_t>(ranks_);
  reserve(all, all);
}

double Communicator::time(const std::string& name, size_t count, int repeats, int warm_ups) {
  make_buffers(count);
  const auto enqueue = collective(name).enqueue;
  for (int i = 0; i < warm_ups; ++i) (this->*enqueue)(count);
  JOB_CUDA(stream_synchronize(stream_));
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) (this->*enqueue)(count);
  JOB_CUDA(stream_synchronize(stream_));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Communicator::capture(size_t count) {
  begin_capture(count);
  end_capture();
}

void Communicator::begin_capture(size_t count) {
  graph_floats_ = count;
  JOB_CUDA(mem_alloc(&graph_send_, count * sizeof(float)));
  JOB_CUDA(mem_alloc(&graph_recv_, count * sizeof(float)));
  constexpr int kThreadLocal = 1;
  JOB_CUDA(begin_capture(stream_, kThreadLocal));
  const ncclResult_t result =
      ncclAllReduce(reinterpret_cast<void*>(graph_send_), reinterpret_cast<void*>(graph_recv_),
                    count, ncclFloat32, ncclSum, comm_, stream_);
  if (result == ncclSuccess) return;
  Graph graph = nullptr;
  JOB_CUDA(end_capture(stream_, &graph));
  JOB_NCCL(result);
}

void Communicator::end_capture() {
  Graph graph = nullptr;
  JOB_CUDA(end_capture(stream_, &graph));
  JOB_CUDA(graph_instantiate(&graph_, graph, 0));
  JOB_CUDA(graph_destroy(graph));
}

void Communicator::replace_stream() {
  constexpr unsigned kNonBlocking = 1;
  Stream const before = stream_;
  JOB_CUDA(stream_create(&stream_, kNonBlocking));
  JOB_CUDA(stream_destroy(before));
}

void Communicator::replay() {
  if (graph_ == nullptr) throw std::runtime_error("no graph was captured");
  std::swap(send_, graph_send_);
  std::swap(recv_, graph_recv_);
  ++round_;
  JOB_CUDA(fill8(recv_, 0xCD, graph_floats_ * sizeof(float)));
  put_inputs(graph_floats_);
  if (const int refused = device_calls().graph_launch(graph_, stream_); refused != 0) {
    std::swap(send_, graph_send_);
    std::swap(recv_, graph_recv_);
    --round_;
    check_cuda(refused, "cuGraphLaunch");
  }
  const size_t floats = graph_floats_;
  const auto expected = [&](size_t i) {
    float sum = 0;
    for (int r = 0; r < ranks_; ++r) sum += value(r, i);
    return sum;
  };
  try {
    compare("graph replay", floats, expected);
  } catch (...) {
    std::swap(send_, graph_send_);
    std::swap(recv_, graph_recv_);
    throw;
  }
  std::swap(send_, graph_send_);
  std::swap(recv_, graph_recv_);
}

}  // namespace jobs
