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

#include "transport/connection.h"
#include "transport/peer_handler.h"

namespace amem {

/// The peers of this process, the connections to them, and the calls that wait for their replies.
/// Used on the service thread only.
///
/// A peer has one connection, or two when both dialled at once. Each side sends everything on the
/// first one that it knew of, so that its messages stay in order. When one breaks, all are closed;
/// the peer is dialled again when something is to be sent, when calls were under way, or to learn
/// whether it has ended.
///
/// A peer has ended when the kernel says so: its pidfd is readable, or, where there is none, its
/// connections are closed and nobody listens at its address. One that lives may have closed its
/// connections, for want of memory or file numbers say, and still map what it has imported: its
/// calls wait until it answers, ends, or their deadlines pass.
///
/// The handler and `done`s may be called by every function here; they may call the PeerService,
/// which only posts orders.
class PeerLinks {
 public:
  struct Call {
    size_t request;  ///< the type
    Deadline deadline;
    CallDone done;
  };

  /// Listens at once. Errors: os.
  static Result<std::unique_ptr<PeerLinks>> create(const Hello& self, PeerHandler& handler,
                                                   const PeerOptions& options, int epoll);

  /// Sends a request, which `packet` is.
  void call(const InstanceId& instance, uint64_t request_id, Call call, OutPacket packet);
  /// Sends to a peer, dialling it when there is no connection. Lost when it cannot be reached.
  void send(const InstanceId& instance, OutPacket packet);
  /// Sends to a peer that is connected.
  void reply(const InstanceId& instance, OutPacket packet);

  /// Something happened on what epoll knows by `token`. Tokens start at kFirstToken and are never
  /// used twice.
  void on_event(uint64_t token, uint32_t events);
  /// Ends what has waited too long; tries again what had to wait for the kernel.
  void on_time();
  std::optional<Deadline> next_time() const;
  /// Completes all calls.
  void fail_all(const Error& why);

  static constexpr uint64_t kFirstToken = 16;

 private:
  struct Peer {
    PeerInfo info;
    /// Said Hello; the handler knows of it.
    bool known = false;
    /// Tokens; the first is the one that we send on.
    std::vector<uint64_t> connections;
    /// The pidfd.
    std::optional<WatchedFd> process;
    std::map<uint64_t, Call> calls;
    /// Calls that were under way when the connection broke: the peer may have carried them out.
    std::map<uint64_t, Call> lost_calls;
    /// Why its connections were closed, until it has said Hello again.
    std::optional<Error> broken;
  };

  PeerLinks(const Hello& self, PeerHandler& handler, const PeerOptions& options, int epoll)
      : self_(self), handler_(handler), options_(options), epoll_(epoll) {}

  void accept_waiting();
  Result<Connection*> add_connection(UniqueFd socket, uint64_t* token);
  Connection* find_connection(uint64_t token);
  Peer& peer_at(const InstanceId& instance);
  void watch_process(Peer& peer, int socket);
  /// False when there is no connection.
  bool dial_peer(const InstanceId& instance);
  void on_not_dialled(const InstanceId& instance, const Error& why);
  void redial_soon(const Peer& peer);
  void retry_soon();

  /// Takes one packet; false when there is none to take (any more).
  bool read_one(uint64_t token);
  Status dispatch(uint64_t token, Connection& connection, InPacket packet);
  Status check_version(const Connection& connection, uint8_t version);
  Status greet(uint64_t token, Connection& connection, const Hello& hello);
  static Status complete(Peer& peer, uint64_t request_id, Received reply);
  static void fail(std::map<uint64_t, Call>& calls, const Error& why);

  void remove_connection(uint64_t token, Error why);
  void on_disconnected(const InstanceId& instance);
  void on_process_end(const InstanceId& instance);
  void forget(const InstanceId& instance, const Error& why);

  /// "pid 4711 (instance …)", for messages to people; with what is known of its connection.
  static std::string describe(const Peer& peer);

  const Hello self_;
  PeerHandler& handler_;
  const PeerOptions options_;
  const int epoll_;
  std::optional<WatchedFd> listener_;
  std::unordered_map<uint64_t, std::unique_ptr<Connection>> connections_;
  std::map<InstanceId, Peer> peers_;
  /// By the tokens of their pidfds.
  std::unordered_map<uint64_t, InstanceId> processes_;
  /// To be dialled again.
  std::set<InstanceId> broken_;
  std::optional<Deadline> retry_at_;
  uint64_t next_token_ = kFirstToken;
  bool version_complained_ = false;
};

}  // namespace amem
