// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <memory>

#include "contents/copier.h"
#include "driver/device_threads.h"

namespace amem {

/// The copiers of one direction, one for each device, constructed at their first use. Thread-safe.
/// Must outlive the jobs of the device threads.
class Copiers {
 public:
  Copiers(const Driver& driver, const ExitFlag& exiting, CopyDirection direction)
      : driver_(driver), exiting_(exiting), direction_(direction) {}

  Copier& of(int device) {
    MutexLock lock(mutex_);
    return copiers_.try_emplace(device, driver_, device, exiting_, direction_).first->second;
  }

 private:
  const Driver& driver_;
  const ExitFlag& exiting_;
  const CopyDirection direction_;
  Mutex mutex_;
  std::map<int, Copier> copiers_ AMEM_GUARDED_BY(mutex_);
};

/// The transfers of one pause or resume. Each runs on the thread of its device, in the order of
/// add(). The next transfer is queued before the current one ends, so that the bus is never idle.
/// The caller is notified of the end of each transfer and can meanwhile call the driver for memory.
///
/// Transfers are kept until all copies on their device have ended, even after the caller's
/// deadline. An error cancels the transfers of the device that have not started. stop() also ends
/// the current one through a file after its current buffer; of a resume at least one is filled.
///
/// For one thread.
class CopyPipeline {
 public:
  CopyPipeline(DeviceThreads& devices, Copiers& copiers) : devices_(devices), copiers_(copiers) {}
  /// Starts no further transfer.
  ~CopyPipeline() { stop(); }
  CopyPipeline(const CopyPipeline&) = delete;

  void add(Transfer transfer);
  /// No transfer will be added. Must be called before each of the waits.
  void finish();
  void stop();

  /// Waits until the transfer of this backing is complete, and durable if it is to a file. Returns
  /// immediately if none was added.
  /// Must be called in the order of add() for each device.
  Status wait_for(BackingId backing, Deadline deadline);
  /// Waits until all transfers are complete, or one has failed and no copy is running.
  Status wait_for_all(Deadline deadline);
  /// Waits until no copy is running, with or without success.
  Status wait_until_idle(Deadline deadline);

 private:
  struct DeviceQueue;
  struct Place {
    int device;
    size_t number;
    std::shared_ptr<BackupFile> file;
  };
  static Status wait_for_jobs(DeviceQueue& queue, size_t count, Deadline deadline);

  DeviceThreads& devices_;
  Copiers& copiers_;
  bool finished_ = false;
  std::map<int, std::shared_ptr<DeviceQueue>> queues_;
  std::map<BackingId, Place> places_;
};

}  // namespace amem
