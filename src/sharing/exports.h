// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>

#include "sharing/process_context.h"
#include "sharing/replies.h"
#include "sharing/token.h"

namespace amem {

/// The owner's side of sharing: the allocations of this process that other processes import. A
/// fetch registers an importer, so that every importer is asked before a release and served at a
/// restore.
///
/// Threads: messages arrive on the service thread; revoke() and restore() are called by the
/// session.
class Exports {
 public:
  explicit Exports(ProcessContext& context) : context_(context) {}

  /// A token for an allocation of this process.
  Result<int> make_token(Allocation& allocation) AMEM_REQUIRES(context_.registry.mutex);

  Result<IpcHandleBytes> make_ipc_handle(Allocation& allocation, bool is_fabric = false,
                                         const HostAddress& address = {})
      AMEM_REQUIRES(context_.registry.mutex);
  /// Sharing::offer_descriptor() and withdraw_descriptor().
  IpcHandleBytes offer_descriptor(UniqueFd descriptor);
  bool withdraw_descriptor(uint64_t nonce);
  /// Answers with the token of an allocation, or with an offered descriptor.
  void answer_token_query(const PeerInfo& from, uint64_t request_id, const TokenQuery& query);

  /// Answers an importer: with descriptors, or with this process's scope while the tag is paused.
  void answer_fetch(const PeerInfo& from, uint64_t request_id, const Fetch& fetch);
  void forget_imports(const InstanceId& importer, const Drop& drop);
  void forget_importer(const InstanceId& importer);

  /// Raises the descriptor limit to what a resume needs. To be called before revoke(): a refused
  /// pause that has revoked nothing restores nothing, for which descriptors would be missing.
  /// Errors: os.
  Status reserve_for_resume();

  /// The memory with these tags is about to be released, except persistent memory: sends a revoke
  /// to its importers and to bystanders, and waits until all importers have unmapped it. After an
  /// error some importers have unmapped it: call restore().
  ///
  /// Bystanders share the scope but import no memory of this process. They have nothing to unmap,
  /// but their new work in this scope must wait; otherwise it would wait on the GPU for a paused
  /// process. They are not known, so the scope is sent to every amem process of this user on this
  /// host. A process that shares nothing of it ignores it. The wait for a bystander is short,
  /// because a process that does not answer may share nothing: work that is launched before the
  /// message arrives waits on the GPU, as without amem. If memory is bound to multicast objects,
  /// bystanders may use it: the wait is for the end of their work.
  Status revoke(const Tags& tags, Deadline deadline);

  /// The memory with these tags is filled again: notifies every importer, which fetches and maps
  /// it, and the bystanders; their gates open. Returns the replies of the importers.
  std::shared_ptr<Replies> restore(const Tags& tags, Deadline deadline);

  /// A call of `process`, a peer, waits for the memory with this tag. It is restored there again if
  /// its last restore has failed and no caller waits for that.
  void restore_for_call(const InstanceId& process, const Tag& tag);

  /// Exports the imported backings with these tags before importers need them. While the result
  /// exists, each backing is exported once for all importers: an export takes 0.3 ms when four
  /// processes resume together (H200, driver 580). The descriptors are closed afterwards: a forked
  /// child would keep them, and with them memory that the next pause releases. A failed export is
  /// repeated when an importer needs it.
  std::shared_ptr<const void> export_imported(const Tags& tags);

 private:
  static void ensure_nonce(Allocation& allocation) {
    while (allocation.nonce == 0) allocation.nonce = random_instance_id().bits[0];
  }
  /// An allocation of this process for which a token or an IPC handle was made; nullptr if there is
  /// none.
  Allocation* find_exported(AllocationId id, uint64_t nonce) AMEM_REQUIRES(context_.registry.mutex);
  struct PendingRestore;
  struct OfTag {
    bool is_paused = false;           ///< from revoke() to restore()
    uint64_t restores = 0;            ///< number of restores; an earlier one is not sent again
    std::set<InstanceId> notified{};  ///< of the pause, and to be notified of the resume
  };
  void send_restore(const std::shared_ptr<PendingRestore>& to);
  void on_restored(const std::shared_ptr<PendingRestore>& to, const Result<Received>& reply);
  /// A process to which a revoke is sent.
  struct Asked {
    Tags tags{};
    bool is_importer = false;
    std::string name{};                ///< of an importer, for messages
    std::vector<BackingId> staying{};  ///< backings that it keeps; at most kMaxStaying
  };
  /// The importers of memory with these tags. Sets Backing::is_staying of what they keep.
  std::map<InstanceId, Asked> begin_revoke(const Tags& tags) AMEM_REQUIRES(context_.registry.mutex);
  /// revoke() for the tags of one client.
  Status send_revokes(const Tags& tags, const Scope& scope, Deadline deadline,
                      const std::shared_ptr<Replies>& replies);
  std::set<InstanceId> importers(const Backing& backing) AMEM_REQUIRES(context_.registry.mutex);
  /// For messages; never empty.
  const std::string& name_of(const InstanceId& importer) AMEM_REQUIRES(context_.registry.mutex) {
    return importer_names_.try_emplace(importer, process_text(0)).first->second;
  }
  struct PendingRevoke {
    const InstanceId process;
    Revoke request;
    const Deadline until;
    const bool is_awaited;
    const uint64_t restores;  ///< of its tags, before the pause
    const CallDone done;
  };
  /// Again if the connection breaks before the tags are restored.
  void send_revoke(const std::shared_ptr<PendingRevoke>& to) AMEM_REQUIRES(context_.registry.mutex);
  /// A number that each restore of one of these tags changes.
  uint64_t restores_of(const std::vector<Tag>& tags) AMEM_REQUIRES(context_.registry.mutex);
  Status on_revoked(const InstanceId& process, bool is_importer, const Result<Received>& reply);
  Fetched::Outcome outcome_of(const Fetch::Item& item, const PeerInfo& from, Fetched* answer,
                              std::vector<UniqueFd>* fds) AMEM_REQUIRES(context_.registry.mutex);
  void forget_importer_of(const InstanceId& importer, Allocation& allocation)
      AMEM_REQUIRES(context_.registry.mutex);
  void restore(const Tag& tag, Deadline deadline, const std::shared_ptr<Replies>& replies)
      AMEM_REQUIRES(context_.registry.mutex);
  /// Whether the pause unbinds memory with these tags.
  bool is_bound_to_multicast(const Tags& tags) AMEM_REQUIRES(context_.registry.mutex);
  /// The driver's descriptor; for another host a sealed file with the driver's fabric handle.
  Result<UniqueFd> export_fd(const Backing& backing, bool to_host)
      AMEM_REQUIRES(context_.registry.mutex);

  ProcessContext& context_;
  std::map<Tag, OfTag> tags_ AMEM_GUARDED_BY(context_.registry.mutex);
  /// Of the importers, for messages.
  std::map<InstanceId, std::string> importer_names_ AMEM_GUARDED_BY(context_.registry.mutex);
  /// While a result of export_imported() exists: the exported descriptors.
  std::optional<std::map<std::pair<BackingId, bool>, UniqueFd>> shared_exports_
      AMEM_GUARDED_BY(context_.registry.mutex);
  std::map<uint64_t, UniqueFd> offered_ AMEM_GUARDED_BY(context_.registry.mutex);  ///< by nonce
};

}  // namespace amem
