// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "engine/bystanders.h"
#include "engine/engine_context.h"
#include "engine/replies.h"

namespace amem {

/// The owner's side of sharing: what this process' allocations are to others. It knows who imports
/// what from tokens that were fetched, so that none is missed at a release and none is missing at a
/// restore.
///
/// Threads: messages come on the service thread; revoke() and restore() are the
/// session's.
class Exports {
 public:
  explicit Exports(EngineContext& context) : context_(context), bystanders_(context) {}

  /// A token for an allocation of ours. Needs the registry's mutex.
  Result<int> make_token(Allocation& allocation) AMEM_REQUIRES(context_.registry.mutex);

  /// Answers an importer: with descriptors when we are here, with our communicators when we are
  /// away.
  void answer_fetch(const PeerInfo& from, uint64_t request_id, const Fetch& fetch);
  void forget_imports(const InstanceId& importer, const Drop& drop);
  void forget_importer(const InstanceId& importer);

  /// From now on we are away: asks every importer to let go, tells the other members of our
  /// communicators, and waits until all have revoked what they map. On error some have, some have
  /// not: restore() makes it undone for all.
  Status revoke(Deadline deadline);

  /// We are back: sends every importer what it had, and opens the gates of all who were told. Wait
  /// for the importers with the replies it returns.
  std::shared_ptr<Replies> restore(Deadline deadline);

  /// Until end_sharing() each backing is exported once, for all who ask: an export costs 0.3 ms
  /// when four processes resume together (H200, driver 580). No longer, because a child made by
  /// fork() would keep the descriptors, and with them memory that the next pause wants to release.
  void begin_sharing();
  void end_sharing();
  /// Exports what somebody imports ahead of need. What fails is tried again when it is asked for.
  void export_imported();

 private:
  struct Return;
  /// Sends the next part of what an importer gets back; the one after it when that is mapped. False
  /// when it could not be exported.
  bool send_part(const std::shared_ptr<Return>& to) AMEM_REQUIRES(context_.registry.mutex);
  void on_part_mapped(const std::shared_ptr<Return>& to, Result<Received> reply);
  void on_part_failed(const std::shared_ptr<Return>& to, const Error& why)
      AMEM_REQUIRES(context_.registry.mutex);
  bool is_current(const Return& to) AMEM_REQUIRES(context_.registry.mutex);
  /// What a resume needs descriptors for is there; refuses a pause that could not be taken back.
  Status reserve_for_resume();
  std::set<InstanceId> importers() AMEM_REQUIRES(context_.registry.mutex);
  bool is_imported(const Backing& backing) AMEM_REQUIRES(context_.registry.mutex);
  bool is_imported_by(const InstanceId& importer, const Backing& backing)
      AMEM_REQUIRES(context_.registry.mutex);
  void forget_importer_of(const InstanceId& importer, Allocation& allocation)
      AMEM_REQUIRES(context_.registry.mutex);
  /// Returns who is told in this way.
  std::set<InstanceId> restore_imports(Deadline deadline, const std::shared_ptr<Replies>& replies);
  Result<UniqueFd> export_fd(const Backing& backing) AMEM_REQUIRES(context_.registry.mutex);

  EngineContext& context_;
  Bystanders bystanders_;
  /// Between revoke() and restore().
  bool away_ AMEM_GUARDED_BY(context_.registry.mutex) = false;
  /// Of restore(): what an earlier one has not sent yet is not sent any more.
  uint64_t returns_ AMEM_GUARDED_BY(context_.registry.mutex) = 0;
  /// While exports are shared: what was exported.
  std::optional<std::map<BackingId, UniqueFd>> shared_exports_
      AMEM_GUARDED_BY(context_.registry.mutex);
  /// Who was told that we are away, and so must be told that we are back.
  std::set<InstanceId> told_ AMEM_GUARDED_BY(context_.registry.mutex);
};

}  // namespace amem
