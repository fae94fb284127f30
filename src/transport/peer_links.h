// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/deadline.h"
#include "transport/connection.h"
#include "transport/peer_handler.h"

namespace amem {

/// The peers of this process, the connections to them, and the calls that wait for replies. For the
/// service thread.
///
/// A peer has one connection, or two if both processes connected at the same time. Each side sends
/// all messages on the first connection that it had, so that they stay in order. If a connection
/// fails, all are closed. A new one is made to send a message, if calls were pending, or to find
/// out whether the peer has ended.
///
/// A peer has ended if its pidfd is readable or, without a pidfd, if its connections are closed and
/// no process listens at its address. A live peer may have closed its connections, for example for
/// lack of memory or descriptors, and still map its imports: calls to it wait until it answers or
/// ends, or until their deadlines. If its address space has ended too, it runs another program,
/// which maps nothing: this is its end.
///
/// A process of another host has ended if its connections are closed and its host says that nobody
/// listens at its port. One whose host cannot be reached has not.
///
/// A peer to which this process has sent nothing on its own, and whose end the handler does not
/// need, is a guest: it leaves nothing behind when its connection closes.
///
/// All functions may call the handler and `done`, which may call the PeerService: it only queues
/// orders.
class PeerLinks {
 public:
  struct Call {
    size_t request;  ///< the type
    Deadline deadline;
    CallDone done;
  };

  /// Starts listening. Errors: os.
  static Result<std::unique_ptr<PeerLinks>> create(const Hello& self, PeerHandler& handler,
                                                   const PeerOptions& options, int epoll);

  /// From now on also accepts and dials processes of other hosts that have this key. `port`: of the
  /// listener.
  void open_to_hosts(UniqueFd listener, const JobKey& key, uint16_t port);
  /// Where a process listens that may be on another host.
  void locate(const InstanceId& instance, const HostAddress& address) {
    addresses_[instance] = address;
  }

  /// Sends `packet`, which is a request.
  void call(const InstanceId& instance, uint64_t request_id, Call call, Packet packet);
  /// Sends to a peer and connects to it if necessary. The message is lost if that fails.
  void send(const InstanceId& instance, Packet packet);
  /// Sends to a connected peer. Closes its connection if it has not read so many packets.
  void reply(const InstanceId& instance, Packet packet, size_t most_queued = 4096);

  /// Handles an epoll event of `token`. Tokens start at kFirstToken and are unique.
  void on_event(uint64_t token, uint32_t events);
  /// Ends calls after their deadlines, and repeats sends that the kernel had refused.
  void on_time();
  std::optional<Deadline> next_time() const;
  /// Completes all calls.
  void fail_all(const Error& why);

  static constexpr uint64_t kFirstToken = 16;

  /// Connections of guests.
  static constexpr size_t kMaxGuests = 128;

 private:
  struct Peer {
    PeerInfo info;
    /// It has sent Hello, and the handler was notified.
    bool known = false;
    /// It is no guest.
    bool is_partner = false;
    /// Tokens. This process sends on the first one.
    std::vector<uint64_t> connections;
    /// The pidfd.
    std::optional<WatchedFd> process;
    /// mappings_of_process().
    std::optional<UniqueFd> mappings;
    std::map<uint64_t, Call> calls;
    /// Calls that were pending when the connection failed: the peer may have carried them out.
    std::map<uint64_t, Call> lost_calls;
    /// Why its connections were closed; until the next Hello.
    std::optional<Error> broken;
  };

  PeerLinks(const Hello& self, PeerHandler& handler, const PeerOptions& options, int epoll)
      : self_(self), handler_(handler), options_(options), epoll_(epoll) {}

  void accept_waiting(WatchedFd& listener);
  std::unique_ptr<HostStream> stream_to(const HostAddress& address, bool is_dialled);
  Result<Connection*> add_connection(UniqueFd socket, std::unique_ptr<HostStream> stream,
                                     uint64_t* token);
  Connection* find_connection(uint64_t token);
  Peer& peer_at(const InstanceId& instance);
  void watch_process(Peer& peer, int socket);
  void make_partner(Peer& peer);
  uint64_t guest_to_dismiss();
  void dismiss_guest(uint64_t token);
  /// False if there is no connection.
  bool dial_peer(const InstanceId& instance);
  void on_dial_failed(const InstanceId& instance, const Error& why);
  void redial_soon(const Peer& peer, bool was_greeted = false);
  void retry_soon();

  /// Receives one packet. False if there is none, or the connection was closed.
  bool read_one(uint64_t token);
  Status dispatch(uint64_t token, Connection& connection, Packet packet);
  Status greet(uint64_t token, Connection& connection, const Hello& hello);
  void finish_former(const InstanceId& instance, const Connection& next);
  static Status complete(Peer& peer, uint64_t request_id, Received reply);
  static void fail(std::map<uint64_t, Call>& calls, const Error& why);

  void remove_connection(uint64_t token, Error why);
  /// `was_greeted`: the peer had sent Hello on the last connection.
  void on_disconnected(const InstanceId& instance, bool was_greeted);
  void on_process_end(const InstanceId& instance);
  /// False unless its process runs another program.
  bool forget_after_exec(const InstanceId& instance);
  void forget(const InstanceId& instance, const Error& why);

  /// "pid 4711 (instance …)" and the state of its connection, for error texts.
  static std::string describe(const Peer& peer);

  const Hello self_;
  PeerHandler& handler_;
  const PeerOptions options_;
  const int epoll_;
  std::optional<WatchedFd> listener_;
  struct Hosts {
    WatchedFd listener;
    JobKey key;
    uint16_t port;
  };
  std::optional<Hosts> hosts_;
  std::map<InstanceId, HostAddress> addresses_;
  std::unordered_map<uint64_t, std::unique_ptr<Connection>> connections_;
  std::map<InstanceId, Peer> peers_;
  /// By token, which is the order in which they were accepted.
  std::map<uint64_t, Deadline> guests_;
  /// By token of the pidfd.
  std::unordered_map<uint64_t, InstanceId> processes_;
  /// When these peers are connected to again.
  std::map<InstanceId, Deadline> broken_;
  std::optional<Deadline> retry_at_;
  uint64_t next_token_ = kFirstToken;
  /// Of the processes that have violated the protocol or speak another version, those that the log
  /// has named: no more than these, because any process of the user may connect again and again.
  static constexpr size_t kMaxWarned = 16;
  std::set<std::string> warned_;
};

}  // namespace amem
