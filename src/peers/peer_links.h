// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "peers/link.h"
#include "peers/peer_directory.h"
#include "peers/peer_options.h"
#include "peers/pending_calls.h"

namespace amem {

/// The peers of this process and the connections to them: which connection we send on, what waits
/// until there is one, and who has ended. Used on the service thread only.
///
/// A peer has one connection, or two when both dialled at once. Each side sends everything on the
/// first one that it knew of, so that its messages stay in order. When one breaks, all are closed;
/// the peer is dialled again when something is to be sent or answered.
///
/// A peer has ended when the kernel says so: its pidfd is readable, or, where there is none, its
/// connections are closed and nobody listens at its address. One that lives may have closed its
/// connections, for want of memory or file numbers say, and still map what it has imported: its
/// calls wait until it answers, ends, or their deadlines pass.
///
/// The handler and `done`s may be called by every function here; they may call the PeerService,
/// which only posts to the mailbox.
class PeerLinks {
 public:
  using TimePoint = Link::TimePoint;
  enum class Reach { dial, connected_only };

  struct Surroundings {
    Hello self;
    PeerHandler& handler;
    const PeerOptions& options;
    FdLedger& ledger;
    int epoll;
    PendingCalls& calls;
    PeerDirectory& directory;
  };
  explicit PeerLinks(const Surroundings& around) : around_(around) {}

  /// Takes a connection from the listener.
  void accept(UniqueFd socket);
  /// True while one more connection may be accepted.
  bool has_room() const;

  /// Sends to a peer, dialling it when there is no connection and `reach` says so; otherwise the
  /// packet is dropped.
  void deliver(const InstanceId& instance, OutPacket packet, Reach reach);

  /// Something happened on what epoll knows by `token`. Tokens start at kFirstToken and are never
  /// used twice.
  void on_event(uint64_t token, uint32_t events);
  /// Dials again, tries to send again, closes connections that said nothing.
  void on_time(TimePoint now);
  std::optional<TimePoint> next_time() const;
  /// Removes the connections that have failed. At the end of each round of the service thread.
  void reap();

  /// "pid 4711 (instance …)", for messages to people; with what is known of its connection.
  std::string describe(const InstanceId& instance) const;

  static constexpr uint64_t kFirstToken = 16;

 private:
  struct Peer {
    PeerInfo info;
    /// Said Hello; the handler knows of it.
    bool known = false;
    /// Tokens; the first is the one that we send on.
    std::vector<uint64_t> links;
    /// The pidfd, and its token.
    std::optional<TrackedFd> process;
    uint64_t process_token = 0;
    std::deque<OutPacket> waiting;
    size_t waiting_bytes = 0;
    std::optional<TimePoint> dial_again_at;
    /// How long it is dialled when no call waits.
    TimePoint dial_until;
    /// Why its connections were closed, until it has said Hello again; and the last call before.
    std::optional<Error> broken;
    uint64_t last_call_before = 0;
  };

  Link* find_link(uint64_t token);
  Result<Link*> add_link(UniqueFd socket);
  void remove_link(uint64_t token);
  bool is_silent(const Link& link) const { return link.hello_by.has_value(); }
  void send(Link& link, OutPacket packet) {
    link.send(std::move(packet), around_.options.max_queued_bytes);
  }

  void dial_peer(const InstanceId& instance, Peer& peer);
  Status connect(const InstanceId& instance, Peer& peer, UniqueFd socket);
  void send_waiting(Peer& peer);
  /// Nothing more is tried for what waits for this peer.
  void give_up(const InstanceId& instance, const Error& why);

  /// Takes one packet; false when there is none to take (any more).
  bool read_one(uint64_t token);
  Status dispatch(Link& link, Arrival arrival);
  Status check_version(const Link& link, const Arrival& arrival);
  Status greet(Link& link, const Hello& hello);

  /// Closes all connections of the peer of a link that has failed.
  void disconnect(const InstanceId& instance, const Error& why);
  void watch_process(const InstanceId& instance, Peer& peer, const Link& link);
  void on_process_end(uint64_t token);
  void forget(const InstanceId& instance, const Error& why);

  const Surroundings around_;
  std::unordered_map<uint64_t, std::unique_ptr<Link>> links_;
  std::map<InstanceId, Peer> peers_;
  /// By the tokens of their pidfds.
  std::unordered_map<uint64_t, InstanceId> processes_;
  size_t silent_ = 0;
  uint64_t next_token_ = kFirstToken;
  bool version_complained_ = false;
};

}  // namespace amem
