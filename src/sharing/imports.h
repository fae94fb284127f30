// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <set>
#include <vector>

#include "sharing/process_context.h"
#include "sharing/replies.h"
#include "sharing/service_workers.h"
#include "sharing/token.h"

namespace amem {

/// The importer's side of sharing: other processes' allocations that are mapped here, and the
/// revoking them when their owner pauses.
///
/// Threads: messages come on the service thread, which hands what takes time to the workers;
/// import_token() is the client's, fetch() the session's. Descriptors that arrived are kept under
/// the registry's mutex until somebody maps them, so that an owner that pauses again in between
/// finds them and they are given up.
class Imports {
 public:
  explicit Imports(ProcessContext& context) : context_(context) {}

  /// Starts the first worker thread.
  Status start() { return workers_.start(); }

  /// Exchange::import_token for tokens of other processes and of our own.
  bool import_token(int fd, DriverHandle* handle, DriverResult* result);
  /// The same for an IPC handle: asks the owner for the token.
  void import_ipc_handle(const IpcHandle& wanted, DriverHandle* handle, DriverResult* result);
  /// The client gave an import up: its owner is told.
  void forget(const Allocation& import) AMEM_REQUIRES(context_.registry.mutex);

  void on_away(const PeerInfo& owner, uint64_t request_id, Away notice);
  void on_revoke(const PeerInfo& owner, uint64_t request_id, Revoke request);
  void on_restore(const PeerInfo& owner, uint64_t request_id, Restore message,
                  std::vector<UniqueFd> fds);
  void on_owner_gone(const PeerInfo& owner);

  /// Maps these imports again. Imports of an owner that is away stay let
  /// go: it will bring them back.
  Status fetch(const std::vector<BackingId>& backings, Deadline deadline);

 private:
  /// The token behind an IPC handle of another process.
  Result<UniqueFd> ask_for_token(const IpcHandle& wanted);
  /// An import of this process's own memory. Result: CUDA_ERROR_INVALID_VALUE if the nonce is
  /// another.
  DriverResult import_own(AllocationId id, uint64_t nonce, DriverHandle* handle)
      AMEM_REQUIRES(context_.registry.mutex);
  struct Wanted {
    AllocationId local = 0;
    Fetch::Item item;
  };
  void request(const InstanceId& owner, const std::vector<Wanted>& wanted, Deadline deadline,
               const std::shared_ptr<Replies>& replies);
  /// The owner has ended, and its memory with it.
  void lose(const InstanceId& owner, const std::vector<Wanted>& wanted, const Error& why);
  Status on_fetched(const InstanceId& owner, const std::vector<Wanted>& wanted, Received reply);
  Status map_arrived(Backing& backing) AMEM_REQUIRES(context_.registry.mutex);
  DriverResult finish_import(AllocationId local, bool known_to_owner, DriverHandle* handle);

  /// Work that is shared with the owner waits for it from now on.
  void close(const PeerInfo& owner, const Tags& tags, const Scope& scope);
  /// The answer to a revoke: whether what has these tags is unmapped now.
  Revoked carry_out_revoke(const PeerInfo& owner, const Tags& tags, const Scope& scope,
                           Deadline deadline);
  /// `*untouched` becomes false when something was unmapped, or nearly.
  Status unmap_imports(const InstanceId& owner, const Tags& tags, const Scope& scope,
                       Deadline deadline, bool* untouched);
  Status map_again(const InstanceId& owner, const Restore& message,
                   const std::vector<UniqueFd>& fds);
  Status map_parcel(const InstanceId& owner, const Restore& message,
                    const std::vector<UniqueFd>& fds) AMEM_REQUIRES(context_.registry.mutex);
  /// With these tags; with any when `tags` is nullptr.
  std::vector<Backing*> imports_of(const InstanceId& owner, const Tags* tags)
      AMEM_REQUIRES(context_.registry.mutex);

  ProcessContext& context_;
  std::map<BackingId, UniqueFd> arrived_ AMEM_GUARDED_BY(context_.registry.mutex);
  /// Owners and tags of whose return, which comes in parcels, one that is not the last has failed.
  std::set<std::pair<InstanceId, Tag>> half_restored_ AMEM_GUARDED_BY(context_.registry.mutex);
  ServiceWorkers workers_;
};

}  // namespace amem
