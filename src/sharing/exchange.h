// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "driver/types.h"
#include "memory/allocation.h"
#include "sharing/token.h"

namespace amem {

/// Export and import of allocations, for clients. Implemented by Sharing.
class Exchange {
 public:
  virtual ~Exchange() = default;

  /// A descriptor to return in place of the driver's; it identifies the allocation for importers.
  /// Called with the registry's mutex; must not wait.
  virtual Result<int> make_token(Allocation& allocation) = 0;

  /// Imports the allocation of a token. False for any other descriptor, which is for the driver,
  /// and for a token of another version, which the log reports. May wait for the owner, up to
  /// AMEM_TIMEOUT_MS; called without a lock.
  virtual bool import_token(int fd, DriverHandle* handle, DriverResult* result) = 0;

  /// The same for an IPC handle of CUDA. Errors of an import: driver.
  virtual Result<IpcHandleBytes> make_ipc_handle(Allocation& allocation) = 0;
  virtual std::optional<Result<DriverHandle>> import_ipc_handle(const IpcHandleBytes& bytes) = 0;

  /// The same for a fabric handle, which import_ipc_handle() imports too. Nothing if a process of
  /// another host may import it: only the driver's handle reaches that.
  virtual std::optional<Result<IpcHandleBytes>> make_fabric_handle(Allocation& allocation) = 0;
  /// This process is about to join a scope: LocalMembers::join().
  virtual void join(const ScopeId& scope, int members, int member) = 0;

  /// The processes of this user that have loaded such a library but not amem, for messages
  /// (process_names.h). Called without a lock.
  virtual std::string processes_without_amem(const char* library) = 0;

  /// Starts the peer service, if it does not run: other processes can reach this one.
  virtual void start_service() = 0;
  /// A call waits for the memory of the tag in a paused process, which may resume it.
  virtual void request_resume(const InstanceId& process, const Tag& tag) = 0;

  /// Imports that wait for an owner check again whether they must: exit() has begun, or
  /// PeerTable::aborts_imports() is true now. Called without a lock.
  virtual void wake_imports() = 0;

  /// The client has released the import, which will be erased: tells the owner. Called with the
  /// registry's mutex; must not wait.
  virtual void forget(const Allocation& import) = 0;
};

}  // namespace amem
