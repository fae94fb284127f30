// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/copy_queue.h"
#include "engine/device_threads.h"
#include "engine/host_store.h"
#include "engine/plan.h"
#include "engine/zero_pages.h"
#include "registry/registry.h"

namespace amem {

/// Runs the steps of a plan that concern this process alone: save, drop, release, create, fill.
///
/// Each step looks its backing up anew, because NCCL may free while a pause runs (destroying a
/// communicator is always legal); one that is gone is no longer a step. Contents are safe at every
/// moment: nothing is released before its copy is complete, and a copy is kept until the contents
/// are back. When exit() begins, what is under way stops before its next step.
///
/// Threads: one at a time (the session's); takes the registry's mutex for each step.
class Executor {
 public:
  Executor(const Driver& driver, Registry& registry, DeviceThreads& devices, HostStore& store,
           const ContentSettings& settings, const ExitFlag& exiting)
      : driver_(driver),
        registry_(registry),
        devices_(devices),
        store_(store),
        settings_(settings),
        exiting_(exiting),
        pinning_(driver, exiting) {}

  /// Finds how much room on the host the plan's saves take: what the last save kept; before the
  /// first, or when that is too much, what is not zero now. Refuses what the store's limit or the
  /// machine does not allow. Neighbours may still write, so save() makes more where that is too
  /// little.
  Status plan_room(const std::vector<Step>& plan, Deadline deadline);
  /// Makes that room, which takes time when it is more than there is. The devices' threads are free
  /// meanwhile, for neighbours that want us to let go of theirs.
  Status make_room(Deadline deadline);

  /// Finds what is kept and is not zero, drops imports meanwhile, and copies it. On error what is
  /// ours is as before. Adds each step that was begun to `begun`, also the one at which it stops
  /// for an error.
  Status save(const std::vector<Step>& plan, std::vector<Step>* begun, Deadline deadline);
  /// Releases memory. Adds to `begun` likewise.
  Status release(const std::vector<Step>& plan, std::vector<Step>* begun);
  /// Ends the saving of backings that were not released: back to resident.
  void cancel_saves(const std::vector<Step>& plan);

  /// Makes memory again, also what an earlier call left unfinished. On error everything is given
  /// back, so that it can be made again later.
  Status create(const std::vector<Step>& plan);
  /// Gives the memory its contents, and calls `meanwhile` while copies run. On error it can be
  /// called again.
  Status fill(const std::vector<Step>& plan, const std::function<void()>& meanwhile,
              Deadline deadline);

  /// Sums of the last save or fill, for the log.
  size_t copied_bytes() const { return copied_bytes_; }

 private:
  /// One backing's part of a save or a fill.
  struct Copy {
    BackingId backing;
    DeviceAddress address;
    size_t size_bytes;          ///< of the backing
    unsigned char* on_host;     ///< nullptr: nothing is kept, or there is no place for it yet
    std::vector<Piece> pieces;  ///< what is, on the host one behind the other
    bool kernel_can_go;         ///< one of the backing's own device
  };
  using CopiesByDevice = std::map<int, std::vector<Copy>>;
  using SharedCopies =
      std::shared_ptr<CopiesByDevice>;  ///< a job may outlive its caller's deadline
  /// Host memory that a save needs, in blocks of the host store.
  struct HostNeed {
    size_t size_bytes = 0;
    size_t largest_bytes = 0;
    int device = -1;  ///< the one that it shall be near; -1: nothing is saved
  };
  /// What copies on one device use; its thread's own.
  struct Copier {
    Copier(const Driver& driver, int device, const ExitFlag& exiting)
        : kernels(driver), zero_pages(driver, kernels, device, exiting) {}
    DriverStream stream = nullptr;
    Kernels kernels;
    ZeroPages zero_pages;
  };

  /// Copies of one device that are under way: from their announcement until the job that makes
  /// them has ended, whether it was run or not, and whoever still waits for it.
  class Copying;

  Copier& copier_of(int device) {
    return copiers_.try_emplace(device, driver_, device, exiting_).first->second;
  }
  Status make_stream(Copier& copier);
  Status begin_save(const Step& step);
  void begin_fill(const Step& step, CopiesByDevice* copies);
  void add_contents(const Step& step, CopiesByDevice* copies) AMEM_REQUIRES(registry_.mutex);
  Result<SharedCopies> find_contents(const std::vector<Step>& plan,
                                     const std::function<void()>& meanwhile, Deadline deadline);
  Status leave_out_zero_pages(Copier& copier, std::vector<Copy>& list);
  static HostNeed need_of(const CopiesByDevice& copies);
  int device_of_saves(const std::vector<Step>& plan);
  Status take_blocks(CopiesByDevice* copies);
  Status copy_contents(const std::vector<Step>& plan, std::vector<Step>* begun, Deadline deadline);
  DeviceThreads::Started start_copies(const CopiesByDevice& copies, CopyDirection direction);
  Status queue_copies(int device, CopyDirection direction, Copier& copier,
                      const std::vector<Copy>& list);
  Status zero(const Copy& copy, DriverStream stream);
  size_t kept_bytes(const CopiesByDevice& copies);
  Status run_steps(const std::vector<Step>& plan, Step::Action action, std::vector<Step>* begun);
  Status run_one(const Step& step);
  void end_copies(const std::vector<BackingId>& backings);
  void give_back(const std::vector<Step>& begun);

  const Driver& driver_;
  Registry& registry_;
  DeviceThreads& devices_;
  HostStore& store_;
  const ContentSettings& settings_;
  const ExitFlag& exiting_;
  DeviceThreads pinning_;  ///< of host memory
  std::map<int, Copier> copiers_;
  HostNeed last_need_;
  size_t copied_bytes_ = 0;
};

}  // namespace amem
