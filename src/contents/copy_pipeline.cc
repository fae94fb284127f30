// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/copy_pipeline.h"

#include <atomic>

namespace amem {

/// The transfers of one device and the jobs on its thread. There is one job for each transfer,
/// which ends when the transfer before it is complete, and a last job, which ends when all
/// transfers are complete.
struct CopyPipeline::DeviceQueue {
  explicit DeviceQueue(Copier& of_device) : copier(of_device) {}

  Status begin(const Transfer& transfer);
  Status end();

  Copier& copier;
  std::atomic<bool> stopped{false};

  // Used by the caller:
  std::vector<DeviceThreads::Started> jobs;
  size_t ended = 0;  ///< jobs that the caller has waited for

  // Used by the device's thread:
  std::vector<Transfer> transfers;
  Status failure = ok_status();
};

Status CopyPipeline::DeviceQueue::begin(const Transfer& transfer) {
  if (!failure.ok()) return failure;
  // A resume with a short deadline fills one backing or buffer, so that many of them end.
  if (stopped && (copier.direction == CopyDirection::to_host || !transfers.empty()))
    return Copier::cancelled();
  transfers.push_back(transfer);
  failure = copier.queue(transfer, stopped);
  if (failure.ok()) failure = copier.wait_for_previous();
  return failure;
}

// Also after an error: queued copies continue, and their memory must remain.
Status CopyPipeline::DeviceQueue::end() {
  Status idle = copier.wait_for_all();
  for (const Transfer& transfer : transfers)
    if (transfer.in_file.file != nullptr) transfer.in_file.file->sync();
  transfers.clear();
  return idle;
}

void CopyPipeline::add(Transfer transfer) {
  const int device = transfer.device;
  std::shared_ptr<DeviceQueue>& queue = queues_[device];
  if (queue == nullptr) queue = std::make_shared<DeviceQueue>(copiers_.of(device));
  const bool to_host = queue->copier.direction == CopyDirection::to_host;
  places_[transfer.backing] = {device, queue->jobs.size(),
                               to_host ? transfer.in_file.file : nullptr};
  queue->jobs.push_back(devices_.start({{device, [queue = queue, transfer = std::move(transfer)] {
                                           return queue->begin(transfer);
                                         }}}));
}

void CopyPipeline::finish() {
  if (std::exchange(finished_, true)) return;
  for (auto& [device, queue] : queues_)
    queue->jobs.push_back(devices_.start({{device, [queue = queue] { return queue->end(); }}}));
}

void CopyPipeline::stop() {
  for (auto& [device, queue] : queues_) queue->stopped = true;
  finish();
}

Status CopyPipeline::wait_for(BackingId backing, Deadline deadline) {
  const auto place = places_.find(backing);
  if (place == places_.end()) return ok_status();
  const auto& [device, number, file] = place->second;
  CopyPipeline::DeviceQueue& queue = *queues_.at(device);
  // The job of the transfer has started it, and the next job has waited for it. The last job makes
  // the file durable.
  Status copied = wait_for_jobs(queue, file == nullptr ? number + 2 : queue.jobs.size(), deadline);
  if (file == nullptr) return copied;
  if (copied.ok()) return file->wait_until_durable(deadline);
  if (copied.error().kind == ErrorKind::timeout)
    copied.error().message += " to a file in " + file->directory();
  return copied;
}

// Waits for each job: a job that could not start has made no transfer, and later jobs do not know.
Status CopyPipeline::wait_for_jobs(DeviceQueue& queue, size_t count, Deadline deadline) {
  for (; queue.ended < count; ++queue.ended)
    AMEM_TRY(DeviceThreads::wait(queue.jobs[queue.ended], "copying", deadline));
  return ok_status();
}

Status CopyPipeline::wait_for_all(Deadline deadline) {
  Status status = ok_status();
  for (const auto& [device, queue] : queues_) {
    Status made = wait_for_jobs(*queue, queue->jobs.size() - 1, deadline);
    if (status.ok()) status = std::move(made);
  }
  Status idle = wait_until_idle(deadline);
  return status.ok() ? std::move(idle) : std::move(status);
}

Status CopyPipeline::wait_until_idle(Deadline deadline) {
  Status status = ok_status();
  for (const auto& [device, queue] : queues_) {
    Status idle = DeviceThreads::wait(queue->jobs.back(), "copying", deadline);
    if (status.ok()) status = std::move(idle);
  }
  return status;
}

}  // namespace amem
