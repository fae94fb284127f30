// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Checkpoints; checkpoint.h says what of them is simulated.
#include <unistd.h>

#include "sim/api.h"

using namespace amem::sim;

namespace {

template <typename Body>
CuResult on_own(Function function, int pid, Body body) {
  return driver_call(function, [&] {
    if (pid <= 0) return kErrorInvalidValue;
    return pid == getpid() ? body(Checkpoint::instance()) : kErrorNotSupported;
  });
}

}  // namespace

AMEM_SIM_API CuResult cuCheckpointProcessGetState(int pid, CuProcessState* state) {
  return on_own(Function::cuCheckpointProcessGetState, pid, [&](const Checkpoint& own) {
    if (state == nullptr) return kErrorInvalidValue;
    *state = own.state();
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuCheckpointProcessLock(int pid, const CuCheckpointLockArgs* args) {
  return on_own(Function::cuCheckpointProcessLock, pid,
                [&](Checkpoint& own) { return own.lock(args == nullptr ? 0 : args->timeout_ms); });
}

AMEM_SIM_API CuResult cuCheckpointProcessCheckpoint(int pid, const void*) {
  return on_own(Function::cuCheckpointProcessCheckpoint, pid,
                [](Checkpoint& own) { return own.save(); });
}

AMEM_SIM_API CuResult cuCheckpointProcessRestore(int pid, const void*) {
  return on_own(Function::cuCheckpointProcessRestore, pid,
                [](Checkpoint& own) { return own.restore(); });
}

AMEM_SIM_API CuResult cuCheckpointProcessUnlock(int pid, const void*) {
  return on_own(Function::cuCheckpointProcessUnlock, pid,
                [](Checkpoint& own) { return own.unlock(); });
}
