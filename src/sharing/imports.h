// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <set>
#include <vector>

#include "base/workers.h"
#include "sharing/process_context.h"
#include "sharing/replies.h"
#include "sharing/token.h"

namespace amem {

/// For Replies::wait().
inline constexpr char kImportWaits[] = "an import waits for the process that owns the memory";

/// The importer's side of sharing: allocations of other processes that are mapped here. They are
/// unmapped when their owner pauses.
///
/// It records in the PeerTable what messages say of their senders, with the registry's mutex.
///
/// Threads: messages arrive on the service thread, which passes long work to the workers.
/// import_token() is called by the client, fetch() by the session. Received descriptors are kept
/// with the registry's mutex until they are mapped; a revoke in between closes them.
class Imports {
 public:
  explicit Imports(ProcessContext& context) : context_(context) {}

  /// Starts the first worker thread.
  Status start() { return workers_.start(); }

  /// Exchange::import_token() for tokens of other processes and of this one.
  bool import_token(int fd, DriverHandle* handle, DriverResult* result);
  /// The same for an IPC handle: asks the owner for the token. Errors: driver.
  Result<DriverHandle> import_ipc_handle(const IpcHandle& wanted);
  /// Requests a descriptor from its owner: the token of an IPC handle, or an offered one.
  Result<Received> ask_for_token(const IpcHandle& wanted);
  /// The client has released an import. Notifies its owner.
  void forget(const Allocation& import) AMEM_REQUIRES(context_.registry.mutex);
  /// Exchange::wake_imports().
  void wake();

  void on_revoke(const PeerInfo& owner, uint64_t request_id, Revoke request);
  void on_restore(const PeerInfo& owner, uint64_t request_id, const Restore& message);
  void on_owner_gone(const PeerInfo& owner);
  /// True if one of the processes imports memory of the other one, or this one has received
  /// messages about a pause of that one.
  bool shares_with(const InstanceId& peer);
  void on_resume_request(const ResumeRequest& request);

  /// Maps those of these imports again that are in this state: dropped, for a resume of this
  /// process, or revoked. Imports of a paused owner stay unmapped until it resumes.
  Status fetch(const std::vector<BackingId>& backings, BackingState state, Deadline deadline);

 private:
  /// The result for a client that calls the driver.
  static DriverResult result_of(const Error& error) {
    return error.kind == ErrorKind::driver ? error.code : driver_result::kInvalidValue;
  }
  Result<DriverHandle> import(const Token& token);
  /// An import of this process's own memory. Errors: driver, if the nonce is another.
  Result<DriverHandle> import_own(AllocationId id, uint64_t nonce)
      AMEM_REQUIRES(context_.registry.mutex);
  struct Wanted {
    AllocationId local = 0;
    BackingId backing = 0;
    Fetch::Item item;
    std::string owner;  ///< process_text()
  };
  /// All of one owner. If the connection breaks, what has not been released meanwhile is requested
  /// again.
  void request(const InstanceId& owner, const std::vector<Wanted>& wanted, Deadline deadline,
               const std::shared_ptr<Replies>& replies);
  /// The owner has ended: its memory is lost.
  void lose(const InstanceId& owner, const std::vector<Wanted>& wanted, const Error& why);
  Status on_fetched(const InstanceId& owner, const std::vector<Wanted>& wanted, Received reply);
  Status map_arrived(Backing& backing) AMEM_REQUIRES(context_.registry.mutex);
  /// `ready`: the owner knows the importer, and the memory can be used.
  Result<DriverHandle> finish_import(AllocationId local, Status ready);

  /// If the client uses imports at once, waits, as at a gate, until the owner has resumed. A revoke
  /// that needs the call to end is refused: an import never fails because of a pause. Errors:
  /// timeout; peer; misuse, if exit() has begun. `began`: the import.
  Status wait_until_usable(const Token& token, AllocationId local,
                           Deadline::Clock::time_point began);

  /// PeerTable::reopen(): the worker processes messages later than they arrive.
  void reopen(const InstanceId& owner, const PeerTable::Notices& since)
      AMEM_REQUIRES(context_.registry.mutex);
  /// Unmaps the imports of the request, and returns the reply to it.
  Revoked carry_out_revoke(const PeerInfo& owner, const Revoke& request,
                           const PeerTable::Notices& notices, Deadline deadline);
  /// What this process shares with others, of the clients of these tags, as a message may name it.
  Scope scope_of(const std::vector<Tag>& tags);
  Status check_not_registered(const InstanceId& owner, const Tags& tags,
                              const std::set<BackingId>& staying)
      AMEM_REQUIRES(context_.registry.mutex);
  /// Waits until this process has no work that shares the scope.
  Status quiesce(const Tags& tags, const Scope& scope, Deadline deadline);
  /// Sets `*untouched` to false before the first unmap.
  Status unmap_imports(const InstanceId& owner, const Revoke& request, Deadline deadline,
                       bool* untouched);
  Status unmap_each(const InstanceId& owner, const Tags& tags, const std::set<BackingId>& staying,
                    bool* untouched) AMEM_REQUIRES(context_.registry.mutex);
  /// The owner has resumed: maps its memory, and opens the gates unless it has paused again.
  Status map_again(const InstanceId& owner, const Tag& tag, uint64_t notice);
  /// The imports with these tags, or all if `tags` is nullptr.
  std::vector<Backing*> imports_of(const InstanceId& owner, const Tags* tags)
      AMEM_REQUIRES(context_.registry.mutex);

  ProcessContext& context_;
  struct Arrived {
    UniqueFd fd;
    bool is_of_host = false;  ///< a sealed file with a fabric handle, of an owner on another host
  };
  std::map<BackingId, Arrived> arrived_ AMEM_GUARDED_BY(context_.registry.mutex);
  Condition import_ends_;  ///< an import that waits may have to wait no longer
  /// For long requests, by peer: one that cannot be met does not delay other peers.
  Workers<InstanceId> workers_{"amem-worker"};
};

}  // namespace amem
