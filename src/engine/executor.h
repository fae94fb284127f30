// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "contents/backup_file.h"
#include "contents/copy_pipeline.h"
#include "contents/host_pool.h"
#include "engine/plan.h"
#include "engine/session_counters.h"
#include "sharing/process_context.h"

namespace amem {

inline constexpr char kHostMemoryInUse[] =
    "the host memory holds contents of released memory; resume first";

/// Carries out the parts of a plan that need no other process: all except fetching imports.
///
/// Backings move one after another in a pipeline. While the contents of one are copied, the backing
/// before it is unmapped and released. While one is filled, the next is created and mapped. A pause
/// begins with the backings that have the least to copy for their size, and a resume with those
/// that have the most, so that driver calls overlap with copies at both ends.
///
/// Each step looks up its backing again, because a client may free memory during a pause. A step
/// without a backing does nothing. Contents are never lost: a backing is released only after its
/// own copy has succeeded and is durable if it is in a file. All backings have host memory before
/// the first copy, and copies are kept until all contents are restored. A switch is an exception:
/// backings that leave use the host memory of those that are filled. When exit() begins, the
/// executor stops before the next step.
///
/// Threads: make_room() and move_out() of a pause from one thread at a time; move_in() from any
/// thread, for other backings. Each step takes the registry's mutex.
class Executor {
 public:
  Executor(ProcessContext& context, HostPool& pool, BackupDirectory& directory)
      : context_(context),
        registry_(context.registry),
        pool_(pool),
        directory_(directory),
        copiers_out_(context.driver, context.exiting, CopyDirection::to_host),
        copiers_in_(context.driver, context.exiting, CopyDirection::to_device) {}

  /// Reserves host memory for the plan: as much as the last pause kept, or as much as is not zero
  /// now. Peers may still write, so move_out() may need more. Where memory is short, both forget
  /// retained copies, those of the plan last.
  Status make_room(const Plan& plan, Deadline deadline);

  /// Called before memory of the device is released. Must not wait.
  using OnRelease = std::function<void(int device, size_t size_bytes)>;

  /// Drops imports, copies the bytes that are kept and not zero, and releases memory. After an
  /// error, backings that were not released are unchanged; plan_resume() has the others.
  Status move_out(const Plan& plan, Deadline deadline, MoveReport* report,
                  const OnRelease& on_release = nullptr);

  /// From the next resume on, saved contents of all kinds stay (Session::retain_backups).
  void retain_backups(bool retain) { retain_backups_ = retain; }
  /// Session::trim_host_memory(), while no memory is paused or resumed.
  Result<size_t> trim_host_memory(const std::vector<int>& devices);
  /// Forgets saved contents of memory on the GPU: of memory that is not in the plan or, if there
  /// are none, of the plan. Returns whether there were any. Thread-safe.
  bool forget_retained(const Plan& plan);

  /// Called when a device lacks memory, with what is wanted there, or with nothing if that is not
  /// known. Returns when the driver call can be made again, or the error of the resume.
  using WaitForRoom = std::function<Status(const Error& lack, const std::map<int, size_t>& wanted)>;

  /// Creates memory and restores its contents, including those of an earlier call that failed.
  /// Calls `meanwhile` when all memory exists and copies are running. After an error the memory is
  /// released again, so that the call can be repeated; if a copy has failed or the deadline has
  /// passed, the memory is kept, and the next call continues from there. Of a switch, contents
  /// whose host memory was returned are saved again; if there is no memory for them, they stay.
  Status move_in(const Plan& plan, const WaitForRoom& wait_for_room,
                 const std::function<void()>& meanwhile, Deadline deadline, MoveReport* report);

 private:
  using Transfers = std::vector<Transfer>;
  /// For a running transfer: the backing stays mapped while the result exists, even after the
  /// caller's deadline.
  std::shared_ptr<const void> keep_mapped(Backing& backing) AMEM_REQUIRES(registry_.mutex);

  Status copy_and_release(const Plan& plan, Deadline deadline, MoveReport* report,
                          const OnRelease& on_release);
  /// Shared, because a job may outlive its caller's deadline.
  Result<std::shared_ptr<Transfers>> find_contents(const Plan& plan,
                                                   const std::function<void()>& meanwhile,
                                                   Deadline deadline);
  Status add_contents(Backing* backing, Transfers* found) AMEM_REQUIRES(registry_.mutex);
  /// Whether contents of the backing stay on the host after a resume.
  bool retains(const Backing& backing) AMEM_REQUIRES(registry_.mutex);
  void find_retained(Backing& backing, Transfer* transfer) AMEM_REQUIRES(registry_.mutex);
  void use_retained(Transfers& found);
  /// find_contents(), and host memory for them.
  Result<std::shared_ptr<Transfers>> find_with_room(const Plan& plan,
                                                    const std::function<void()>& meanwhile,
                                                    Deadline deadline);
  Status reserve(const Plan& plan, const Transfers& transfers, Deadline deadline);
  Status make_file(Transfers& transfers, Deadline deadline);
  HostBlock take_block(const Transfer& transfer) AMEM_REQUIRES(registry_.mutex);
  size_t take_blocks(Transfers& transfers);
  Result<Transfers> next_transfers(Plan* plan, Transfers* remaining, Deadline deadline);
  static bool lacks_host_memory(const Error& error) { return error.kind == ErrorKind::os; }
  /// The plan's own backings, those of which the largest share is saved first.
  std::vector<BackingId> by_saved_share(const Plan& plan);
  Status drop(const Plan& plan);
  Status release_each(const std::vector<BackingId>& order, CopyPipeline& copies, Deadline deadline,
                      MoveReport* report, const OnRelease& on_release);
  Status release(BackingId id, const OnRelease& on_release);

  std::shared_ptr<CopyPipeline> make_fill_pipeline() {
    return std::make_shared<CopyPipeline>(context_.fill_threads, copiers_in_);
  }
  /// `*copies` is replaced by a new pipeline when all its copies have ended.
  Status create_each(const Plan& plan, const WaitForRoom& wait_for_room,
                     std::shared_ptr<CopyPipeline>& copies, std::vector<BackingId>* begun,
                     Deadline deadline, MoveReport* report);
  Status return_host_memory(const Plan& plan, CopyPipeline& copies,
                            const std::function<Status()>& keep_place, Deadline deadline);
  /// Appends the backing to `begun` if it does not exist yet.
  Status create(BackingId id, std::vector<BackingId>* begun);
  void fill(BackingId id, CopyPipeline& copies, MoveReport* report);
  Status release_created(const Plan& plan, const std::vector<BackingId>& begun);
  /// The plan's backings are resident now. `only_filled`: those that are filled and whose host
  /// memory returns to the pool.
  void end_move_in(const Plan& plan, bool only_filled);
  /// Of the saved bytes of a plan, `*all_bytes`, those that are filled. `*source` receives the
  /// directory of those in a file.
  size_t filled_bytes(const Plan& plan, size_t* all_bytes, std::string* source);
  /// Of earlier calls of move_in() that have missed their deadline: waits until no copy is running.
  Status wait_for_late_copies(Deadline deadline);

  ProcessContext& context_;
  Registry& registry_;
  HostPool& pool_;
  BackupDirectory& directory_;
  Copiers copiers_out_, copiers_in_;  // allow: lock themselves
  std::atomic<bool> retain_backups_{false};
  std::atomic<size_t> last_kept_bytes_{0};  ///< bytes that the last pause kept on the host
  Mutex mutex_;
  /// By device: pinned memory through which this pause copies to files. That of contents in files
  /// is the block of their pause: they may be restored at the same time.
  std::map<int, HostBlock> staging_ AMEM_GUARDED_BY(registry_.mutex);
  /// Of calls of move_in() that have missed their deadline.
  std::vector<std::shared_ptr<CopyPipeline>> late_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
