// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>

#include "memory/virtual_memory.h"
#include "sharing/exchange.h"

namespace amem {

/// Export and import of memory, with the handles of VirtualMemory. A function returns what the
/// driver returns or would return. Thread-safe.
class SharedHandles {
 public:
  SharedHandles(VirtualMemory& memory, Exchange& exchange)
      : memory_(memory), registry_(memory.registry()), exchange_(exchange) {}

  VirtualMemory& memory() { return memory_; }
  Exchange& exchange() { return exchange_; }

  /// A descriptor is a token (token.h). A fabric handle is one if all importers are on this host;
  /// otherwise it is the driver's, which does not identify its importers: the memory is persistent.
  DriverResult export_handle(void* shareable, DriverHandle handle, int type,
                             unsigned long long flags);
  /// May wait for the owner; called without a lock.
  DriverResult import_handle(DriverHandle* handle, void* shareable, int type);
  /// Calls of import_handle() that are running.
  int imports_running() const { return imports_running_; }

  /// The device of the calling thread's current context, on which the thread is about to use
  /// memory. Notes the context for pauses, and makes this process reachable for peers. Errors:
  /// driver, without a context.
  Result<int> device_of_caller();

  /// Erases imports that their client has released, and tells their owners.
  void release_unused() {
    if (!memory_.has_unused_imports()) [[likely]]
      return;
    MutexLock lock(registry_.mutex);
    release_unused_locked();
  }
  void release_unused_locked() AMEM_REQUIRES(registry_.mutex);

 private:
  bool export_as_token(Allocation& allocation, void* fabric_handle) AMEM_REQUIRES(registry_.mutex);
  bool import_fabric(const void* shareable, DriverHandle* handle, DriverResult* result);

  VirtualMemory& memory_;
  Registry& registry_;
  Exchange& exchange_;
  std::atomic<int> imports_running_{0};
};

}  // namespace amem
