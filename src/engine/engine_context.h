// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <memory>

#include "base/exit_flag.h"
#include "base/identity.h"
#include "driver/driver.h"
#include "engine/device_threads.h"
#include "peers/peer_service.h"
#include "registry/buffer_contents.h"
#include "registry/client.h"
#include "registry/registry.h"

namespace amem {

/// What the parts of the engine share. Constant after the process' set-up but for `peers`, which is
/// set once, before the first token is made or read.
struct EngineContext {
  const Driver& driver;
  Registry& registry;
  DeviceThreads& devices;
  const ExitFlag& exiting;  ///< the same that the device threads look at
  InstanceId self;
  size_t host_limit_bytes = 0;  ///< of the host pool; 0: none
  int32_t group = 0;
  long timeout_ms = 60000;
  bool trim_context = false;  ///< AMEM_TRIM_CONTEXT=1
  ContentSettings contents{};
  Client* client = nullptr;  ///< never nullptr once memory can be allocated
  std::atomic<PeerService*> peers{nullptr};
};

/// "process 1234", for messages.
std::string name_of_peer(const EngineContext& context, const InstanceId& peer);

/// "process 1234 is paused", for calls that wait for it.
std::string paused_text(pid_t pid);

}  // namespace amem
