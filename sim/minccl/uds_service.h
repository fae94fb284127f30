// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <thread>

#include "sim/minccl/driver_calls.h"
#include "sim/minccl/sockets.h"

namespace amem::minccl {

/// Where a service listens. As with NCCL, the rank in the name is that of the communicator from
/// which a child was split.
struct UdsName {
  uint64_t hash;
  int rank;
};

/// The thread that sends file descriptors to other ranks: for a memory handle of this process
/// (NCCL's "UDS Service", proxy.cc:1555@2.30.7), or for a host memory file. Datagrams over an
/// abstract Unix socket; one service for each communicator. As NCCL's, it does not answer a request
/// for memory that it cannot export (proxy.cc:1566@2.30.7).
class UdsService {
 public:
  ~UdsService() { stop(); }

  /// `context` is current on the thread.
  ncclResult_t start(CuContext context, int rank);
  void stop();
  UdsName name() const { return name_; }

  /// Keeps `fd` until a peer has fetched it with the returned number. Thread-safe.
  uint64_t offer_file(UniqueFd fd);

 private:
  void serve(CuContext context);
  void answer();
  int file_for(int kind, uint64_t value, UniqueFd* fd);

  UniqueFd socket_;
  UniqueFd stop_event_;
  UdsName name_{};
  std::thread thread_;
  std::mutex mutex_;
  std::map<uint64_t, UniqueFd> files_;
  uint64_t next_file_ = 1;
};

/// Requests the descriptor of a memory handle or an offered file from the service `owner`.
ncclResult_t fetch_memory_fd(UdsName owner, CuMemHandle handle, const Patience& patience,
                             UniqueFd* fd);
ncclResult_t fetch_offered_file(UdsName owner, uint64_t number, const Patience& patience,
                                UniqueFd* fd);

}  // namespace amem::minccl
