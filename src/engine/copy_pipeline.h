// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "engine/copier.h"
#include "engine/device_threads.h"

namespace amem {

/// Transfers of one pause or resume, each on the thread of its device, in the order in which they
/// are added there. The next one is queued before one has ended, so that the bus is never idle; and
/// the caller, who hears of each as it ends, has the time of the copies for what it does with
/// driver objects.
///
/// Transfers are kept until nothing is under way on their device, whoever still waits for it. An
/// error ends those of the device that have not begun.
///
/// Threads: one.
class CopyPipeline {
 public:
  using Copiers = std::map<int, Copier>;

  /// `copiers` has one for each device that is used, and outlives the device threads' jobs.
  CopyPipeline(DeviceThreads& devices, Copiers& copiers, CopyDirection direction)
      : devices_(devices), copiers_(copiers), direction_(direction) {}
  /// Nothing begins any more.
  ~CopyPipeline() { stop(); }
  CopyPipeline(const CopyPipeline&) = delete;

  void add(int device, Transfer transfer);
  /// No more will be added, or shall begin. Before either of the waits.
  void finish();
  void stop();

  /// Waits until the transfer of this backing has been made; at once where none was added. For
  /// those of a device in the order in which they were added.
  Status wait_for(BackingId backing, Deadline deadline);
  /// Waits until all have been made, or one has failed and nothing is under way.
  Status wait_for_all(Deadline deadline);
  /// Waits until nothing is under way, whatever has been made.
  Status wait_until_idle(Deadline deadline);

 private:
  struct Lane;
  struct Place {
    int device;
    size_t number;
  };
  static Status wait_for_jobs(Lane& lane, size_t count, Deadline deadline);

  DeviceThreads& devices_;
  Copiers& copiers_;
  const CopyDirection direction_;
  bool finished_ = false;
  std::map<int, std::shared_ptr<Lane>> lanes_;
  std::map<BackingId, Place> places_;
};

}  // namespace amem
