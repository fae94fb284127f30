// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <gtest/gtest.h>

#include "engine/engine_context.h"

namespace amem {

/// What both sides of sharing stand on, with a driver whose functions a test puts in.
class EngineTest : public testing::Test {
 protected:
  /// Ends the service, which production leaves to the end of the process. For the destructor of a
  /// test that has started one: before what it hands messages to.
  void end_service() { const std::unique_ptr<PeerService> service(context_.peers.load()); }

  Driver driver_{};
  Registry registry_;
  CallGate gate_;
  CallCounter calls_;
  ExitFlag exiting_;
  DeviceThreads devices_{driver_, exiting_};
  EngineContext context_{driver_,  registry_,           gate_, calls_, devices_,
                         exiting_, random_instance_id()};
};

}  // namespace amem
