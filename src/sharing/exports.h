// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "sharing/process_context.h"
#include "sharing/replies.h"
#include "sharing/token.h"

namespace amem {

/// The owner's side of sharing: what this process' allocations are to others. It knows who imports
/// what from tokens that were fetched, so that none is missed at a release and none is missing at a
/// restore.
///
/// Threads: messages come on the service thread; revoke() and restore() are the
/// session's.
class Exports {
 public:
  explicit Exports(ProcessContext& context) : context_(context) {}

  /// A token for an allocation of ours. Needs the registry's mutex.
  Result<int> make_token(Allocation& allocation) AMEM_REQUIRES(context_.registry.mutex);

  Result<IpcHandleBytes> make_ipc_handle(Allocation& allocation)
      AMEM_REQUIRES(context_.registry.mutex);
  void answer_token_query(const PeerInfo& from, uint64_t request_id, const TokenQuery& query);

  /// Answers an importer: with descriptors when we are here, with our communicators when we are
  /// away.
  void answer_fetch(const PeerInfo& from, uint64_t request_id, const Fetch& fetch);
  void forget_imports(const InstanceId& importer, const Drop& drop);
  void forget_importer(const InstanceId& importer);

  /// The memory with these tags is about to be released: asks every importer of it to unmap it,
  /// tells the bystanders, and waits until all importers have unmapped. On error some have, some
  /// have not: restore() makes it undone for all.
  Status revoke(const Tags& tags, Deadline deadline);

  /// The memory with these tags is back: sends every importer what it had, and tells the bystanders
  /// who were told. Wait for the importers with the replies it returns.
  std::shared_ptr<Replies> restore(const Tags& tags, Deadline deadline);

  /// Until end_sharing() each backing is exported once, for all who ask: an export costs 0.3 ms
  /// when four processes resume together (H200, driver 580). No longer, because a child made by
  /// fork() would keep the descriptors, and with them memory that the next pause wants to release.
  void begin_sharing();
  void end_sharing();
  /// Exports what somebody imports ahead of need. What fails is tried again when it is asked for.
  void export_imported();

 private:
  static void ensure_nonce(Allocation& allocation) {
    while (allocation.nonce == 0) allocation.nonce = random_instance_id().bits[0];
  }
  /// An allocation of this process for which a token or an IPC handle was made; nullptr if there is
  /// none.
  Allocation* find_exported(AllocationId id, uint64_t nonce) AMEM_REQUIRES(context_.registry.mutex);
  struct Return;
  /// Sends the next part of what an importer gets back; the one after it when that is mapped. False
  /// when it could not be exported.
  bool send_part(const std::shared_ptr<Return>& to) AMEM_REQUIRES(context_.registry.mutex);
  void on_part_mapped(const std::shared_ptr<Return>& to, const Result<Received>& reply);
  void on_part_failed(const std::shared_ptr<Return>& to, const Error& why)
      AMEM_REQUIRES(context_.registry.mutex);
  bool is_current(const Return& to) AMEM_REQUIRES(context_.registry.mutex);
  /// What a resume needs descriptors for is there; refuses a pause that could not be taken back.
  Status reserve_for_resume();
  std::set<InstanceId> importers(const Tags& tags) AMEM_REQUIRES(context_.registry.mutex);
  std::set<InstanceId> importers(const Backing& backing) AMEM_REQUIRES(context_.registry.mutex);
  void on_revoked(const InstanceId& importer, const Tags& tags, const Result<Received>& reply,
                  Replies& replies);
  Fetched::Outcome outcome_of(const Fetch::Item& item, const InstanceId& importer, Fetched* answer,
                              std::vector<UniqueFd>* fds) AMEM_REQUIRES(context_.registry.mutex);
  void forget_importer_of(const InstanceId& importer, Allocation& allocation)
      AMEM_REQUIRES(context_.registry.mutex);
  void restore_tag(const Tag& tag, Deadline deadline, const std::shared_ptr<Replies>& replies)
      AMEM_REQUIRES(context_.registry.mutex);
  /// Bystanders share this scope and import none of our memory. They have nothing to revoke, but
  /// their work in this scope must wait, or it would wait on the GPU for a process that is paused.
  ///
  /// Nobody knows who they are, so every amem process of this user on this host that is no importer
  /// is told the scope; one that knows none of its names is not affected. `replies` gets their
  /// answers: success, at once or after a moment. The wait is short since one that is stopped may
  /// be no member at all: a call that comes before the message waits on the GPU, as it would
  /// without amem.
  void tell_bystanders(const Tag& tag, const Scope& scope, const std::set<InstanceId>& importers,
                       Deadline deadline, const std::shared_ptr<Replies>& replies);
  void find_processes(const Scope& scope);
  Result<UniqueFd> export_fd(const Backing& backing) AMEM_REQUIRES(context_.registry.mutex);

  ProcessContext& context_;
  struct OfTag {
    bool is_away = false;   ///< between revoke() and restore()
    uint64_t restores = 0;  ///< what an earlier one has not sent yet is not sent any more
    /// Who was told that it is away, and so must be told that it is back: importers, whose replies
    /// a resume waits for, and bystanders.
    std::set<InstanceId> told{}, bystanders{};
  };
  std::map<Tag, OfTag> tags_ AMEM_GUARDED_BY(context_.registry.mutex);
  /// While exports are shared: what was exported.
  std::optional<std::map<BackingId, UniqueFd>> shared_exports_
      AMEM_GUARDED_BY(context_.registry.mutex);
  /// Processes of this user when we last looked, and our scope at that time: a process has its
  /// service running before it shares anything. The session's thread only.
  std::set<InstanceId> processes_;
  Scope looked_for_;
};

}  // namespace amem
