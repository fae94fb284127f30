// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/copy_pipeline.h"
#include "engine/host_pool.h"
#include "engine/plan.h"
#include "registry/registry.h"

namespace amem {

/// How long the parts of a move took, which overlap, and what was copied.
struct MoveReport {
  double copy_ms = 0;    ///< from the look at contents until the last copy had ended
  double memory_ms = 0;  ///< in the driver, for memory
  size_t copied_bytes = 0;
};

/// Runs the steps of a plan that concern this process alone: drop, move_out, move_in.
///
/// Backings move one after another in a pipeline: while the contents of one are copied, the one
/// before is unmapped and released; while one is filled, the next is created and mapped.
///
/// Each step looks its backing up anew, because NCCL may free while a pause runs (destroying a
/// communicator is always legal); one that is gone is no longer a step. Contents are safe at every
/// moment: no backing is released before its own copy has succeeded, and none before all have room
/// on the host; a copy is kept until all contents are back. When exit() begins, what is under way
/// stops before its next step.
///
/// Threads: one at a time (the session's); takes the registry's mutex for each step.
class Executor {
 public:
  Executor(const Driver& driver, Registry& registry, DeviceThreads& devices, HostPool& pool,
           const ContentSettings& settings, const ExitFlag& exiting)
      : driver_(driver),
        registry_(registry),
        devices_(devices),
        pool_(pool),
        settings_(settings),
        exiting_(exiting) {}

  /// Makes room on the host for what the plan moves out: if there is not as much as the last pause
  /// kept, for what is not zero now. Peers may still write, so that move_out() may need more.
  Status make_room(const std::vector<Step>& plan, Deadline deadline);

  /// Drops imports, copies what is kept and is not zero, and releases memory. On error, what was
  /// not released is as before. Adds each step that was begun to `begun`, also the one at which it
  /// stops.
  Status move_out(const std::vector<Step>& plan, std::vector<Step>* begun, Deadline deadline,
                  MoveReport* report);

  /// Makes memory again and gives it its contents, also what an earlier call left unfinished; calls
  /// `meanwhile` when all memory is there and copies run. On error the memory is given back, so
  /// that it can be called again; of a copy that has failed, it stays for the next call.
  Status move_in(const std::vector<Step>& plan, const std::function<void()>& meanwhile,
                 Deadline deadline, MoveReport* report);

 private:
  class UnderWay;
  using Transfers = std::vector<Transfer>;
  using TransfersByDevice = std::map<int, Transfers>;
  using SharedTransfers =
      std::shared_ptr<TransfersByDevice>;  ///< a job may outlive its caller's deadline

  std::shared_ptr<const void> keep_mapped(Backing& backing) AMEM_REQUIRES(registry_.mutex);
  void end_transfer(BackingId backing);

  Status begin_move_out(const std::vector<Step>& plan);
  Status copy_and_release(const std::vector<Step>& plan, std::vector<Step>* begun,
                          Deadline deadline, MoveReport* report);
  void cancel_move_out(const std::vector<Step>& plan);
  Result<SharedTransfers> find_contents(const std::vector<Step>& plan,
                                        const std::function<void()>& meanwhile, Deadline deadline);
  void add_contents(BackingId id, TransfersByDevice* found) AMEM_REQUIRES(registry_.mutex);
  Status reserve(const TransfersByDevice& transfers, Deadline deadline);
  Status take_blocks(TransfersByDevice* transfers, size_t* copied_bytes);
  Status drop(const std::vector<Step>& plan, std::vector<Step>* begun);
  Status release_each(const std::vector<Step>& plan, std::vector<Step>* begun, CopyPipeline& copies,
                      Deadline deadline, MoveReport* report);
  Status release(BackingId id);

  Status create_each(const std::vector<Step>& plan, CopyPipeline& copies,
                     std::vector<BackingId>* begun, MoveReport* report);
  Status create(BackingId id);
  void fill(BackingId id, CopyPipeline& copies, MoveReport* report);
  void give_back(const std::vector<BackingId>& begun);
  void end_move_in(const std::vector<Step>& plan);
  /// Of this device, made when it is first used.
  void need_copier(int device) { copiers_.try_emplace(device, driver_, device, exiting_); }

  const Driver& driver_;
  Registry& registry_;
  DeviceThreads& devices_;
  HostPool& pool_;
  const ContentSettings& settings_;
  const ExitFlag& exiting_;
  CopyPipeline::Copiers copiers_;
  size_t last_kept_bytes_ = 0;  ///< on the host, by the last pause
};

}  // namespace amem
