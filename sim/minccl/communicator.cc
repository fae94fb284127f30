// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/communicator.h"

#include <deque>
#include <utility>

#include "sim/minccl/allocator.h"

namespace amem::minccl {

ncclResult_t Communicator::async_error() const {
  ncclResult_t state = state_;
  return state == ncclSuccess ? ledger_->error.load() : state;
}

void Communicator::begin_in_background(std::function<ncclResult_t()> initialization) {
  join_background();
  state_ = ncclInProgress;
  background_ = std::thread([this, initialization = std::move(initialization)] {
    std::lock_guard lock(busy_);
    state_ = initialization();
  });
}

void Communicator::join_background() {
  if (background_.joinable()) background_.join();
}

ncclResult_t Communicator::check_pending() const {
  std::deque<size_t> sends;
  std::deque<size_t> recvs;
  for (const PendingOperation& operation : pending_)
    for (const PairWork& work : operation.pairs)
      if (work.peer == rank_)
        (work.direction == Direction::send ? sends : recvs).push_back(work.bytes);
  if (sends == recvs) return ncclSuccess;
  return fail(ncclInvalidUsage, "sends of rank %d to itself do not match its receives", rank_);
}

ncclResult_t Communicator::finalize() {
  Deadline deadline = Patience::begin().deadline;
  if (!ledger_->wait_idle(deadline))
    return fail(ncclSystemError, "kernels of rank %d have not ended within %ld ms", rank_,
                settings().timeout_ms);
  return ncclSuccess;
}

void Communicator::abort() {
  aborting_ = true;
  if (abort_flag_ != nullptr) std::atomic_ref(*abort_flag_).store(1, std::memory_order_release);
}

ncclResult_t Communicator::free_device_memory() {
  ncclResult_t result = ncclSuccess;
  auto keep_first = [&](ncclResult_t next) {
    if (result == ncclSuccess) result = next;
  };
  for (auto& [key, end] : ends_) keep_first(end->release());
  ends_.clear();
  keep_first(free_multicast_buffers());
  if (epochs_.on_device != nullptr) keep_first(ncclMemFree(epochs_.on_device));
  // Channels first, the communicator's own structures last.
  for (; !device_objects_.empty(); device_objects_.pop_back())
    keep_first(device_free(device_objects_.back()));
  return result;
}

ncclResult_t Communicator::free(FreeMode mode) {
  if (mode == FreeMode::abort) abort();
  MINCCL_TRY(finalize());
  ContextScope scope(context_);
  RelaxedCaptureScope relaxed;
  ncclResult_t result = free_device_memory();
  uds_.stop();
  if (side_stream_ != nullptr) driver().stream_destroy(side_stream_);
  if (last_kernel_ != nullptr) driver().event_destroy(last_kernel_);
  if (stream_joint_ != nullptr) driver().event_destroy(stream_joint_);
  if (abort_flag_ != nullptr) driver().mem_free_host(abort_flag_);
  log_info("comm %p rank %d nranks %d - Destroy COMPLETE", static_cast<void*>(this), rank_, ranks_);
  return result;
}

}  // namespace amem::minccl
