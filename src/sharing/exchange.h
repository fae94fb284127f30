// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

#include "base/result.h"
#include "driver/types.h"
#include "memory/allocation.h"
#include "sharing/token.h"

namespace amem {

/// What the hooks need from those who talk to other processes. Implemented by the engine, handed in
/// by the shim: the hooks know neither.
class Exchange {
 public:
  virtual ~Exchange() = default;

  /// A descriptor to hand out in place of the driver's: it names the allocation for whoever imports
  /// it. The mutex of the registry is held; must not wait.
  virtual Result<int> make_token(Allocation& allocation) = 0;

  /// Imports what `fd` names, when it is a token. False for every other descriptor: the driver is
  /// asked then. May wait for the owner, up to the deadline of the process; no lock is held.
  virtual bool import_token(int fd, DriverHandle* handle, DriverResult* result) = 0;

  /// The same for an IPC handle of CUDA.
  virtual Result<IpcHandleBytes> make_ipc_handle(Allocation& allocation) = 0;
  virtual bool import_ipc_handle(const IpcHandleBytes& bytes, DriverHandle* handle,
                                 DriverResult* result) = 0;

  /// The processes of this user that have loaded such a library and have no amem, for messages
  /// (unlike_peers.h). No lock is held.
  virtual std::string processes_without_amem(const char* library) = 0;

  /// The client gave the allocation up; it is about to be erased. The mutex of the registry is
  /// held; must not wait.
  virtual void forget(const Allocation& allocation) = 0;
};

}  // namespace amem
