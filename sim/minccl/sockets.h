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

/// Where a socket listens, in the byte order of the network.
struct Endpoint {
  uint32_t ip;
  uint16_t port;
};

/// TCP from and to MINCCL_ADDRESS of each host.
ncclResult_t listen_here(UniqueFd* listener, Endpoint* at);
ncclResult_t connect_to(const Endpoint& at, const Patience& patience, UniqueFd* connection);
ncclResult_t accept_one(int listener, const Patience& patience, UniqueFd* connection);
ncclResult_t send_all(int fd, const void* data, size_t bytes, const Patience& patience);
ncclResult_t recv_all(int fd, void* data, size_t bytes, const Patience& patience);

}  // namespace amem::minccl
