// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "sim/minccl/last_error.h"

namespace amem::minccl {

/// The limit of a wait of the host for a peer: a deadline, or the abort of the communicator.
struct Patience {
  Deadline deadline;
  const std::atomic<bool>* aborting = nullptr;

  /// MINCCL_TIMEOUT_MS from now.
  static Patience begin(const std::atomic<bool>* aborting = nullptr);
};

/// Waits until poll(2) reports one of `events` (or an error) for `fd`. `what` names the wait in
/// errors.
ncclResult_t wait_for(int fd, short events, const Patience& patience, const char* what);

/// TCP over the loopback interface.
ncclResult_t listen_loopback(UniqueFd* listener, uint16_t* port);
ncclResult_t connect_loopback(uint16_t port, const Patience& patience, UniqueFd* connection);
ncclResult_t accept_loopback(int listener, const Patience& patience, UniqueFd* connection);
ncclResult_t send_all(int fd, const void* data, size_t bytes, const Patience& patience);
ncclResult_t recv_all(int fd, void* data, size_t bytes, const Patience& patience);

}  // namespace amem::minccl
