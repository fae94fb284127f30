// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The receiving half of PeerLinks: from a readable socket to the handler.
#include <cerrno>
#include <string>
#include <utility>

#include "base/log.h"
#include "peers/peer_links.h"

namespace amem {

bool PeerLinks::read_one(uint64_t token) {
  Link* link = find_link(token);
  if (link == nullptr || link->finished) return false;
  Result<Arrival> arrival = link->connection.receive();
  Status outcome = ok_status();
  if (!arrival.ok()) {
    outcome = std::move(arrival.error());
  } else if (arrival.value().what == Arrival::What::nothing) {
    return false;
  } else if (arrival.value().what == Arrival::What::starved) {
    link->read_again_at = in_ms(kStarvedPauseMs);
    watch(*link);
    return false;
  } else if (arrival.value().what == Arrival::What::end) {
    outcome = make_error(ErrorKind::peer, 0, "it closed the connection");
  } else {
    outcome = dispatch(*link, std::move(arrival.value()));
  }
  if (outcome.ok()) return true;

  link->finished = true;
  Error why = std::move(outcome.error());
  why.message = "pid " + std::to_string(link->pid) +
                (link->peer ? " (instance " + link->peer->hex() + "): " : ": ") + why.message;
  doom(*link, std::move(why));
  return false;
}

Status PeerLinks::check_version(const Link& link, const Arrival& arrival) {
  const uint8_t version = arrival.bytes.front();
  if (version == kWireVersion) return ok_status();
  if (!std::exchange(version_complained_, true))
    AMEM_LOG(warn, -1, "pid %d speaks wire version %u of amem, this process %u: they do not talk",
             link.pid, version, kWireVersion);
  return make_error(ErrorKind::protocol, EPROTONOSUPPORT,
                    "it speaks wire version %u, this process %u", version, kWireVersion);
}

Status PeerLinks::dispatch(Link& link, Arrival arrival) {
  AMEM_TRY(check_version(link, arrival));
  Result<Envelope> decoded = decode(arrival.bytes);
  if (!decoded.ok()) return std::move(decoded.error());
  Message& message = decoded.value().message;
  const uint64_t request_id = decoded.value().request_id;
  if (arrival.fds.size() != fds_of(message))
    return make_error(ErrorKind::protocol, 0, "%s came with %zu fds instead of %zu",
                      name_of(message), arrival.fds.size(), fds_of(message));

  const Role role = role_of(message);
  if ((role == Role::greeting) == link.greeted)
    return make_error(ErrorKind::protocol, 0, "%s came %s Hello", name_of(message),
                      link.greeted ? "after a" : "before");
  if (role == Role::greeting) return greet(link, std::get<Hello>(message));

  Received received{std::move(message), std::move(arrival.fds)};
  if (role == Role::reply)
    return around_.calls.complete(*link.peer, request_id, std::move(received));
  // A copy: the handler may be told of this peer while the tables change.
  const PeerInfo from = peers_.find(*link.peer)->second.info;
  around_.handler.on_message(from, request_id, std::move(received));
  return ok_status();
}

Status PeerLinks::greet(Link& link, const Hello& hello) {
  if (link.peer && *link.peer != hello.instance)
    return make_error(ErrorKind::protocol, 0, "it says that it is instance %s",
                      hello.instance.hex().c_str());
  const auto found = peers_.find(hello.instance);
  if (found != peers_.end() && !found->second.links.empty() && found->second.info.pid != link.pid)
    return make_error(ErrorKind::protocol, 0, "it says that it is instance %s, which is pid %d",
                      hello.instance.hex().c_str(), found->second.info.pid);

  Peer& peer = peers_[hello.instance];
  if (!link.peer) {
    link.peer = hello.instance;
    link.hello_by.reset();
    --silent_;
    peer.links.push_back(link.token);
  }
  link.greeted = true;
  peer.info = PeerInfo{hello.instance, link.pid, hello.group};
  peer.known = true;
  peer.dial_pause_ms = kFirstDialPauseMs;
  around_.directory.put(peer.info);
  send_waiting(peer);
  if (const auto broken = std::exchange(peer.broken, std::nullopt))
    around_.calls.fail_peer(hello.instance, peer.last_call_before,
                            make_error(ErrorKind::os, ECONNRESET,
                                       "the connection to pid %d broke and was made again: %s",
                                       link.pid, broken->message.c_str()));
  return ok_status();
}

}  // namespace amem
