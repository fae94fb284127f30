// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "base/identity.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/mailbox.h"
#include "transport/peer_handler.h"
#include "transport/peer_links.h"

namespace amem {

/// How this process talks to the other amem processes of its user on this host: a listening socket,
/// a connection to each peer, and one thread that serves them all. Everything sent to one peer
/// arrives in the order in which it was sent, whatever it is and whichever thread sent it.
///
/// Thread-safe but for destruction. It lives until the process ends; destroying it (tests do) joins
/// the thread and completes what is pending with misuse.
/// Traps: handler and `done` run on the service thread and must not block. A call that timed out
/// may still reach the peer; its late reply is dropped. In a forked child, forget_after_fork()
/// first; the service is never destroyed there.
class PeerService {
 public:
  /// `handler` must outlive the service. Errors: os.
  static Result<std::unique_ptr<PeerService>> start(InstanceId self, int32_t group,
                                                    PeerHandler& handler,
                                                    const PeerOptions& options = {});
  ~PeerService();
  PeerService(const PeerService&) = delete;
  /// Ends the thread: what is pending is completed with misuse, what is asked of it later is lost.
  void stop();

  /// Sends a request, dialling the peer when there is no connection. `done` runs exactly once, on
  /// the service thread and in order with that peer's other messages: with the reply, or with an
  /// Error. Never blocks, whatever the size. Any thread, the service thread too. Errors: peer when
  /// the peer has ended; timeout at the deadline, naming its pid; protocol when it broke the
  /// protocol or speaks another version (it may be alive); misuse for what is no request or is over
  /// its limits; os, ECONNRESET when the connection broke and was made again.
  void call(const InstanceId& peer, Message message, std::vector<UniqueFd> fds, Deadline deadline,
            CallDone done);
  /// Answers a request that on_message() brought; nothing happens when the peer has gone. Any
  /// thread.
  void reply(const InstanceId& peer, uint64_t request_id, Message message,
             std::vector<UniqueFd> fds);
  /// Sends a notice, dialling when there is no connection; lost when the peer cannot be reached.
  /// Any thread.
  void send(const InstanceId& peer, Message message, std::vector<UniqueFd> fds);

  /// At exit(): nobody finds this process any more. Nothing in a child that was forked.
  void withdraw();

  /// In a forked child, where the thread is not: closes every fd of the service, so that the child
  /// neither answers for its parent nor keeps a connection open or memory alive after the parent's
  /// end. Async-signal-safe: touches no lock and no memory but its own flags. Afterwards calls
  /// complete at once, on the calling thread, with misuse; everything else does nothing. (An fd
  /// that another thread was opening at the moment of the fork stays open until exec.)
  void forget_after_fork();

 private:
  explicit PeerService(const InstanceId& self) : self_(self) {}
  Status open(const Hello& self, PeerHandler& handler, const PeerOptions& options);
  void run();
  void carry_out(Order order);

  const InstanceId self_;
  const pid_t started_by_ = getpid();
  std::optional<ServiceFd> epoll_;
  std::unique_ptr<Mailbox> mailbox_;
  std::unique_ptr<PeerLinks> links_;
  std::optional<pthread_t> thread_;
  std::atomic<uint64_t> last_request_id_{0};
  std::atomic<bool> forgotten_{false};
};

}  // namespace amem
