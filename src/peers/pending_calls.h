// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/identity.h"
#include "base/result.h"
#include "peers/peer_handler.h"

namespace amem {

using CallDone = std::function<void(Result<Received>)>;

/// Our requests that no reply has come for. Used on the service thread only.
class PendingCalls {
 public:
  struct Call {
    InstanceId peer;
    /// The request's type, its fields left empty.
    Message request;
    Deadline deadline;
    CallDone done;
  };

  /// Ids rise from call to call.
  void add(uint64_t request_id, Call call) {
    last_id_ = request_id;
    calls_.emplace(request_id, std::move(call));
  }

  /// Completes the call that `reply` answers. A reply that nobody waits for (any more) is dropped
  /// and its fds are closed. Errors: protocol when it is of the wrong type; the call is completed
  /// with the same error.
  Status complete(const InstanceId& peer, uint64_t request_id, Received reply);

  /// The newest call; 0 before the first one.
  uint64_t last_id() const { return last_id_; }

  /// Completes all calls to this peer up to `last_id` with `why`, oldest first.
  void fail_peer(const InstanceId& peer, uint64_t last_id, const Error& why);
  /// Completes the Backs to this peer, which only a process that listens can carry out.
  void fail_restores(const InstanceId& peer, const Error& why);
  void fail_all(const Error& why);

  /// Completes what is past its deadline with timeout. `who` names a peer in the message.
  void expire(const std::function<std::string(const InstanceId&)>& who);

  std::optional<Deadline::Clock::time_point> next_deadline() const;
  bool any_for(const InstanceId& peer) const;

 private:
  template <typename Chosen>
  std::map<uint64_t, Call> extract(Chosen chosen);

  /// In the order in which they were made.
  std::map<uint64_t, Call> calls_;
  uint64_t last_id_ = 0;
};

}  // namespace amem
