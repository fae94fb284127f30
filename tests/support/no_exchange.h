// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cerrno>
#include <functional>

#include "sharing/exchange.h"

namespace amem {

/// Without other processes: counts the allocations that were forgotten.
class NoExchange : public Exchange {
 public:
  Result<int> make_token(Allocation& allocation) override {
    allocation.nonce = 1;
    if (file_numbers_left) return 77;
    return os_error(EMFILE, "memfd_create(amem-token)");
  }
  bool import_token(int, DriverHandle*, DriverResult*) override {
    if (during_import) during_import();
    return during_import != nullptr;
  }
  Result<IpcHandleBytes> make_ipc_handle(Allocation&) override { return IpcHandleBytes{}; }
  std::optional<Result<DriverHandle>> import_ipc_handle(const IpcHandleBytes&) override {
    return imported;
  }
  std::optional<Result<IpcHandleBytes>> make_fabric_handle(Allocation&) override {
    return fabric_handle;
  }
  void join(const ScopeId&, int, int) override {}
  std::string processes_without_amem(const char*) override { return ++foreign, "process 4711"; }
  void start_service() override {}
  void request_resume(const InstanceId&, const Tag&) override {}
  void wake_imports() override {}
  void forget(const Allocation&) override { ++forgotten; }
  std::function<void()> during_import{};          ///< if it is set, every descriptor is a token
  std::optional<IpcHandleBytes> fabric_handle{};  ///< set: all importers are on this host
  std::optional<Result<DriverHandle>> imported{};
  bool file_numbers_left = true;
  int forgotten = 0, foreign = 0;
};

}  // namespace amem
