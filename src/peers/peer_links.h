// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "peers/connection.h"
#include "peers/peer_directory.h"
#include "peers/peer_options.h"
#include "peers/pending_calls.h"
#include "peers/refused_sockets.h"

namespace amem {

/// The connections of this process and the peers at their other ends: who they are, which
/// connection we send on, what waits until there is one. Used on the service thread only.
///
/// A peer has one connection, or two when both dialled at once. Each side sends everything on the
/// first one that it knew of, so that its messages stay in order. When one breaks, all are closed
/// and the peer is dialled again: only one that has no listener any more has ended. A connection
/// may break for want of memory as well, and whoever has not ended still maps what it has imported.
///
/// Nothing here calls the handler or a `done` while it changes its own tables: failures are noted
/// (doom) and carried out by reap() at the end of the service thread's round.
class PeerLinks {
 public:
  using TimePoint = Deadline::Clock::time_point;
  enum class Reach { dial, connected_only };

  struct Surroundings {
    Hello self;
    PeerHandler& handler;
    const PeerOptions& options;
    FdLedger& ledger;
    int epoll;
    PendingCalls& calls;
    PeerDirectory& directory;
    /// Brings the service thread to ask has_room() again. Any thread.
    std::function<void()> wake;
  };
  explicit PeerLinks(const Surroundings& around) : around_(around), refused_(around.wake) {}

  /// Takes a connection from the listener; closes it at once when its user is not trusted.
  void accept(UniqueFd socket);
  /// True while one more connection may be accepted.
  bool has_room() const;

  /// Sends to a peer, dialling it when there is no connection and `reach` says so; otherwise the
  /// packet is dropped.
  void deliver(const InstanceId& peer, OutPacket packet, Reach reach);

  /// Something happened on the connection that epoll knows by `token`. Tokens start at
  /// kFirstToken and are never used twice.
  void on_event(uint64_t token, uint32_t events);
  /// Dials again, tries to send again, closes connections that said nothing.
  void on_time(TimePoint now);
  std::optional<TimePoint> next_time() const;
  /// Carries out what was doomed. Calls `done`s and the handler.
  void reap();

  /// "pid 4711 (instance …)", for messages to people.
  std::string describe(const InstanceId& peer) const;

  static constexpr uint64_t kFirstToken = 16;

 private:
  struct Link {
    Link(uint64_t token_in, TrackedFd socket, pid_t pid_in)
        : token(token_in), connection(std::move(socket)), pid(pid_in) {}
    uint64_t token;
    Connection connection;
    pid_t pid;
    /// Whom we dialled, or who said Hello.
    std::optional<InstanceId> peer;
    bool greeted = false;
    /// Nothing more is read: it ended or broke the protocol.
    bool finished = false;
    bool wants_writable = false;
    std::optional<TimePoint> flush_again_at;
    /// Not watched for packets until then; epoll is told anew.
    std::optional<TimePoint> read_again_at;
    /// Of an accepted connection without a Hello.
    std::optional<TimePoint> hello_by;
  };
  struct Peer {
    PeerInfo info;
    /// Said Hello; the handler knows of it.
    bool known = false;
    /// Tokens; the first is the one that we send on.
    std::vector<uint64_t> links;
    std::deque<OutPacket> waiting;
    size_t waiting_bytes = 0;
    std::optional<TimePoint> dial_again_at;
    int dial_pause_ms = kFirstDialPauseMs;
    TimePoint dial_until;
    /// Why its connections were closed, until it has said Hello again; and the last call before.
    std::optional<Error> broken;
    uint64_t last_call_before = 0;
  };
  /// A peer that cannot be reached, or not over this connection.
  struct Loss {
    InstanceId peer;
    Error why;
    bool has_ended = false;
    uint64_t link = 0;  ///< the token of the connection; 0 for none
  };
  static constexpr int kFirstDialPauseMs = 1;
  /// How long the kernel gets to find memory.
  static constexpr int kStarvedPauseMs = 10;
  static TimePoint in_ms(int ms) { return Deadline::Clock::now() + std::chrono::milliseconds(ms); }

  Link* find_link(uint64_t token);
  Link* add_link(UniqueFd socket, pid_t pid);
  void remove_link(uint64_t token);
  bool is_silent(const Link& link) const { return link.hello_by.has_value(); }

  void dial_peer(const InstanceId& instance, Peer& peer);
  void connected(const InstanceId& instance, Peer& peer, UniqueFd socket);
  void send_waiting(Peer& peer);
  void push(Link& link, OutPacket packet);
  void flush(Link& link);
  /// Tells epoll what the link waits for.
  void watch(Link& link);

  /// Takes one packet; false when there is none to take (any more).
  bool read_one(uint64_t token);
  Status dispatch(Link& link, Arrival arrival);
  Status check_version(const Link& link, const Arrival& arrival);
  Status greet(Link& link, const Hello& hello);

  void doom(const Link& link, Error why);
  void doom(const InstanceId& peer, Error why, bool has_ended = false);
  void lose(Loss loss);
  void dial_again(Peer& peer, Loss loss);
  void forget(const Loss& loss);

  const Surroundings around_;
  RefusedSockets refused_;
  std::unordered_map<uint64_t, std::unique_ptr<Link>> links_;
  std::map<InstanceId, Peer> peers_;
  size_t silent_ = 0;
  uint64_t next_token_ = kFirstToken;
  bool version_complained_ = false;
  std::vector<Loss> doomed_peers_;
  std::vector<uint64_t> doomed_links_;
};

}  // namespace amem
