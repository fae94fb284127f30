// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "base/identity.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/peer_handler.h"
#include "transport/peer_links.h"

namespace amem {

/// Communication with the other amem processes of the user on this host: a listening socket, a
/// connection to each peer, and one thread for all of them. Messages to one peer arrive in the
/// order in which they were sent, from any thread.
///
/// Thread-safe, except destruction. It exists until the process ends; its destructor, for tests,
/// joins the thread and completes pending calls with misuse.
///
/// The handler and `done` run on the service thread and must not block. A request may reach the
/// peer after its deadline; the late reply is dropped. A forked child has no service thread and
/// does not use the service.
class PeerService {
 public:
  /// `handler` must outlive the service. Errors: os.
  static Result<std::unique_ptr<PeerService>> start(InstanceId self, PeerHandler& handler,
                                                    const PeerOptions& options = {});
  ~PeerService();
  /// Ends the thread. Pending calls are completed with misuse; later calls have no effect.
  void stop();

  /// Sends a request, and connects to the peer if necessary. `done` is called once, on the service
  /// thread, in order with the other messages of the peer, with the reply or an Error. Does not
  /// block. Any thread, including the service thread. Errors: peer, if the peer has ended; timeout,
  /// with its pid; protocol, if it has violated the protocol or has another version (it may be
  /// alive); misuse, for a message that is not a request or exceeds its limits; os, with ECONNRESET
  /// if the connection failed and was made again.
  void call(const InstanceId& peer, Message message, std::vector<UniqueFd> fds, Deadline deadline,
            CallDone done);
  /// Answers a request of on_message(). Has no effect if the peer has ended. Any thread.
  void reply(const InstanceId& peer, uint64_t request_id, Message message,
             std::vector<UniqueFd> fds);
  /// Sends a notice, and connects to the peer if necessary. The notice is lost if that fails. Any
  /// thread.
  void send(const InstanceId& peer, Message message, std::vector<UniqueFd> fds);

  /// From now on processes of other hosts that have this key reach this one, at the address that it
  /// returns, and it them. Once. Any thread. Errors and `interfaces`: those of listen_for_hosts().
  Result<HostAddress> open_to_hosts(const JobKey& key, const std::string& interfaces);
  /// Where a process listens that may be on another host; before the first message to it.
  void locate(const InstanceId& peer, const HostAddress& address);

  /// At exit(): removes the name, so that other processes do not find this one. Has no effect in a
  /// forked child.
  void withdraw();

 private:
  /// A message that a thread sends through the service thread.
  struct Order {
    InstanceId peer;
    bool is_reply = false;
    /// Misuse if a peer would refuse the message.
    Result<Packet> packet;
    /// Only for a request.
    uint64_t request_id = 0;
    std::optional<PeerLinks::Call> call{};
    std::function<void(PeerLinks&)> change{};  ///< in place of a message
  };
  struct Queue {
    Mutex mutex;
    std::vector<Order> orders AMEM_GUARDED_BY(mutex);
  };

  explicit PeerService(const InstanceId& self) : self_(self) {}
  Status open(const Hello& self, PeerHandler& handler, const PeerOptions& options);
  void run();
  void carry_out(Order order);
  void post(Order order) AMEM_EXCLUDES(queue_.mutex);
  std::vector<Order> take_orders() AMEM_EXCLUDES(queue_.mutex);
  void wake();

  const InstanceId self_;
  const pid_t started_by_ = getpid();
  UniqueFd epoll_;
  /// An eventfd: readable if there are orders, or the thread has to end.
  std::optional<WatchedFd> event_;
  std::unique_ptr<PeerLinks> links_;
  std::optional<pthread_t> thread_;
  Queue queue_;
  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> last_request_id_{0};
};

}  // namespace amem
