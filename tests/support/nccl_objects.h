// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "base/active.h"
#include "base/exit_flag.h"
#include "clients/nccl/nccl_client.h"
#include "driver/device_threads.h"

namespace amem {

/// The objects of a process that NCCL's client uses. Intercepted calls use them while they exist,
/// from activate() on.
class NcclObjects {
 public:
  NcclObjects(const Driver& driver, Registry& registry, Exchange& exchange, PeerTable& peers,
              const VirtualMemory::Settings& settings = {},
              const NcclClient::Settings& of_client = {})
      : devices_(driver, exiting_),
        memory(driver, registry, devices_, settings),
        handles(memory, exchange),
        client(handles, peers, of_client) {}
  ~NcclObjects() { activate(false); }
  NcclObjects(const NcclObjects&) = delete;

  void activate(bool is_active = true) {
    g_active<SharedHandles> = is_active ? &handles : nullptr;
    g_active<NcclClient> = is_active ? &client : nullptr;
    g_active<VirtualMemory> = is_active ? &memory : nullptr;
  }

 private:
  ExitFlag exiting_;
  DeviceThreads devices_;

 public:
  VirtualMemory memory;
  SharedHandles handles;
  NcclClient client;
};

}  // namespace amem
